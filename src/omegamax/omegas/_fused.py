"""Regularisers with a price on the differences of neighbours, over that of a base map."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import TypeVar

import torch
from torch import Tensor

from omegamax import functional
from omegamax.functional._edges import check_edges, check_strength
from omegamax.functional._fused import keeps_order
from omegamax.omegas._base import Omega

Self = TypeVar("Self", bound="Variation")


class Variation(Omega):
    r"""``base(p) + strength * sum of |p_i - p_j|`` over the edges of a graph.

    A subclass says which edges there are (:meth:`differences`) and how scores are smoothed along them
    (:meth:`smoothed`). A masked entry takes its edges with it; which ones are masked, only the scores know, so that
    the value of probabilities alone counts all edges.
    """

    present: Tensor | None = None

    def __init__(self, base: str | Omega, strength: float | Tensor):
        self.base = keeps_order(type(self).__name__, base)
        check_strength(type(self).__name__, strength)
        self.strength = strength

    @abstractmethod
    def differences(self, p: Tensor) -> Tensor:
        """``|p_i - p_j|`` over the edges, times their weights, summed: ``[*, K] -> [*]``."""

    @abstractmethod
    def smoothed(self, z: Tensor) -> Tensor:
        """The proximal operator of the differences, to which the base map is applied."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """By how much, in units of ``strength``, smoothing can shrink the lead of one entry over another."""

    @property
    def margin(self) -> float:
        """That of ``base`` and what smoothing may take off a lead: enough, though not always the least."""
        strength = float(self.strength.max()) if isinstance(self.strength, Tensor) else self.strength
        return self.base.margin + self.reach * strength

    @property
    def total(self) -> float | Tensor:
        return self.base.total

    @property
    def at_most(self) -> bool:
        """Whether ``base`` lets smaller sums in, so that the level of the scores counts."""
        return getattr(self.base, "at_most", False)

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (*self.base.parameters, self.strength)

    def with_parameters(self: Self, *parameters: float | Tensor) -> Self:
        *of_base, strength = parameters
        twin = copy.copy(self)
        twin.base, twin.strength = self.base.with_parameters(*of_base), strength
        return twin

    def within(self: Self, z: Tensor) -> Self:
        twin = copy.copy(self)
        twin.present = z != -math.inf
        return twin

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        price = self.within(z).differences(p)
        return (*self.base.parameter_gradients(self.smoothed(z), p), -price.unsqueeze(-1))

    def __call__(self, p: Tensor) -> Tensor:
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim():
            strength = strength.squeeze(-1)
        return self.base(p) + strength * self.differences(p)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, strength={self.strength})"

    def _between(self, p: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """``|p_i - p_j|`` for the edges from ``first`` to ``second``, indices of the last axis; 0 at masked ones."""
        gap = (p.index_select(-1, first) - p.index_select(-1, second)).abs()
        if self.present is None:
            return gap
        both = self.present.index_select(-1, first) & self.present.index_select(-1, second)
        return torch.where(both, gap, 0.0)


class Fused(Variation):
    r"""``base(p) + strength * sum_i |p_{i+1} - p_i|``: the regulariser of :func:`omegamax.fusedmax`.

    Args:
        base: a map by name or its Omega, as there.
        strength: >= 0. Gradients reach it.

        >>> Fused("sparsemax", 0.1).argmax(torch.tensor([1.0, 0.9, -1.0, 0.8]))
        tensor([0.4000, 0.4000, 0.0000, 0.2000])
    """

    name = "fusedmax"

    def __init__(self, base: str | Omega = "sparsemax", strength: float | Tensor = 1.0):
        super().__init__(base, strength)

    @property
    def reach(self) -> float:
        # An entry gives way to its two neighbours. One of these at the end of the row comes up by one, one between
        # two leaders, where there are several, by two.
        return 3.0 if isinstance(self.base.total, float) and self.base.total <= 1 else 4.0

    def differences(self, p: Tensor) -> Tensor:
        at = torch.arange(p.shape[-1], device=p.device)
        return self._between(p, at[1:], at[:-1]).sum(-1)

    def smoothed(self, z: Tensor) -> Tensor:
        return functional.tv_prox_1d(z, self.strength)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.fusedmax(z, self.strength, dim, base=self.base, mask=mask)


class GraphFused(Variation):
    r"""``base(p) + strength * sum_e w_e |p_i - p_j|``: the regulariser of :func:`omegamax.graph_fusedmax`.

    Args:
        base: a map by name or its Omega, as there.
        edges: integers ``[2, E]``.
        strength: >= 0. Gradients reach it.
        weights: of the edges, ``[E]``; ones if None. Gradients reach them.

        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> GraphFused("sparsemax", star, 0.1).argmax(torch.tensor([1.0, 0.9, -1.0, 0.8]))
        tensor([0.3333, 0.3333, 0.0000, 0.3333])
    """

    name = "graph_fusedmax"

    def __init__(self, base: str | Omega, edges: Tensor, strength: float | Tensor = 1.0, weights: Tensor | None = None):
        super().__init__(base, strength)
        self.edges = check_edges("GraphFused", edges)
        self.weights = weights

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        parameters = (*self.base.parameters, self.strength)
        return parameters if self.weights is None else (*parameters, self.weights)

    def with_parameters(self, *parameters: float | Tensor) -> GraphFused:
        if self.weights is None:
            return super().with_parameters(*parameters)
        *others, weights = parameters
        twin = super().with_parameters(*others)
        twin.weights = torch.as_tensor(weights)
        return twin

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        slopes = super().parameter_gradients(z, p)
        if self.weights is None:
            return slopes
        return (*slopes, -self.strength * self.within(z)._between(p, *self.edges))

    @property
    def reach(self) -> float:
        # Both ends of the lead can move by the weight of their edges.
        if self.edges.shape[-1] == 0:
            return 0.0
        weights = torch.ones_like(self.edges[0], dtype=torch.float64) if self.weights is None else self.weights.double()
        degree = weights.new_zeros(int(self.edges.max()) + 1)
        degree.index_add_(0, self.edges.flatten(), weights.repeat(2))
        return 2 * degree.max().item()

    def differences(self, p: Tensor) -> Tensor:
        gap = self._between(p, *self.edges)
        return gap.sum(-1) if self.weights is None else (gap * self.weights.to(p.dtype)).sum(-1)

    def smoothed(self, z: Tensor) -> Tensor:
        return functional.tv_prox_graph(z, self.edges, self.strength, weights=self.weights)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.graph_fusedmax(
            z, self.edges, self.strength, dim, weights=self.weights, base=self.base, mask=mask
        )
