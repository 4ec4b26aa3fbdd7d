r"""Blocks of like factors, each solved by itself in one call:

.. math:: u_f = \arg\max_{u \in P_f} \langle z_f, u \rangle + \phi_f(u) - \tfrac12 \lVert u \rVert^2
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.structures import ActiveSet
from omegamax.structured._factor import Factor
from omegamax.structured._logic import Face, Polytope
from omegamax.structured._solution import Solution

VERTEX_SCALE = 1e8  # scores of this size pick a vertex


class LocalSolution(ABC):
    """Marginals ``[B, K, m]`` that the factors of a block have by themselves."""

    marginals: Tensor
    additional_marginals: Tensor | None  # [B, K, a]

    @abstractmethod
    def face(self, tol: float, weight_tol: Tensor | None = None) -> Face:
        """Return the faces they lie on, with what is within ``tol`` of a bound taken to be on it.

        With ``weight_tol [B]`` they are spanned by as many structures as it takes, but for those that have a weight no
        larger than that: these are within the error of the solution.
        """

    def warm_start(self, rows: Tensor | None = None) -> Any:
        """Return where to start when these examples, or all, are solved for similar scores."""
        return None


class BlockSolver(ABC):
    """How a block of factors is solved."""

    @abstractmethod
    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> LocalSolution:
        """Solve the factors for scores ``[B, K, m]`` and additional scores ``[B, K, a]``."""

    @abstractmethod
    def maximize(self, w: Tensor, additional: int) -> Tensor:
        """Return marginals ``[B, K, m]`` that go farthest along ``w``, of factors with so many additional scores."""

    @abstractmethod
    def additional_features(self, y: Tensor) -> Tensor | None:
        """Return the additional parts ``[B, K, a]`` of structures given by 0/1 variables ``[B, K, m]``, if known."""


@dataclass
class Block:
    """K like factors on m variables each."""

    solver: BlockSolver
    index: Tensor  # [K, m]: which variables
    negated: Tensor  # [K, m]


class ProjectionSolver(BlockSolver):
    """Solve factors with a closed form; ``parameters`` are ``[K, p]``."""

    def __init__(self, polytope: Polytope, parameters: Tensor):
        self.polytope, self.parameters = polytope, parameters

    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> LocalSolution:
        return _ProjectionSolution(self, self.polytope.project(z, self.parameters, additional), additional)

    def maximize(self, w: Tensor, additional: int) -> Tensor:
        # Falls short of the maximum by at most m / (2 VERTEX_SCALE).
        zeros = w.new_zeros(*w.shape[:2], additional) if additional else None
        return self.polytope.project(VERTEX_SCALE * w, self.parameters, zeros)

    def additional_features(self, y: Tensor) -> Tensor | None:
        return self.polytope.additional_marginals(y, None)


class _ProjectionSolution(LocalSolution):
    def __init__(self, solver: ProjectionSolver, marginals: Tensor, additional: Tensor | None):
        self.solver, self.marginals, self.additional = solver, marginals, additional
        self.additional_marginals = solver.polytope.additional_marginals(marginals, additional)

    def face(self, tol: float, weight_tol: Tensor | None = None) -> Face:
        return self.solver.polytope.face(self.marginals, self.solver.parameters, self.additional, tol)


class SparseMAPSolver(BlockSolver):
    """Solve structured factors by SparseMAP; their variables have the shape ``event``."""

    def __init__(self, factor: Factor, event: tuple[int, ...]):
        self.factor, self.event = factor, event

    def solve(self, z: Tensor, additional: Tensor | None, start: Any = None) -> LocalSolution:
        flat = None if additional is None else additional.flatten(0, 1)
        solution = self.factor.solve(z.reshape(-1, *self.event), flat, start=start)
        return _SparseMAPSolution(solution, z.shape)

    def maximize(self, w: Tensor, additional: int) -> Tensor:
        flat = w.reshape(-1, *self.event)
        zeros = w.new_zeros(len(flat), additional) if additional else None
        return self.factor.features(self.factor.maximize(flat, zeros))[0].to(w).reshape(w.shape)

    def additional_features(self, y: Tensor) -> Tensor | None:
        found = self.factor.additional_features(y.reshape(-1, *self.event))
        return None if found is None else found.reshape(*y.shape[:2], -1)


class _SparseMAPSolution(LocalSolution):
    def __init__(self, solution: Solution, shape: torch.Size):
        self.solution, self.shape = solution, shape
        self.marginals = solution.marginals.reshape(shape)
        v = solution.additional_marginals
        self.additional_marginals = None if v is None else v.reshape(*shape[:2], v.shape[-1])

    def face(self, tol: float, weight_tol: Tensor | None = None) -> Face:
        active = self.solution.active
        if active is None:
            return _SolutionFace(self.solution, self.shape)
        if weight_tol is None:
            return _StructuresFace(active, self.shape, tol)
        return _StructuresFace(active.span_face(), self.shape, weight_tol.repeat_interleave(self.shape[1])[:, None])

    def warm_start(self, rows: Tensor | None = None) -> Any:
        # Structures, or whatever takes their place where the marginals are found without.
        start, count = self.solution.active, self.shape[1]
        start = getattr(self.solution, "potentials", None) if start is None else start
        if start is None or rows is None or len(rows) == self.shape[0]:
            return start
        at = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        if isinstance(start, ActiveSet):
            return ActiveSet(**{f.name: getattr(start, f.name)[at] for f in fields(ActiveSet)})
        return type(start)(*(part[at] for part in start))


class _SolutionFace(Face):
    """The face of a solution that knows its own derivative."""

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


class _StructuresFace(Face):
    """The differences of the structures in use, as a matrix on the parts in which they differ.

    These are few, and the matrix is applied often. ``basis [R, A, c]`` has orthonormal or zero rows.
    """

    def __init__(self, active: ActiveSet, shape: torch.Size, weight_tol: float | Tensor):
        self.shape = shape
        there = torch.arange(active.weights.shape[1], device=active.count.device) < active.count[:, None]
        # Structures without any weight tie with the others; ones with hardly any are on their way out.
        used = (there & ((active.weights > weight_tol) | (active.weights == 0)))[..., None]
        first = active.weights.argmax(-1)[:, None, None]
        unary, additional = (
            torch.where(used, parts - parts.take_along_dim(first, 1), 0.0)
            for parts in (active.unary, active.additional)
        )
        differ = (unary != 0).any(1)
        width = int(differ.sum(-1).amax()) if differ.numel() else 0
        self.parts = differ.byte().argsort(dim=-1, descending=True, stable=True)[:, :width]
        unary = unary.take_along_dim(self.parts[:, None], 2)
        basis = torch.cat([unary, additional], -1)
        for _ in range(2):  # once more, for directions that are orthogonal to rounding however close structures are
            unary = basis[..., :width]
            idle = torch.diag_embed((unary == 0).all(-1).to(unary.dtype))
            lower = torch.linalg.cholesky_ex(unary @ unary.mT + idle)[0]
            basis = torch.linalg.solve_triangular(lower, basis, upper=False)
        self.basis, self.slopes = basis[..., :width], basis[..., width:]
        self.projector = self.basis.mT @ self.basis

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        moved = self.projector.new_zeros(len(self.projector), self.projector.shape[-1], 1)
        if d_scores is not None:
            moved = self.projector @ d_scores.reshape(len(self.parts), -1).gather(1, self.parts)[..., None]
        if d_additional is not None:
            moved = moved + self.basis.mT @ (self.slopes @ d_additional.flatten(0, 1)[..., None])
        out = moved.new_zeros(len(moved), self.shape[-1])
        return out.scatter(1, self.parts, moved[..., 0]).reshape(self.shape)

    def matrix(self) -> Tensor:
        rows, size = len(self.projector), self.shape[-1]
        at = self.parts[:, :, None] * size + self.parts[:, None]
        out = self.projector.new_zeros(rows, size * size).scatter(1, at.flatten(1), self.projector.flatten(1))
        return out.reshape(*self.shape, size)
