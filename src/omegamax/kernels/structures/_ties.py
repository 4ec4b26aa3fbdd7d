"""Find structures that tie with those in use: marginals move with them too, though they have no weight yet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from omegamax.kernels.structures._search import Search

# Structures to stop at, with those that only tie. Flat scores of hundreds of parts have thousands, which only
# derivatives need: see ActiveSet.span_face.
MAX_TIED = 256
# Ever smaller changes of the slope, relative, for a structure that ties rather than nearly does.
NUDGES = [1e-8 / 64**i for i in range(3)]
ROUNDING = 16 * torch.finfo(torch.float64).eps  # of a sum of scores, relative to the sum of their sizes


def complete(work: Search, rows: Tensor) -> None:
    """Take in, without weight, as many structures that tie as it takes to span the face on which the solutions lie.

    A direction in which all structures in use agree tells: either some structure that ties lies ahead or behind, or,
    the direction being random, none lies outside their affine hull. It stops at ``work.max_tied`` structures.
    """
    generator = np.random.default_rng(0)  # not torch's, which refuses to draw inside vmap
    while len(rows):
        rows = rows[work.used[rows].sum(-1) < work.max_tied]
        anchor, factor, _ = work.solve(rows)
        unary, _, mixture, _ = work.measure_from(rows, anchor)
        away = torch.from_numpy(generator.standard_normal(unary.shape[2])).to(unary).expand(len(rows), -1)
        others = work.used[rows].scatter(1, anchor[:, None], False)[..., None]
        along = torch.where(others, unary @ away[..., None], 0.0)
        away = away - (torch.where(others, torch.cholesky_solve(along, factor), 0.0).mT @ unary)[:, 0]
        slope = work.given[0][rows] - mixture
        found = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        for sign in (1.0, -1.0):
            found = found | _nudge(work, rows, slope, sign * away, ~found)
        rows = rows[found]


def _nudge(work: Search, rows: Tensor, slope: Tensor, away: Tensor, wanted: Tensor) -> Tensor:
    """Take in structures that tie at a changed slope, where ``wanted``; return where one was."""
    found = torch.zeros_like(wanted)
    # Next to a large slope a small nudge would be lost.
    least = 1024 * torch.finfo(slope.dtype).eps / NUDGES[0] * slope.nan_to_num(neginf=0.0).abs().amax(-1, keepdim=True)
    for by in NUDGES:
        at = wanted.nonzero()[:, 0]
        if not len(at):
            break
        part = rows[at]
        query = (slope[at] + by * least[at].clamp(min=1) * away[at]).masked_fill(slope[at] == -math.inf, -math.inf)
        new, new_parts = work.oracle(query, work.given[1][part])
        anchor, factor, _ = work.solve(part)
        unary, _, mixture, mixture_parts = work.measure_from(part, anchor)
        gain, _ = work.gain(part, new, new_parts, mixture, mixture_parts)
        terms = (new - mixture).abs() * (work.scores[part] - mixture).abs()
        terms = terms.sum(-1) + ((new_parts - mixture_parts).abs() * work.additional[part].abs()).sum(-1)
        ties = (gain >= -(work.tol + ROUNDING) * (1 + terms)) & ~work.find_missing(part, new, new_parts)
        reach = new - work.unary[part, anchor]
        outside = ties & work.is_apart(part, anchor, factor, (unary @ reach[..., None])[..., 0], reach.square().sum(-1))
        work.take_in(part[outside], new[outside], new_parts[outside], torch.zeros_like(gain[outside]))
        work.newest[part[outside]] = -1
        found[at[outside]] = True
        wanted = wanted.index_fill(0, at[ties], False)
    return found
