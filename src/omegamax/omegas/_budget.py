"""Half the squared norm on the polytope of k-hot vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import check_budget
from omegamax.omegas._base import Omega
from omegamax.omegas._bounded import threshold


class KSubsets(Omega):
    r"""``1/2 ||p||^2`` on ``{0 <= p <= 1, sum p = k}``: SparseMAP over the subsets of size k.

    Args:
        k: size of the subsets, a number or a tensor with size 1 along the axis of normalisation. Gradients reach it.
        at_most: let smaller subsets in.

        >>> KSubsets(2).argmax(torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0]))
        tensor([0.8750, 0.6250, 0.3750, 0.1250, 0.0000])
    """

    keeps_order = True
    name = "k_subsets"
    margin = 1.0

    def __init__(self, k: float | Tensor, at_most: bool = False):
        check_budget("KSubsets", k, math.inf, at_most)
        self.k = k
        self.at_most = at_most

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.k,)

    def with_parameters(self, *parameters: float | Tensor) -> KSubsets:
        (k,) = parameters
        return KSubsets(k, self.at_most)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        # One more unit of mass is worth the threshold; nothing, where more is allowed than there are entries, or
        # than is wanted.
        tau = threshold(z, p, 0.0, 1.0)
        left = (z != -math.inf).sum(-1, keepdim=True)
        if self.at_most:
            tau, left = tau.clamp(min=0), torch.where(((p > 0) & (p < 1)).any(-1, keepdim=True), left, p.sum(-1, True))
        return (torch.where(left < self.k, 0.0, tau),)

    @property
    def total(self) -> float | Tensor:
        return self.k

    def __call__(self, p: Tensor) -> Tensor:
        return 0.5 * p.square().sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.k_subsets(z, self.k, dim, at_most=self.at_most, mask=mask)

    def __repr__(self) -> str:
        return f"KSubsets(k={self.k}{', at_most=True' if self.at_most else ''})"
