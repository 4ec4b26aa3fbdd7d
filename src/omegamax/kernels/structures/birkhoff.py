"""Decompose doubly stochastic matrices into sparse mixtures of matchings, in NumPy, for a batch at once."""

from __future__ import annotations

import numpy as np

from omegamax.kernels.structures.assignment import assign

DUST = 1e-13  # probabilities that are left over by rounding


def decompose(marginals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find matchings and their weights that add up to marginals ``[B, n, m]``, n <= m.

    Rows sum to one and columns to at most one, exactly one if the matrix is square. Each matching lies in the support
    and uses every column that is full, the heaviest of its kind first; it takes as much as leaves no entry negative
    and no column overfull. One more entry is then 0, or one more column full, which no later matching undoes and this
    one did not satisfy: all of them are affinely independent, and in general as many as the face of the marginals has
    dimensions, plus one. They are returned in the order of their weights.

    Returns:
        The column of each row, ``[B, A, n]``; weights ``[B, A]``, zero beyond each matrix's own count of matchings;
        and that count, ``[B]``. None for a matrix with NaN.

    Reference: Birkhoff (1946), for the square case.
    """
    count, n, m = marginals.shape
    left = np.where(marginals > DUST, marginals, 0.0)
    # What each column is short of the mass that is left to be given out; nothing ever, if all must be full.
    short = np.zeros((count, m)) if n == m else 1 - marginals.sum(1)
    mass = np.ones(count)
    live = np.flatnonzero(~np.isnan(marginals).any((1, 2)))
    choices, weights = [], []
    found = np.zeros(count, dtype=np.int64)
    while len(live):
        full = short[live] <= DUST
        # The price of a full column outweighs any sum of probabilities.
        value = np.where(left[live] > 0, left[live] + (n + 1.0) * full[:, None], -np.inf)
        best = assign(value)
        live, choice, full = live[best.feasible], best.choice[best.feasible], full[best.feasible]
        taken = np.take_along_axis(left[live], choice[:, :, None], 2)[:, :, 0]
        used = np.zeros((len(live), m), dtype=bool)
        np.put_along_axis(used, choice, True, 1)
        spare = np.where(used | full, np.inf, short[live])
        weight = np.minimum(np.minimum(taken.min(1), spare.min(1)), mass[live])
        rest = taken - weight[:, None]
        matrix = np.arange(len(live))[:, None]
        left[live[matrix], np.arange(n), choice] = np.where(rest > DUST, rest, 0.0)
        short[live] -= np.where(used | full, 0.0, weight[:, None])
        mass[live] -= weight
        choices.append(_spread(choice, live, count))
        weights.append(_spread(weight, live, count))
        found[live] += 1
        live = live[mass[live] > DUST]
    if not choices:
        return np.zeros((count, 0, n), dtype=np.int64), np.zeros((count, 0)), found
    total = np.stack(weights, 1)
    total /= np.where(total.sum(1) > 0, total.sum(1), 1.0)[:, None]
    order = np.argsort(-total, axis=1, kind="stable")
    choice = np.take_along_axis(np.stack(choices, 1), order[:, :, None], 1)
    return choice, np.take_along_axis(total, order, 1), found


def _spread(part: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Spread rows to the positions ``at`` in a batch of ``count``, zeros elsewhere."""
    whole = np.zeros((count, *part.shape[1:]), dtype=part.dtype)
    whole[at] = part
    return whole
