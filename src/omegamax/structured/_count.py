"""Logic that counts: between so many and so many of some variables are on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import check_integer
from omegamax.structured._logic import BatchedFace, Face, LogicFactor, Polytope, concatenate_with_outcome, is_interior
from omegamax.structured._variables import Variable, concatenate


class CountPolytope(Polytope):
    r"""Between ``low`` and ``high`` of m variables are on.

    .. math:: \{u \in [0, 1]^m : l \le \sum_i u_i \le h\}

    For integers its vertices are the 0/1 vectors with such a sum. Parameters: ``low, high``.
    """

    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        # If the box alone keeps to the bounds, that is it; otherwise the bound it breaks holds with equality.
        box = z.clamp(0, 1)
        total = box.sum(-1, keepdim=True)
        goal = torch.minimum(torch.maximum(total, parameters[:, :1]), parameters[:, 1:])
        broken = goal != total
        if not bool(broken.any()):
            return box
        return torch.where(broken, kernels.solve("k_subsets", z, goal, 2), box)

    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        total = u.sum(-1, keepdim=True)
        tight = (total <= parameters[:, :1] + tol) | (total >= parameters[:, 1:] - tol)
        return _CountFace(is_interior(u, tol), tight)


class _CountFace(BatchedFace):
    """Free variables move, by the same total as before where their number is ``tight``."""

    def __init__(self, free: Tensor, tight: Tensor):
        self.free = free.double()
        self.share = torch.where(tight, self.free, 0.0) / self.free.sum(-1, keepdim=True).clamp(min=1)

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        if d_scores is None:
            return torch.zeros_like(self.free)
        moved = d_scores * self.free
        return moved - self.share * moved.sum(-1, keepdim=True)


class _CountFactor(LogicFactor):
    """One factor that bounds how many of its variables are on."""

    def __init__(self, row: Variable, low: float, high: float):
        bounds = np.array([[low, high]], dtype=np.float64)
        super().__init__(row.graph, row.index[None], row.negated[None], CountPolytope(), bounds)


class Xor(_CountFactor):
    r"""Exactly one of the variables is on: :math:`\sum_i u_i = 1`.

    Args:
        variables: any number of them, arrays or single ones; their entries are laid side by side.

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([1.0, 0.5, -1.0]))
        >>> fg.add(Xor(u))  # sparsemax
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.7500, 0.2500, 0.0000])

    Reference: Martins et al. (JMLR 2015), for logic factors and their projections.
    """

    def __init__(self, *variables: Any):
        super().__init__(concatenate("Xor", variables), 1, 1)


class AtMostOne(_CountFactor):
    r"""No two of the variables are on: :math:`\sum_i u_i \le 1`. Arguments as in :class:`Xor`.

    >>> import torch
    >>> from omegamax.structured import FactorGraph
    >>> fg = FactorGraph()
    >>> u = fg.variable_from(torch.tensor([0.75, 0.5, -1.0]))
    >>> fg.add(AtMostOne(u))
    >>> _ = fg.solve()
    >>> u.value
    tensor([0.6250, 0.3750, 0.0000])
    """

    def __init__(self, *variables: Any):
        super().__init__(concatenate("AtMostOne", variables), 0, 1)


class Or(_CountFactor):
    r"""At least one of the variables is on: :math:`\sum_i u_i \ge 1`. Arguments as in :class:`Xor`.

    >>> import torch
    >>> from omegamax.structured import FactorGraph
    >>> fg = FactorGraph()
    >>> u = fg.variable_from(torch.tensor([0.25, -0.25, -1.0]))
    >>> fg.add(Or(u))
    >>> _ = fg.solve()
    >>> u.value
    tensor([0.7500, 0.2500, 0.0000])
    """

    def __init__(self, *variables: Any):
        row = concatenate("Or", variables)
        super().__init__(row, 1, row.index.size)


class Budget(_CountFactor):
    r"""At most ``budget`` of the variables are on: :math:`\sum_i u_i \le b`.

    Args:
        variables: a variable, an array of them, or a sequence of both.
        budget: b, an integer >= 0.
        exactly: as many as that: :math:`\sum_i u_i = b`.

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([[2.0, 0.75, 0.5], [0.0, 0.5, -1.0]]))
        >>> for row in u:
        ...     fg.add(Budget(row, budget=2))
        >>> _ = fg.solve()
        >>> u.value
        tensor([[1.0000, 0.6250, 0.3750],
                [0.0000, 0.5000, 0.0000]])

    By itself it is :func:`omegamax.k_subsets`.

    Reference: Niculae & Martins (ICML 2020), Fig. 1 (budgets in a parser).
    """

    def __init__(self, variables: Any, budget: int, exactly: bool = False):
        row = concatenate("Budget", [variables])
        size = row.index.size
        budget = check_integer("Budget", "budget", budget, least=0)
        if exactly and budget > size:
            raise ValueError(f"Budget: budget={budget} with exactly=True is more than the {size} variables there are")
        super().__init__(row, budget if exactly else 0, min(budget, size))


class Imply(_CountFactor):
    r"""If all variables but the last are on, so is the last: one of them is off, or that one is on.

    .. math:: u_1 \wedge \dots \wedge u_{n-1} \Rightarrow u_n, \qquad \sum_{i<n} (1 - u_i) + u_n \ge 1

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([1.0, 0.75, 0.25]))
        >>> fg.add(Imply(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.8333, 0.5833, 0.4167])
    """

    def __init__(self, *variables: Any):
        row = concatenate_with_outcome("Imply", variables)
        super().__init__(_negate(row, slice(None, -1)), 1, row.index.size)


class XorOut(_CountFactor):
    r"""The last variable is on if exactly one of the others is, and off if none is; no two of them are.

    .. math:: \sum_{i<n} u_i = u_n

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([0.5, 0.25, 0.25]))
        >>> fg.add(XorOut(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.3333, 0.0833, 0.4167])
    """

    def __init__(self, *variables: Any):
        super().__init__(_negate(concatenate_with_outcome("XorOut", variables), slice(-1, None)), 1, 1)


def _negate(row: Variable, part: slice) -> Variable:
    """Negate some variables of a row."""
    negated = row.negated.copy()
    negated[part] ^= True
    return Variable(row.graph, row.index, negated, row.dtype)
