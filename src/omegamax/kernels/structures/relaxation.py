"""Call the compiled relaxation of SparseMAP over sequences with k ones, for the rows that it solves exactly."""

from __future__ import annotations

import torch
from torch import Tensor, get_num_threads

from omegamax.kernels._library import make_dense
from omegamax.kernels.structures.cpu import load_entries


def solve_relaxation(scores: Tensor, transitions: Tensor, k: int, at_most: bool) -> tuple[Tensor, Tensor, Tensor]:
    r"""Solve the rows in which pairs need only agree with their two entries, and the ones be k in the mean.

    .. math:: \max_{u \in [0, 1]^n,\; \sum_i u_i = k} \langle z, u \rangle + \sum_i t_i \min(u_i, u_{i+1})
              - \tfrac12 \lVert u \rVert^2

    is a bound of SparseMAP over the sequences with k ones, and its solution where some distribution over these has the
    marginals u: then the relaxation is tight. One is looked for, not always found. Rows with ties, repelled neighbours
    or a budget that is not spent are left out.

    Args:
        scores: ``[B, n]``, float64, on the CPU; ``-inf`` masks an entry.
        transitions: ``[B, n - 1]``, likewise.
        k: number of ones.
        at_most: let sequences with fewer ones in.

    Returns:
        Marginals ``[B, n]``; ``[B, n + n - 1]`` the group of each entry and of each pair, whose values are equal and
        change alike, n for what is constant; and ``[B]``, whether the row was solved. In the others nothing is said.
    """
    scores, transitions = make_dense(scores), make_dense(transitions)
    rows, n = scores.shape
    if scores.dtype != torch.float64 or transitions.dtype != torch.float64 or transitions.shape != (rows, n - 1):
        raise ValueError(
            f"solve_relaxation: scores and transitions must be float64 [B, n] and [B, n - 1], got {scores.dtype} "
            f"{tuple(scores.shape)} and {transitions.dtype} {tuple(transitions.shape)}"
        )
    marginals, tight = torch.empty_like(scores), torch.empty(rows, dtype=torch.bool)
    groups = torch.empty(rows, 2 * n - 1, dtype=torch.int64)
    given, found = (scores, transitions), (marginals, groups, tight)
    if not load_entries().omegamax_structures_relax(
        *(a.data_ptr() for a in given), rows, n, k, at_most, *(a.data_ptr() for a in found), get_num_threads()
    ):
        raise MemoryError(f"solve_relaxation: no memory for {rows} rows of {n} scores")
    return found
