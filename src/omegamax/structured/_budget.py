"""A bound on how many variables may be on."""

from __future__ import annotations

from typing import Any

from omegamax._arguments import is_number
from omegamax.structured._logic import _Counted
from omegamax.structured._variables import side_by_side


class Budget(_Counted):
    r"""At most ``budget`` of the variables are on: :math:`\sum_i u_i \le b`.

    Args:
        variables: a variable, an array of them, or a sequence of both.
        budget: b, a whole number >= 0.
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
        row = side_by_side("Budget", [variables])
        size = row.index.size
        if not is_number(budget):
            raise TypeError(f"Budget: budget must be a whole number, got {type(budget).__name__}")
        if not (budget >= 0 and budget % 1 == 0):
            raise ValueError(f"Budget: budget must be a whole number >= 0, got {budget}")
        if exactly and budget > size:
            raise ValueError(f"Budget: budget={budget} with exactly=True is more than the {size} variables there are")
        super().__init__(row, budget if exactly else 0, min(budget, size))
