"""Regularisers of the older memories, which weigh each pattern by itself: no simplex, no sum to one."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from omegamax._checks import apply_mask, check_above
from omegamax.maps import Omega


class Separable(Omega):
    r"""A regulariser whose conjugate is a sum over entries, :math:`\Omega^*(z) = \sum_i F(z_i)`.

    Its map is :math:`F'(z_i)`, one entry at a time, and no score is far enough above the others to silence them.
    """

    margin = math.inf
    at_most = True  # points of the domain differ in their sums, so that the level of the scores counts

    @abstractmethod
    def potential(self, z: Tensor) -> Tensor:
        """Return F, entry by entry; 0 at ``-inf``."""

    @abstractmethod
    def slope(self, z: Tensor) -> Tensor:
        """Return F', entry by entry; 0 at ``-inf``."""

    @abstractmethod
    def direction(self, z: Tensor) -> Tensor:
        """Return the slopes of a row up to a common positive factor, which keeps them from overflowing."""

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return self.slope(apply_mask(self.name, z, mask))

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        value = self.potential(z).sum(-1)
        return value if origin is None else value - origin.squeeze(-1) * p.sum(-1)


class Power(Separable):
    r"""The polynomial of dense associative memories, :math:`F(z) = [z]_+^n / n`.

    .. math:: \Omega(p) = \sum_i p_i^{n'} / n' \quad (p \ge 0), \qquad \tfrac1n + \tfrac1{n'} = 1

    Args:
        degree: n > 1. Two, on both sides of zero, is the classic memory.
        rectified: scores below zero count as zero; otherwise :math:`F(z) = |z|^n / n`, whose map is the signed power
            :math:`\mathrm{sign}(z) |z|^{n-1}`.

        >>> Power(3).argmax(torch.tensor([2.0, 1.0, -1.0]))
        tensor([4., 1., 0.])
        >>> Power(3, rectified=False).argmax(torch.tensor([2.0, 1.0, -1.0]))
        tensor([ 4.,  1., -1.])

    Reference: Krotov & Hopfield (NeurIPS 2016), whose energy is n times this one.
    """

    name = "power"

    def __init__(self, degree: float = 3.0, rectified: bool = True):
        self.degree = float(check_above("Power", "degree", degree, 1.0))
        self.rectified = rectified

    def __call__(self, p: Tensor) -> Tensor:
        dual = self.degree / (self.degree - 1)
        value = p.abs().pow(dual).sum(-1) / dual
        return torch.where((p < 0).any(-1), math.inf, value) if self.rectified else value

    def potential(self, z: Tensor) -> Tensor:
        return self._size(z).pow(self.degree) / self.degree

    def slope(self, z: Tensor) -> Tensor:
        size = self._size(z)
        kept = size != 0  # a power below one has no derivative at zero
        power = torch.where(kept, torch.where(kept, size, 1.0).pow(self.degree - 1), 0.0)
        return power if self.rectified else power * z.sign()

    def direction(self, z: Tensor) -> Tensor:
        top = self._size(z).detach().amax(-1, keepdim=True)
        return self.slope(z / torch.where(top > 0, top, 1.0))

    def _size(self, z: Tensor) -> Tensor:
        z = torch.where(z == -math.inf, 0.0, z)
        return z.clamp(min=0) if self.rectified else z.abs()

    def __repr__(self) -> str:
        return f"Power(degree={self.degree:g}{'' if self.rectified else ', rectified=False'})"


class Exponential(Separable):
    r"""The exponential of dense associative memories, :math:`F(z) = e^z`.

    .. math:: \Omega(p) = \sum_i p_i \log p_i - p_i \quad (p \ge 0)

    With a :class:`Sign` after it, its steps are those of softmax, whose energy is the logarithm of this one: take that
    where ``exp`` of the scores overflows.

        >>> Exponential().conjugate(torch.tensor([0.0, 0.0, -torch.inf]))
        tensor(2.)

    Reference: Demircigil et al. (Journal of Statistical Physics, 2017).
    """

    name = "exponential"

    def __call__(self, p: Tensor) -> Tensor:
        value = (torch.special.xlogy(p, torch.where(p > 0, p, 1.0)) - p).sum(-1)
        return torch.where((p < 0).any(-1), math.inf, value)

    def potential(self, z: Tensor) -> Tensor:
        return z.exp()

    def slope(self, z: Tensor) -> Tensor:
        return z.exp()

    def direction(self, z: Tensor) -> Tensor:
        top = z.detach().amax(-1, keepdim=True)
        return (z - torch.where(top.isfinite(), top, 0.0)).exp()

    def __repr__(self) -> str:
        return "Exponential()"
