"""Every structure of a small size, one by one, and SparseMAP over the list as the quadratic program that defines it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

F64 = torch.float64


def subsets(size: int, k: int, at_most: bool = False) -> Tensor:
    """0/1 vectors with k ones, or at most k, ``[S, n]``."""
    rows = [y for y in itertools.product((0, 1), repeat=size) if sum(y) == k or (at_most and sum(y) < k)]
    return torch.tensor(rows, dtype=F64)


def sequences(length: int, states: int) -> Tensor:
    """One-hot sequences, ``[S, n, s]``."""
    rows = torch.tensor(list(itertools.product(range(states), repeat=length)))
    return torch.nn.functional.one_hot(rows, states).to(F64)


def _reaches_root(heads: tuple[int, ...]) -> bool:
    for word in range(len(heads)):
        at = word
        for _ in heads:
            at = heads[at]
        if heads[at] != at:
            return False
    return True


def _crosses(heads: tuple[int, ...]) -> bool:
    # The root is position 0, left of the words 1 to n.
    arcs = [sorted((word + 1, 0 if head == word else head + 1)) for word, head in enumerate(heads)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def dependency_trees(size: int, projective: bool = False, single_root: bool = False) -> Tensor:
    """0/1 arcs [modifier, head], the root on the diagonal, ``[S, n, n]``."""

    def all_heads() -> Iterator[tuple[int, ...]]:
        for heads in itertools.product(range(size), repeat=size):
            roots = sum(head == word for word, head in enumerate(heads))
            if _reaches_root(heads) and not (single_root and roots != 1) and not (projective and _crosses(heads)):
                yield heads

    return torch.nn.functional.one_hot(torch.tensor(list(all_heads())), size).to(F64)


def spanning_trees(edges: Tensor, nodes: int) -> Tensor:
    """0/1 edges of the spanning trees, by the rank of their incidence matrix, ``[S, E]``."""
    incidence = np.zeros((nodes, edges.shape[1]))
    for e, (a, b) in enumerate(edges.T.tolist()):
        incidence[a, e] += 1
        incidence[b, e] -= 1
    rows = []
    for chosen in itertools.combinations(range(edges.shape[1]), nodes - 1):
        if np.linalg.matrix_rank(incidence[:, chosen]) == nodes - 1:
            rows.append([float(e in chosen) for e in range(edges.shape[1])])
    return torch.tensor(rows, dtype=F64)


def program(structures: Tensor, linear: Tensor) -> Tensor:
    """Marginals of ``max <xi, linear> - 1/2 ||M xi||^2`` over the simplex, by an interior-point solver."""
    import cvxpy as cp

    table = structures.flatten(1).numpy()
    weights = cp.Variable(len(table), nonneg=True)
    scores = (linear - linear.max()).numpy()
    objective = cp.sum_squares(table.T @ weights) / 2 - scores @ weights
    problem = cp.Problem(cp.Minimize(objective), [cp.sum(weights) == 1])
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver says when it stops short of 1e-14; the test measures how short
        problem.solve(solver=cp.CLARABEL, **tolerances)
    return torch.from_numpy(table.T @ weights.value).reshape(structures.shape[1:])
