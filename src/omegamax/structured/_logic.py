"""Logic among binary variables: factors that hold their variables, each of which may be negated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from omegamax.structured._count import Count
from omegamax.structured._or_out import OrOutput
from omegamax.structured._polytope import Polytope
from omegamax.structured._variables import Variable, side_by_side

if TYPE_CHECKING:
    from omegamax.structured._graph import FactorGraph


class LocalFactor:
    """K factors of one kind on m variables each, whose projection has a closed form.

    Args:
        graph: the graph of the variables.
        index, negated: ``[K, m]``, which variables, and whether as their negations.
        polytope: the kind.
        parameters: ``[K, p]``, of the kind.
        additional: ``[*batch, K, a]``, its additional scores.
    """

    def __init__(
        self,
        graph: FactorGraph,
        index: np.ndarray,
        negated: np.ndarray,
        polytope: Polytope,
        parameters: np.ndarray | None = None,
        additional: Tensor | None = None,
    ):
        self.graph, self.index, self.negated, self.polytope = graph, index, negated, polytope
        self.parameters = np.zeros((len(index), 0)) if parameters is None else parameters
        self.additional = additional

    def __repr__(self) -> str:
        count, size = self.index.shape
        return f"{type(self).__name__} on {size} variables" if count == 1 else f"{count} {type(self).__name__} factors"


class _Counted(LocalFactor):
    """One factor that bounds how many of its variables are on."""

    def __init__(self, row: Variable, low: float, high: float):
        bounds = np.array([[low, high]], dtype=np.float64)
        super().__init__(row.graph, row.index[None], row.negated[None], Count(), bounds)


class Xor(_Counted):
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
        super().__init__(side_by_side("Xor", variables), 1, 1)


class AtMostOne(_Counted):
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
        super().__init__(side_by_side("AtMostOne", variables), 0, 1)


class Or(_Counted):
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
        row = side_by_side("Or", variables)
        super().__init__(row, 1, row.index.size)


class Imply(_Counted):
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
        row = _with_output("Imply", variables)
        super().__init__(_flipped(row, slice(None, -1)), 1, row.index.size)


class XorOut(_Counted):
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
        super().__init__(_flipped(_with_output("XorOut", variables), slice(-1, None)), 1, 1)


class OrOut(LocalFactor):
    r"""The last variable is on if and only if one of the others is.

    .. math:: u_i \le u_n \le \sum_{j<n} u_j

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([0.75, -0.5, 0.25]))
        >>> fg.add(OrOut(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.5000, 0.0000, 0.5000])
    """

    def __init__(self, *variables: Any):
        row = _with_output("OrOut", variables)
        super().__init__(row.graph, row.index[None], row.negated[None], OrOutput())


class AndOut(LocalFactor):
    r"""The last variable is on if and only if all the others are.

    .. math:: 1 - \sum_{j<n} (1 - u_j) \le u_n \le u_i

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([1.0, 0.25, 0.75]))
        >>> fg.add(AndOut(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([1.0000, 0.5000, 0.5000])
    """

    def __init__(self, *variables: Any):
        row = ~_with_output("AndOut", variables)  # De Morgan
        super().__init__(row.graph, row.index[None], row.negated[None], OrOutput())


def _with_output(name: str, variables: tuple[Any, ...]) -> Variable:
    row = side_by_side(name, variables)
    if row.index.size < 2:
        raise ValueError(f"{name}: variables must be at least two, the last being the outcome, got one")
    return row


def _flipped(row: Variable, part: slice) -> Variable:
    negated = row.negated.copy()
    negated[part] ^= True
    return Variable(row.graph, row.index, negated, row.dtype)
