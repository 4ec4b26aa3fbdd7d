"""Like factors of a graph, solved in one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from omegamax.functional._sparsemap import Solution
from omegamax.kernels.active_set import ActiveSet
from omegamax.structured._factor import BuiltIn, Factor
from omegamax.structured._polytope import Face, Polytope


class Local(ABC):
    """Marginals ``[B, K, m]`` that the factors of a block would have by themselves."""

    marginals: Tensor

    @abstractmethod
    def face(self, tol: float) -> Face:
        """The faces they lie on."""

    def warm(self, rows: Tensor | None = None) -> ActiveSet | None:
        """Where to start when these examples, or all, are solved for similar scores."""
        return None


class Rule(ABC):
    """How a block of factors is solved."""

    @abstractmethod
    def solve(self, z: Tensor, additional: Tensor | None, start: ActiveSet | None = None) -> Local:
        """Solutions for scores ``[B, K, m]`` and additional scores ``[B, K, a]``."""


class ByProjection(Rule):
    """Factors with a closed form; ``parameters`` are ``[K, p]``."""

    def __init__(self, polytope: Polytope, parameters: Tensor):
        self.polytope, self.parameters = polytope, parameters

    def solve(self, z: Tensor, additional: Tensor | None, start: ActiveSet | None = None) -> Local:
        return _Projected(self, self.polytope.project(z, self.parameters, additional), additional)


class _Projected(Local):
    def __init__(self, rule: ByProjection, marginals: Tensor, additional: Tensor | None):
        self.rule, self.marginals, self.additional = rule, marginals, additional

    def face(self, tol: float) -> Face:
        return self.rule.polytope.face(self.marginals, self.rule.parameters, self.additional, tol)


class BySearch(Rule):
    """Structured factors, by SparseMAP; their variables have the shape ``event``."""

    def __init__(self, factor: Factor, event: tuple[int, ...]):
        self.factor, self.event = factor, event

    def solve(self, z: Tensor, additional: Tensor | None, start: ActiveSet | None = None) -> Local:
        flat = None if additional is None else additional.flatten(0, 1)
        solution = self.factor.solve(z.reshape(-1, *self.event), flat, start=start)
        return _Searched(solution, z.shape)


class _Searched(Local, Face):
    def __init__(self, solution: Solution, shape: torch.Size):
        self.solution, self.shape = solution, shape
        self.marginals = solution.marginals.reshape(shape)

    def face(self, tol: float) -> Face:
        return self

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        event = self.solution.marginals
        d_scores = torch.zeros_like(event) if d_scores is None else d_scores.reshape(event.shape)
        flat = None if d_additional is None else d_additional.flatten(0, 1)
        return self.solution.jvp(d_scores, flat)[0].reshape(self.shape)

    def warm(self, rows: Tensor | None = None) -> ActiveSet | None:
        active, count = self.solution.active, self.shape[1]
        if active is None or rows is None or len(rows) == self.shape[0]:
            return active
        at = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        return ActiveSet(**{f.name: getattr(active, f.name)[at] for f in fields(active)})


@dataclass
class Block:
    """K like factors on m variables each."""

    rule: Rule
    index: Tensor  # [K, m]: which variables
    negated: Tensor  # [K, m]

    def __post_init__(self) -> None:
        # Negation, here and nowhere else: a factor sees ``shift + sign * u``.
        self.sign = torch.where(self.negated, -1.0, 1.0).double()
        self.shift = self.negated.double()
        self.flat = self.index.flatten()

    def local(self, u: Tensor) -> Tensor:
        """Marginals ``[B, K, m]`` as the factors see them, from ``[B, N]``: negated ones are ``1 - u``."""
        return self.shift + self.spread(u)

    def spread(self, x: Tensor) -> Tensor:
        """The linear part of :meth:`local`."""
        return x[:, self.flat].unflatten(1, self.index.shape) * self.sign

    def collect(self, y: Tensor, size: int) -> Tensor:
        """The transpose of :meth:`spread`, ``[B, K, m]`` to ``[B, N]``."""
        return y.new_zeros(len(y), size).index_add(1, self.flat, (y * self.sign).flatten(1))


PLAIN = (bool, int, float, str, type(None))


def likeness(factor: Factor, event: tuple[int, ...]) -> Hashable:
    """Equal for factors that one call can solve."""
    if isinstance(factor, BuiltIn):  # all that differs between two of a kind travels as additional scores
        kind, sizes, graph = factor.kind(event)
        return type(factor), kind, sizes, None if graph is None else tuple(graph.flatten().tolist())
    options: dict[str, Any] | None = getattr(factor, "__dict__", None)
    if options is not None and all(isinstance(value, PLAIN) for value in options.values()):
        return type(factor), tuple(sorted(options.items()))
    return id(factor)
