"""Sparsemax of a Gaussian vector."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_count
from omegamax.functional import sparsemax
from omegamax.mixed import _rectified
from omegamax.mixed._faces import face_of
from omegamax.mixed._fibre import log_density_diagonal
from omegamax.mixed._gaussian import GaussianMixed
from omegamax.mixed._gaussian_parameters import TAILS
from omegamax.mixed._polytope import NODES, log_polytope
from omegamax.mixed._projected import FACTOR_ORDER, log_density_full, log_density_low_rank

_CELLS = 2**21  # entries in the largest tensor of a density evaluation; larger batches go in pieces


class GaussianSparsemax(GaussianMixed):
    r"""The projection of a Gaussian vector onto the simplex: it hits faces of every dimension.

    .. math:: Y = \mathrm{sparsemax}(X), \qquad X \sim N(\mu, \Sigma)

    The covariance is given in one of four forms. Densities are with respect to the direct sum of the Lebesgue measures
    of the faces, see :class:`Mixed`; on a face of k vertices :math:`X = y + t` for the vertices it has and
    :math:`X \le t` for the others, so that a density is an integral over t of k times a Gaussian density times an
    orthant probability:

    - ``scale``: one integral, by Gauss-Legendre rules on either side of the maximum of the integrand. The error of
      ``log_prob`` is about 1e-13 while scales differ by a factor of up to 10, 2e-8 at 100, 1e-4 at 1000; with twice
      the ``order``, 1e-13 at 100 and 1e-6 at 1000.
    - ``cov`` or ``scale_tril``: orthant probabilities, exact to rounding for points with at most three zeros, by
      ``points`` Sobol points for more (the error is about 1e-4 with 10 vertices and 1e-3 with 20, by default).
    - ``cov_factor``, ``cov_diag``: as above for points with at most three zeros and for ranks above 2; otherwise r more
      integrals, by Gauss-Hermite rules (an error of about 1e-6).

    With two vertices it is the Gaussian rectified to [0, 1], and all is in closed form: ``entropy``, ``mean`` and
    Kullback-Leibler divergences too. With more vertices see :func:`omegamax.mixed.entropy` and its companions.

    Samples carry gradients to every parameter. They describe how samples move, not how faces gain and lose mass: the
    mean of a continuous function of the sample has the right gradient, that of ``log_prob`` or of a count of faces has
    not. Use :func:`omegamax.mixed.entropy` for those.

    Args:
        loc: the location mu, ``[*, K]``.
        scale: deviations of independent entries, ``[*, K]``, or a number.
        cov: covariance matrix, ``[*, K, K]``.
        scale_tril: lower triangular root of the covariance, ``[*, K, K]``.
        cov_factor, cov_diag: ``W [*, K, r]`` and a positive diagonal ``[*, K]`` of the covariance ``W W' + D``.
        order: nodes on either side of the maximum of an integrand.
        points: Sobol points in integrals of high dimension.

    Half precision is computed, and returned, in float32.

        >>> p = GaussianSparsemax(torch.tensor([1.0, 0.5, 0.0]), scale=0.5)
        >>> p.face_probs()  # three vertices, three edges, the interior
        tensor([0.1831, 0.0123, 0.0006, 0.4894, 0.1031, 0.0153, 0.1961])
        >>> p.log_prob(torch.tensor([0.75, 0.25, 0.0]))
        tensor(-0.2971)

    Reference: Farinhas et al. (ICLR 2022).
    """

    order: int
    points: int
    _options = ("_form", "order", "points")

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float | None = None,
        *,
        cov: Tensor | None = None,
        scale_tril: Tensor | None = None,
        cov_factor: Tensor | None = None,
        cov_diag: Tensor | None = None,
        order: int = 48,
        points: int = 2048,
        validate_args: bool | None = None,
    ) -> None:
        for name, count in (("order", order), ("points", points)):
            check_count("GaussianSparsemax", name, count, 2)
        self.order, self.points = order, points
        super().__init__(
            loc,
            scale,
            cov=cov,
            scale_tril=scale_tril,
            cov_factor=cov_factor,
            cov_diag=cov_diag,
            validate_args=validate_args,
        )

    # --- Samples

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``, with gradients to every parameter."""
        return sparsemax(self.rsample_scores(sample_shape))

    # --- Densities

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, K]``, on the face of each; at a vertex, its log-probability."""
        self._check_value(value)
        value = value.to(torch.promote_types(value.dtype, self.loc.dtype))
        if self.vertices == 2:
            return _rectified.log_density(*self._edge, value)
        return self._log_density(value)

    def _log_density(self, value: Tensor) -> Tensor:
        batch = torch.broadcast_shapes(value.shape[:-1], self._batch_shape)
        value = value.expand(*batch, self.vertices)
        rows = max(1, _CELLS // self._cells())
        if batch.numel() <= rows:
            return self._evaluate(self, value)
        # Pieces of rows: the nodes of a large batch would not fit in memory.
        wide, flat = self.expand(batch), value.reshape(-1, self.vertices)
        names = [name for name in TAILS if name in wide.__dict__]
        flats = {name: wide.__dict__[name].flatten(0, len(batch) - 1) for name in names}
        done = []
        for start in range(0, len(flat), rows):
            piece = object.__new__(GaussianSparsemax)
            piece.order, piece.points, piece._form = self.order, self.points, self._form
            for name in names:
                setattr(piece, name, flats[name][start : start + rows])
            done.append(self._evaluate(piece, flat[start : start + rows]))
        return torch.cat(done).reshape(batch)

    def _cells(self) -> int:
        """Return how many entries one row needs."""
        nodes = 2 * self.order * self.loc.shape[-1]
        rank = self.cov_factor.shape[-1] if self._low_rank else -1
        if rank in FACTOR_ORDER:
            return nodes // 2 * FACTOR_ORDER[rank] ** rank
        return nodes if self._diagonal else max(4 * self.order**2 * 2, self.points * self.loc.shape[-1])

    @staticmethod
    def _evaluate(p: GaussianSparsemax, value: Tensor) -> Tensor:
        face = face_of(value)
        if p._diagonal:
            return log_density_diagonal(p.loc, p.scale, value, face, p.order)
        if p._low_rank:
            return log_density_low_rank(p.loc, p.cov_factor, p.cov_diag, value, face, p.order, p.points)
        return log_density_full(p.loc, p.cov, value, face, p.order, p.points)

    @property
    def _edge(self) -> tuple[Tensor, Tensor]:
        """Return centre and deviation of the first of two entries before it is clipped."""
        mean, deviation = self._contrast
        return 0.5 * (1 + mean), 0.5 * deviation

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch).

        In closed form with two vertices; otherwise the probability of a polytope, see :mod:`._polytope`, by rules that
        serve all scales from 1e-6 to 1e6 alike. While scales differ by a factor of up to 10, the error is below 1e-11
        with three or four vertices, 1e-8 with five, 1e-6 with six and 1e-4 with more.
        """
        face = self._check_face(face)
        shape = torch.broadcast_shapes(face.shape[:-1], self._batch_shape)
        if self.vertices == 2:
            one, zero, edge = _rectified.log_ends(*self._edge)
            ends = torch.where(face[..., 0], one, zero)
            return torch.where(face.all(-1), edge, ends).expand(shape)
        flat = face.reshape(-1, self.vertices)
        kinds, which = flat.unique(dim=0, return_inverse=True)
        table = torch.stack([self._face_integral(kind) for kind in kinds])  # [kinds, *batch]
        which = which.reshape(face.shape[:-1]).expand(shape)
        table = table.expand(len(kinds), *self._batch_shape)
        lead = (1,) * (len(shape) - len(self._batch_shape))
        table = table.reshape(len(kinds), *lead, *self._batch_shape).expand(len(kinds), *shape)
        return table.gather(0, which.unsqueeze(0)).squeeze(0)

    def _face_integral(self, face: Tensor) -> Tensor:
        size = int(face.sum())
        if size == 0:
            return torch.full(self._batch_shape, -math.inf, dtype=self.loc.dtype, device=self._device)
        loc, root = self.loc.reshape(-1, self.vertices), self._root()
        root = root.reshape(-1, *root.shape[-2:])
        rows = max(1, _CELLS // (NODES * self.vertices))
        pieces = zip(loc.split(rows), root.split(rows), strict=True)
        done = [log_polytope(_wide(mean), _wide(factor), face).to(loc.dtype) for mean, factor in pieces]
        return torch.cat(done).reshape(self._batch_shape)

    # --- Closed forms for two vertices

    def entropy(self) -> Tensor:
        """Return the direct-sum entropy in nats, ``[*]``; two vertices only, else :func:`omegamax.mixed.entropy`."""
        return _rectified.entropy(*self._needs_edge("entropy"))

    @property
    def mean(self) -> Tensor:
        """Return ``[*, 2]``, with two vertices only."""
        return _rectified.mean(*self._needs_edge("mean"))

    def _needs_edge(self, what: str) -> tuple[Tensor, Tensor]:
        if self.vertices != 2:
            advice = f"; use omegamax.mixed.{what}" if what != "mean" else ""
            raise NotImplementedError(
                f"GaussianSparsemax.{what}: closed form for 2 vertices only, got {self.vertices}{advice}"
            )
        return self._edge


def _wide(t: Tensor) -> Tensor:
    return t if t.device.type == "mps" else t.double()  # Apple's devices have no float64
