"""The distribution of largest entropy on the faces of a simplex, and its value."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from omegamax._arguments import check_count, is_number
from omegamax._checks import check_floating
from omegamax._numerics import working_dtype
from omegamax._torch_internals import new_instance
from omegamax.mixed._base import Mixed


def max_entropy(vertices: int, bits: Tensor | float = 0.0) -> Tensor | float:
    r"""Return the largest code length, in bits, of a point on a simplex of K vertices with coordinates of N bits.

    .. math:: \log_2 \sum_{k=1}^K \binom{K}{k} \frac{2^{N(k - 1)}}{(k - 1)!} = \log_2 L^{(1)}_{K-1}(-2^N)

    with a generalised Laguerre polynomial; attained by :class:`MaxEntropyMixed`. The face is coded without loss and a
    face of k vertices has k - 1 coordinates. At N = 0 it is the largest direct-sum entropy (in bits).

    Args:
        bits: N, any real number; a tensor gives a tensor of its shape, with gradients.

        >>> max_entropy(2, bits=0)  # log2(2 + 2^0)
        1.5849625007211556
        >>> max_entropy(2, bits=torch.tensor([0.0, 1.0, 8.0]))
        tensor([1.5850, 2.0000, 8.0112])

    Reference: Farinhas et al. (ICLR 2022).
    """
    vertices, n = _check("max_entropy", vertices, bits)
    value = _log_weights(vertices, n).logsumexp(-1) / math.log(2)
    return value if isinstance(bits, Tensor) else value.item()


class MaxEntropyMixed(Mixed):
    r"""The distribution of largest entropy when coordinates have N bits each: uniform on every face.

    .. math:: P_F(f) \propto \frac{2^{N(k - 1)}}{(k - 1)!}, \qquad p(y) = \frac{2^{N(k - 1)}}{L^{(1)}_{K-1}(-2^N)}

    on a face of k vertices; densities are with respect to the direct sum of the Lebesgue measures of the faces, see
    :class:`Mixed`. At N = 0 the density is one and the same on all faces.

    Args:
        vertices: K.
        bits: N, any real number, ``[*]``. The more bits, the more mass on large faces.

        >>> MaxEntropyMixed(3).face_probs()  # 2/13 each, but 1/13 for the interior, whose volume is 1/2
        tensor([0.1538, 0.1538, 0.1538, 0.1538, 0.1538, 0.1538, 0.0769])
        >>> MaxEntropyMixed(3, bits=4.0).nonzeros()
        tensor(2.6983)

    Reference: Farinhas et al. (ICLR 2022).
    """

    arg_constraints = {"bits": constraints.real}  # noqa: RUF012
    has_rsample = False

    def __init__(self, vertices: int, bits: Tensor | float = 0.0, validate_args: bool | None = None) -> None:
        vertices, self.bits = _check("MaxEntropyMixed", vertices, bits)
        if not isinstance(bits, Tensor):
            self.bits = self.bits.to(torch.get_default_dtype())
        super().__init__(self.bits.shape, torch.Size([vertices]), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MaxEntropyMixed:
        new = new_instance(self, MaxEntropyMixed, _instance)
        new.bits = self.bits.expand(torch.Size(batch_shape))
        super(MaxEntropyMixed, new).__init__(torch.Size(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _device(self) -> torch.device:
        return self.bits.device

    @property
    def _log_normaliser(self) -> Tensor:
        return _log_weights(self.vertices, self.bits).logsumexp(-1)

    @property
    def size_probs(self) -> Tensor:
        """Return probabilities of 1, 2, ..., K non-zero entries, ``[*, K]``."""
        return _log_weights(self.vertices, self.bits).softmax(-1)

    def nonzeros(self) -> Tensor:
        """Return the expected number of non-zero entries, ``[*]``."""
        size = torch.arange(1, self.vertices + 1, dtype=self.bits.dtype, device=self._device)
        return self.size_probs @ size

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, K]``."""
        self._check_value(value)
        return self._log_height(self.face(value))

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch)."""
        face = self._check_face(face)
        size = face.sum(-1).to(self.bits.dtype)
        return torch.where(size > 0, self._log_height(face) - size.clamp(min=1).lgamma(), -math.inf)

    def _log_height(self, face: Tensor) -> Tensor:
        size = face.sum(-1).to(self.bits.dtype)
        return (size - 1) * self.bits * math.log(2) - self._log_normaliser

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``: how many vertices, which ones, and a uniform point on their face."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            sizes = torch.distributions.Categorical(logits=_log_weights(self.vertices, self.bits), validate_args=False)
            lead = torch.Size(shape[: len(shape) - 1 - len(self._batch_shape)])
            size = sizes.sample(lead).unsqueeze(-1) + 1
            noise = torch.rand(shape, dtype=self.bits.dtype, device=self._device)
            face = noise.argsort(-1).argsort(-1) < size
            tiny = torch.finfo(self.bits.dtype).tiny
            length = torch.empty_like(noise).exponential_().clamp(min=tiny)
            length = torch.where(face, length, 0.0)
            return length / length.sum(-1, keepdim=True)

    @property
    def mean(self) -> Tensor:
        """Return the centre, ``[*, K]``."""
        return torch.full_like(self.bits, 1 / self.vertices).unsqueeze(-1).expand(self._batch_shape + self._event_shape)

    def entropy(self) -> Tensor:
        """Return the direct-sum entropy in nats, ``[*]``; the largest there is at ``bits = 0``."""
        return self._log_normaliser - (self.nonzeros() - 1) * self.bits * math.log(2)


def _log_weights(vertices: int, bits: Tensor) -> Tensor:
    """Return log of ``C(K, k) 2^(N (k - 1)) / (k - 1)!`` for k = 1 to K, ``[*, K]``."""
    k = torch.arange(1, vertices + 1, dtype=bits.dtype, device=bits.device)
    log_count = math.lgamma(vertices + 1) - (k + 1).lgamma() - (vertices - k + 1).lgamma()
    return log_count + (k - 1) * bits.unsqueeze(-1) * math.log(2) - k.lgamma()


def _check(name: str, vertices: int, bits: Tensor | float) -> tuple[int, Tensor]:
    check_count(name, "vertices", vertices)
    if not is_number(bits):
        bits = check_floating(name, "bits", bits, "a number or a floating-point tensor")
        return vertices, bits.to(working_dtype(bits))
    if not math.isfinite(bits):
        raise ValueError(f"{name}: bits must be finite, got {bits}")
    return vertices, torch.tensor(float(bits), dtype=torch.float64)
