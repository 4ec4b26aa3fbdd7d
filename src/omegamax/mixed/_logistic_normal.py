"""Softmax of a Gaussian vector."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from omegamax.mixed._gaussian import GaussianMixed
from omegamax.mixed._quadrature import legendre

_LOG_2PI = math.log(2 * math.pi)
# Of the integral over the log-odds of two vertices: nodes, deviations on either side of the mean, and where what is
# integrated has decayed to 4e-18.
_ORDER, _REACH, _END = 96, 12.0, 40.0


class LogisticNormal(GaussianMixed):
    r"""Softmax of a Gaussian vector: all of its mass is inside the simplex.

    .. math:: Y = \mathrm{softmax}(X), \qquad X \sim N(\mu, \Sigma)

    It is to softmax what :class:`GaussianSparsemax` is to sparsemax, and takes the same parameters. The density at y is
    that of all vectors :math:`\log y + t \mathbf 1`, integrated over the shift t that softmax ignores:

    .. math:: p(y) = \frac{(2\pi)^{-(K-1)/2}}{\prod_i y_i}
              \bigl(\lvert \Sigma \rvert \, \mathbf 1^\top \Sigma^{-1} \mathbf 1\bigr)^{-1/2}
              \exp\Bigl(-\tfrac12 \min_t \lVert \log y + t \mathbf 1 - \mu \rVert^2_{\Sigma^{-1}}\Bigr)

    in closed form for every covariance, and so is the divergence of two of them. Torch's distribution of this name
    breaks a stick with K - 1 Gaussian numbers instead; that one is not symmetric in the vertices.

    The entropy and the mean have no closed form. With two vertices they are an integral over the log-odds, computed to
    rounding; with more see :func:`omegamax.mixed.entropy`.

    Args:
        loc: the location mu, ``[*, K]``.
        scale: deviations of independent entries, ``[*, K]``, or a number.
        cov: covariance matrix, ``[*, K, K]``.
        scale_tril: lower triangular root of the covariance, ``[*, K, K]``.
        cov_factor, cov_diag: ``W [*, K, r]`` and a positive diagonal ``[*, K]`` of the covariance ``W W' + D``.

    Half precision is computed, and returned, in float32.

        >>> p = LogisticNormal(torch.tensor([1.0, 0.5, 0.0]), scale=0.5)
        >>> p.log_prob(torch.tensor([[0.5, 0.3, 0.2], [0.75, 0.25, 0.0]]))
        tensor([2.4950,   -inf])
        >>> p.face_probs()  # three vertices, three edges, the interior
        tensor([0., 0., 0., 0., 0., 0., 1.])

    Reference: Aitchison & Shen (Biometrika 1980); beside Gaussian-sparsemax in Farinhas et al. (ICLR 2022).
    """

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``, with gradients to every parameter."""
        # An entry that rounds to 0 would leave the interior.
        return self.rsample_scores(sample_shape).softmax(-1).clamp(min=torch.finfo(self.loc.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, K]``; -inf on the border."""
        self._check_value(value)
        value = value.to(torch.promote_types(value.dtype, self.loc.dtype))
        inside = self.face(value).all(-1)
        # Points on the border are moved to where the density can be evaluated, then left out.
        log_y = torch.where(inside.unsqueeze(-1), value, 1 / self.vertices).log()
        squares, log_volume = self._distance(log_y - self.loc)
        log_p = -0.5 * (squares + log_volume + (self.vertices - 1) * _LOG_2PI) - log_y.sum(-1)
        return torch.where(inside, log_p, -math.inf)

    def _distance(self, r: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the squared distance of residuals ``[*, K]`` from multiples of ones, by
        :math:`\lVert r \rVert^2_{\Sigma^{-1}}`, and :math:`\log(|\Sigma| \mathbf 1^\top \Sigma^{-1} \mathbf 1)`.
        """
        if self._diagonal:
            least = self.scale.amin(-1, keepdim=True)  # weights relative to it neither overflow nor vanish
            w = (least / self.scale).square()
            total = w.sum(-1, keepdim=True)
            off = (r - (w * r).sum(-1, keepdim=True) / total) / self.scale
            return off.square().sum(-1), 2 * self.scale.log().sum(-1) + (total.log() - 2 * least.log()).squeeze(-1)
        root = self.scale_tril
        u, v = (
            torch.linalg.solve_triangular(root, x.unsqueeze(-1), upper=False).squeeze(-1)
            for x in (r, torch.ones_like(self.loc))
        )
        total = v.square().sum(-1, keepdim=True)
        off = u - (u * v).sum(-1, keepdim=True) / total * v
        return off.square().sum(-1), 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + total.log().squeeze(-1)

    def log_ratios(self) -> MultivariateNormal:
        """Return the Gaussian distribution of ``log(y_i / y_K)``, i < K, of event shape ``[K - 1]``."""
        last = self.loc[..., -1:]
        if self._diagonal:
            variance = self.scale.square()
            cov = torch.diag_embed(variance[..., :-1]) + variance[..., -1:, None]
        else:
            root = self._root()
            contrast = root[..., :-1, :] - root[..., -1:, :]
            cov = contrast @ contrast.mT
        return MultivariateNormal(self.loc[..., :-1] - last, covariance_matrix=cov, validate_args=False)

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch)."""
        face = self._check_face(face)
        inside = torch.where(face.all(-1), 0.0, -math.inf).to(self.loc.dtype)
        return inside.expand(torch.broadcast_shapes(face.shape[:-1], self._batch_shape))

    def nonzeros(self) -> Tensor:
        """Return K, ``[*]``."""
        return torch.full_like(self.loc[..., 0], self.vertices)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, ``[*]``; two vertices only, else :func:`omegamax.mixed.entropy`."""
        m, s = self._odds("entropy")
        # log y_1 + log y_2 = -|d| - 2 log(1 + exp(-|d|)) of the log-odds d.
        size = s * math.sqrt(2 / math.pi) * (-0.5 * (m / s).square()).exp() + m * torch.erf(m / s * math.sqrt(0.5))
        rest = 2 * (_integrate(_log_tail, m, s) + _integrate(_log_tail, -m, s))
        return 0.5 * (_LOG_2PI + 1) + s.log() - size - rest

    @property
    def mean(self) -> Tensor:
        """Return ``[*, 2]``, with two vertices only."""
        m, s = self._odds("mean")
        # The logistic function is a step, but for exp(-|d|) / (1 + exp(-|d|)) on either side.
        below, above = _integrate(_tail, -m, s), _integrate(_tail, m, s)
        first = torch.special.ndtr(m / s) - above + below
        return torch.stack([first, torch.special.ndtr(-m / s) - below + above], -1)

    def _odds(self, what: str) -> tuple[Tensor, Tensor]:
        """Return mean and deviation of the log-odds of the first of two vertices."""
        if self.vertices != 2:
            advice = "; use omegamax.mixed.entropy" if what == "entropy" else ""
            raise NotImplementedError(f"LogisticNormal.{what}: for 2 vertices only, got {self.vertices}{advice}")
        return self._contrast


def _tail(x: Tensor) -> Tensor:
    return (-x).sigmoid()


def _log_tail(x: Tensor) -> Tensor:
    return (-x).exp().log1p()


def _integrate(f: Any, mean: Tensor, deviation: Tensor) -> Tensor:
    """Integrate ``f(x) N(x; mean, deviation^2)`` over x > 0, for a smooth f that decays like ``exp(-x)``; ``[*]``."""
    low = (mean - _REACH * deviation).clamp(min=0, max=_END)
    width = ((mean + _REACH * deviation).clamp(min=0, max=_END) - low).unsqueeze(-1)
    nodes, weights = legendre(_ORDER, mean)
    x = low.unsqueeze(-1) + width * nodes
    mean, deviation = mean.unsqueeze(-1), deviation.unsqueeze(-1)
    log_density = -0.5 * ((x - mean) / deviation).square() - deviation.log() - 0.5 * _LOG_2PI
    return (width * weights * f(x) * log_density.exp()).sum(-1)
