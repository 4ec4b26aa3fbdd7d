"""Like factors of a graph, solved in one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.structures import ActiveSet
from omegamax.structured._factor import BuiltIn, Factor
from omegamax.structured._logic import Face, Polytope
from omegamax.structured._solution import Solution

FAR = 1e8  # scores of this size pick a vertex


class Local(ABC):
    """Marginals ``[B, K, m]`` that the factors of a block would have by themselves."""

    marginals: Tensor

    @abstractmethod
    def face(self, tol: float) -> Face:
        """The faces they lie on."""

    def warm(self, rows: Tensor | None = None) -> Any:
        """Where to start when these examples, or all, are solved for similar scores."""
        return None


class Rule(ABC):
    """How a block of factors is solved."""

    @abstractmethod
    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> Local:
        """Solutions for scores ``[B, K, m]`` and additional scores ``[B, K, a]``."""

    @abstractmethod
    def farthest(self, w: Tensor, additional: int) -> Tensor:
        """Marginals ``[B, K, m]`` that go farthest along ``w``, of factors with so many additional scores."""


class ByProjection(Rule):
    """Factors with a closed form; ``parameters`` are ``[K, p]``."""

    def __init__(self, polytope: Polytope, parameters: Tensor):
        self.polytope, self.parameters = polytope, parameters

    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> Local:
        return _Projected(self, self.polytope.project(z, self.parameters, additional), additional)

    def farthest(self, w: Tensor, additional: int) -> Tensor:
        # Falls short of it by at most m / (2 FAR).
        nothing = w.new_zeros(*w.shape[:2], additional) if additional else None
        return self.polytope.project(FAR * w, self.parameters, nothing)


class _Projected(Local):
    def __init__(self, rule: ByProjection, marginals: Tensor, additional: Tensor | None):
        self.rule, self.marginals, self.additional = rule, marginals, additional

    def face(self, tol: float) -> Face:
        return self.rule.polytope.face(self.marginals, self.rule.parameters, self.additional, tol)


class BySearch(Rule):
    """Structured factors, by SparseMAP; their variables have the shape ``event``."""

    def __init__(self, factor: Factor, event: tuple[int, ...]):
        self.factor, self.event = factor, event

    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> Local:
        flat = None if additional is None else additional.flatten(0, 1)
        solution = self.factor.solve(z.reshape(-1, *self.event), flat, start=start)
        return _Searched(solution, z.shape)

    def farthest(self, w: Tensor, additional: int) -> Tensor:
        flat = w.reshape(-1, *self.event)
        nothing = w.new_zeros(len(flat), additional) if additional else None
        return self.factor.features(self.factor.maximize(flat, nothing))[0].to(w).reshape(w.shape)


class _Searched(Local):
    def __init__(self, solution: Solution, shape: torch.Size):
        self.solution, self.shape = solution, shape
        self.marginals = solution.marginals.reshape(shape)

    def face(self, tol: float) -> Face:
        active = self.solution.active
        return _SolutionFace(self.solution, self.shape) if active is None else ActiveFace(active, self.shape, tol)

    def warm(self, rows: Tensor | None = None) -> Any:
        # Structures, or whatever takes their place where the marginals are had without.
        start, count = self.solution.active, self.shape[1]
        start = getattr(self.solution, "potentials", None) if start is None else start
        if start is None or rows is None or len(rows) == self.shape[0]:
            return start
        at = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        if isinstance(start, ActiveSet):
            return ActiveSet(**{f.name: getattr(start, f.name)[at] for f in fields(ActiveSet)})
        return type(start)(*(part[at] for part in start))


class _SolutionFace(Face):
    """As the solution of a structured factor tells it."""

    def __init__(self, solution: Solution, shape: torch.Size):
        self.solution, self.shape = solution, shape

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        event = self.solution.marginals
        d_scores = torch.zeros_like(event) if d_scores is None else d_scores.reshape(event.shape)
        flat = None if d_additional is None else d_additional.flatten(0, 1)
        return self.solution.jvp(d_scores, flat)[0].reshape(self.shape)

    def matrix(self) -> Tensor:
        size = self.shape[-1]
        units = torch.eye(size, dtype=torch.float64, device=self.solution.marginals.device)
        return torch.stack([self.jvp(unit.expand(self.shape)) for unit in units], -1)


class ActiveFace(Face):
    """The differences of the structures in use, as a matrix on the parts in which they differ.

    These are few, and the matrix is applied often. ``Q [R, A, c]`` has orthonormal or zero rows.
    """

    def __init__(self, active: ActiveSet, shape: torch.Size, tol: float):
        self.shape = shape
        there = torch.arange(active.weights.shape[1], device=active.count.device) < active.count[:, None]
        # Structures without any weight tie with the others; ones with hardly any are on their way out.
        used = (there & ((active.weights > tol) | (active.weights == 0)))[..., None]
        first = active.weights.argmax(-1)[:, None, None]
        apart, more = (
            torch.where(used, parts - parts.take_along_dim(first, 1), 0.0)
            for parts in (active.unary, active.additional)
        )
        differ = (apart != 0).any(1)
        width = int(differ.sum(-1).amax()) if differ.numel() else 0
        self.parts = differ.byte().argsort(dim=-1, descending=True, stable=True)[:, :width]
        apart = apart.take_along_dim(self.parts[:, None], 2)
        basis = torch.cat([apart, more], -1)
        for _ in range(2):  # once more, for directions that are orthogonal to rounding however close structures are
            apart = basis[..., :width]
            idle = torch.diag_embed((apart == 0).all(-1).to(apart.dtype))
            lower = torch.linalg.cholesky_ex(apart @ apart.mT + idle)[0]
            basis = torch.linalg.solve_triangular(lower, basis, upper=False)
        self.basis, self.slopes = basis[..., :width], basis[..., width:]
        self.projector = self.basis.mT @ self.basis

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        moved = self.projector.new_zeros(len(self.projector), self.projector.shape[-1], 1)
        if d_scores is not None:
            moved = self.projector @ d_scores.reshape(len(self.parts), -1).gather(1, self.parts)[..., None]
        if d_additional is not None:
            moved = moved + self.basis.mT @ (self.slopes @ d_additional.flatten(0, 1)[..., None])
        whole = moved.new_zeros(len(moved), self.shape[-1])
        return whole.scatter(1, self.parts, moved[..., 0]).reshape(self.shape)

    def matrix(self) -> Tensor:
        rows, size = len(self.projector), self.shape[-1]
        at = self.parts[:, :, None] * size + self.parts[:, None]
        whole = self.projector.new_zeros(rows, size * size).scatter(1, at.flatten(1), self.projector.flatten(1))
        return whole.reshape(*self.shape, size)


@dataclass
class Block:
    """K like factors on m variables each."""

    rule: Rule
    index: Tensor  # [K, m]: which variables
    negated: Tensor  # [K, m]


PLAIN = (bool, int, float, str, type(None))


def likeness(factor: Factor, event: tuple[int, ...]) -> Hashable:
    """Equal for factors that one call can solve."""
    if isinstance(factor, BuiltIn):  # all that differs between two of a kind travels as additional scores
        kind, sizes, graph = factor.kind(event)
        return type(factor), kind, sizes, None if graph is None else tuple(graph.flatten().tolist())
    options = {name: value for name, value in vars(factor).items() if name != "variables"}
    if all(isinstance(value, PLAIN) for value in options.values()):
        return type(factor), tuple(sorted(options.items()))
    return id(factor)
