"""Launch the kernels of moments."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.kernels.moments.triton.rows import moments_kernel, moments_vjp_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch_kept

TILE = 2048  # products of coordinates that a program holds at a time, at most
SHARE = 16  # of which a thread has that many, where there are fewer


class RowMoments(NamedTuple):
    """What comes of rows of weights, in the working dtype; None for what was not asked for."""

    sums: Tensor  # [2, *, 1]: the sum of a row, and zero times it
    lost: Tensor  # [*, 1]: whether a row cannot be made to sum to one
    p: Tensor | None  # [*, L]: the weights that sum to one
    mean: Tensor | None  # [*, n]
    covariance: Tensor | None  # [*, n, n]


def moments(
    weights: Tensor, present: Tensor | None, points: Tensor | None, floor: Tensor | None, normalised: bool
) -> RowMoments:
    """Return the moments of points under rows of weights.

    Args:
        weights: ``[*, L]``, in any precision. The batches of all others broadcast to this one.
        present: which weights count, ``[*, L]``; None: all.
        points: coordinates ``[*, n, L]`` in the working dtype, finite where a weight does not count too; None: there
            are no moments.
        floor: what is added to the diagonal of covariances, ``[*, n]`` in the working dtype; None without points.
        normalised: whether to return the weights that sum to one, too.
    """
    *batch, length = weights.shape
    sums = weights.new_empty((2, *batch, 1), dtype=working_dtype(weights))
    lost = weights.new_empty((*batch, 1), dtype=torch.bool)
    p = sums.new_empty(weights.shape) if normalised else None
    mean = covariance = None
    if points is not None:
        n = points.shape[-2]
        mean, covariance = sums.new_empty((*batch, n)), sums.new_empty((*batch, n, n))
    rows = math.prod(batch)
    if rows:
        tensors, strides = _lay_out(weights, present, points)
        added, added_strides = (sums, (0, 0)) if floor is None else _as_rows(floor, batch, 1)
        outputs = (sums, lost.view(torch.int8), *(sums if out is None else out for out in (p, mean, covariance)))
        n = 0 if points is None else points.shape[-2]
        constants, warps = _choose_constants(sums.dtype, length, present is not None, n, normalised)
        arguments = (*strides, *added_strides, rows, length, *constants)
        launch_kept(moments_kernel, rows, (*tensors, added, *outputs), arguments, warps)
    return RowMoments(sums, lost, p, mean, covariance)


def moments_vjp(
    weights: Tensor,
    present: Tensor | None,
    points: Tensor | None,
    sums: Tensor,
    mean: Tensor | None,
    of_p: Tensor | None,
    of_mean: Tensor | None,
    of_covariance: Tensor | None,
) -> Tensor:
    """Return the gradient in the weights, in their dtype, from those in what :func:`moments` returns."""
    *batch, length = weights.shape
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    rows = math.prod(batch)
    if rows:
        tensors, strides = _lay_out(weights, present, points)
        given = [sums if t is None else t.contiguous() for t in (mean, of_p, of_mean, of_covariance)]
        n = 0 if points is None else points.shape[-2]
        constants, warps = _choose_constants(sums.dtype, length, present is not None, n, of_p is not None)
        launch_kept(moments_vjp_kernel, rows, (*tensors, sums, *given, out), (*strides, length, *constants), warps)
    return out


def _lay_out(
    weights: Tensor, present: Tensor | None, points: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Return tensors as a kernel takes them, and strides: from row to row of each; of points, all three."""
    batch = weights.shape[:-1]
    w, (w_row, _) = _in_order(weights, batch)
    here, here_row = w, 0
    if present is not None:
        here, (here_row, _) = _in_order(present.view(torch.int8), batch)
    x, x_strides = (w, (0, 0, 0)) if points is None else _as_rows(points, batch, 2)
    return (w, here, x), (w_row, here_row, *x_strides)


def _in_order(t: Tensor, batch: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """Return rows whose entries lie next to each other, and strides."""
    rows, strides = _as_rows(t, batch, 1)
    if strides[-1] == 1:
        return rows, strides
    rows = rows.contiguous()
    return rows, (0, *rows.stride())[-2:]  # one row for all has no stride from row to row


def _as_rows(t: Tensor, batch: Sequence[int], rank: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor whose last axes, ``rank`` of them, are those of a row, and the strides from row to row and there.

    It is a view where strides allow it, as they nearly always do. What is one row for all, or is rows already, is left
    as it is: a view takes longer to make than all the rest.
    """
    own = t.dim() - rank
    if own == 0:
        return t, (0, *t.stride())
    if own > 1 or len(batch) > 1 or t.shape[0] != batch[0]:
        tail = t.shape[own:]
        t = t.expand((*batch, *tail)).reshape((math.prod(batch), *tail))
    return t, t.stride()


@functools.cache
def _choose_constants(dtype: torch.dtype, length: int, masked: bool, n: int, normalised: bool) -> tuple[tuple, int]:
    """Return what a kernel is compiled for, and the warps of a program; the dtype is the working one."""
    bounds = torch.finfo(dtype)
    axes = power_of_2(max(n, 1))
    block = min(power_of_2(max(length, 1)), TILE // axes**2)
    warps = min(max(axes**2 * block // (32 * SHARE), 1), 4)
    return (bounds.tiny, bounds.max, masked, normalised, n, axes, block), warps
