"""Binary variables of a factor graph, in arrays that are indexed like NumPy's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from omegamax.structured._graph import FactorGraph


class Variable:
    """An array of binary variables of one graph, made by :meth:`FactorGraph.variable_from`.

    Integers, slices, lists, masks, ``None`` and ``...`` pick some of them, as in NumPy; ``~u`` are their negations,
    whose marginals are ``1 - u``. Batch axes of the scores are no axes of the variable.
    """

    def __init__(self, graph: FactorGraph, index: np.ndarray, negated: np.ndarray, dtype: torch.dtype):
        self.graph, self.index, self.negated, self.dtype = graph, index, negated, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape

    @property
    def value(self) -> Tensor:
        """Marginals ``[*batch, *shape]`` found by the last :meth:`FactorGraph.solve`, differentiable in the scores."""
        found = self.graph._marginals(torch.from_numpy(self.index)).to(self.dtype)
        if not self.negated.any():
            return found
        return torch.where(torch.from_numpy(self.negated).to(found.device), 1 - found, found)

    def _like(self, index: Any, negated: Any) -> Variable:
        """Make an array of other variables of the same graph."""
        return Variable(self.graph, np.asarray(index), np.asarray(negated), self.dtype)

    def __getitem__(self, key: Any) -> Variable:
        key = tuple(map(_numpy, key)) if isinstance(key, tuple) else _numpy(key)
        try:
            return self._like(self.index[key], self.negated[key])
        except IndexError as error:
            raise IndexError(f"Variable of shape {self.shape}: {error}") from None

    def __invert__(self) -> Variable:
        return self._like(self.index, ~self.negated)

    def reshape(self, *shape: int) -> Variable:
        """Return the same variables in another shape, row by row."""
        return self._like(self.index.reshape(*shape), self.negated.reshape(*shape))

    @property
    def T(self) -> Variable:
        """The axes in reverse order."""
        return self._like(self.index.T, self.negated.T)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("Variable: a single variable has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Variable]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError("Variable: no truth value before the graph is solved; its marginals are in value")

    def __repr__(self) -> str:
        return f"Variable(shape={self.shape}{', some negated' if self.negated.any() else ''})"


def concatenate(name: str, variables: Iterable[Any]) -> Variable:
    """Lay variables side by side in one row, from arrays and sequences of arrays of the same graph."""
    parts = list(_iterate(name, variables))
    if not sum(part.index.size for part in parts):
        raise ValueError(f"{name}: variables must be at least one, got none")
    graph = parts[0].graph
    if any(part.graph is not graph for part in parts):
        raise ValueError(f"{name}: variables must belong to one FactorGraph, got variables of several")
    index = np.concatenate([part.index.reshape(-1) for part in parts])
    negated = np.concatenate([part.negated.reshape(-1) for part in parts])
    return Variable(graph, index, negated, parts[0].dtype)


def _iterate(name: str, variables: Iterable[Any]) -> Iterator[Variable]:
    """Go through the arrays of variables in nested sequences."""
    for item in variables:
        if isinstance(item, Variable):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _iterate(name, item)
        else:
            raise TypeError(f"{name}: variables must be made by FactorGraph.variable_from, got {type(item).__name__}")


def _numpy(key: Any) -> Any:
    """Return an index that NumPy takes."""
    return key.detach().cpu().numpy() if isinstance(key, Tensor) else key
