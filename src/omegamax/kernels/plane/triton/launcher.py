"""Launch the kernels of expectations over the plane under weights."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.kernels.contour.plane import Form
from omegamax.kernels.contour.reference import NODES
from omegamax.kernels.contour.triton.launcher import make_constants
from omegamax.kernels.plane.triton.rows import (
    contour_of_weights_kernel,
    gaussian_of_weights_kernel,
    weights_vjp_kernel,
)
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch_kept

BLOCK = 128  # functions of a program, at most: one for each thread
POINTS = 512  # cells of which a program holds the products of coordinates at a time, at most

Results = tuple[Tensor, Tensor, Tensor]


def gaussian_of_weights(weights: Tensor, points: Tensor, floor: Tensor, centers: Tensor, spread: Tensor) -> Results:
    """Return mean ``[*, 2]`` and covariance ``[*, 2, 2]`` of points, and expectations with derivatives ``[*, 7, J]``.

    Args:
        weights: ``[*, L]``, in any precision.
        points: coordinates ``[2, L]``, in the working dtype.
        floor: what is added to the diagonal of covariances, ``[2]`` in the working dtype.
        centers, spread: as in :func:`omegamax.kernels.gaussian.reference.gaussian_in_plane`, which says what the
            expectations are.
    """
    return _launch(gaussian_of_weights_kernel, weights, points, floor, centers, spread, (spread.dim() == 1,), ())


def contour_of_weights(
    weights: Tensor,
    points: Tensor,
    floor: Tensor,
    centers: Tensor,
    variance: Tensor,
    alpha: float,
    form: Form,
    fine: bool,
) -> Results:
    """Return the same under compact densities; see :func:`omegamax.kernels.contour.plane.integrate_in_plane`."""
    constants = (*make_constants(alpha), form.value, *NODES[fine])
    return _launch(contour_of_weights_kernel, weights, points, floor, centers, variance, (), constants)


def weights_vjp(
    weights: Tensor,
    points: Tensor,
    mean: Tensor,
    both: Tensor,
    g: Tensor | None,
    in_mean: Tensor | None,
    in_covariance: Tensor | None,
) -> Tensor:
    """Return the gradient in the weights, in their dtype, from those in expectations, mean and covariance.

    None of these: it is 0.
    """
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    rows, count = math.prod(weights.shape[:-1]), both.shape[-1]
    if rows:
        w = _in_order(weights, rows)
        given = [mean if t is None else t.contiguous() for t in (g, in_mean, in_covariance)]
        (tiny, huge, held), _, block, warps = _choose_constants(mean.dtype, weights.shape[-1], count)
        known = (g is not None, in_mean is not None, in_covariance is not None)
        arguments = (w.stride(0), *points.stride(), w.shape[1], count, tiny, huge, *known, held, block)
        launch_kept(weights_vjp_kernel, rows, (w, points, mean, both, *given, out), arguments, warps)
    return out


def _launch(
    kernel: object,
    weights: Tensor,
    points: Tensor,
    floor: Tensor,
    centers: Tensor,
    spread: Tensor,
    before: tuple,
    after: tuple,
) -> Results:
    """Launch a kernel of expectations; constants stand before and after the points of a block."""
    batch, count, dtype = weights.shape[:-1], len(centers), working_dtype(weights)
    mean = weights.new_empty((*batch, 2), dtype=dtype)
    covariance, both = mean.new_empty((*batch, 2, 2)), mean.new_empty((*batch, 7, count))
    rows = math.prod(batch)
    if rows:
        w = _in_order(weights, rows)
        (tiny, huge, held), blocks, block, warps = _choose_constants(dtype, w.shape[1], count)
        sizes = (w.stride(0), *points.stride(), floor.stride(0), w.shape[1], count, blocks)
        tensors = (w, points, floor, centers.contiguous(), spread.contiguous(), mean, covariance, both)
        arguments = (*sizes, tiny, huge, *before, held, *after, block)
        launch_kept(kernel, rows * blocks, tensors, arguments, warps)
    return mean, covariance, both


def _in_order(weights: Tensor, rows: int) -> Tensor:
    """Return ``[rows, L]``, entries of a row next to each other."""
    w = weights if weights.dim() == 2 else weights.reshape(rows, weights.shape[-1])
    return w if w.stride(1) == 1 else w.contiguous()


@functools.cache
def _choose_constants(dtype: torch.dtype, length: int, count: int) -> tuple[tuple[float, float, int], int, int, int]:
    """Return bounds of sums with the points of a block, blocks of functions, functions of a block, and warps."""
    bounds = torch.finfo(dtype)
    block = min(BLOCK, power_of_2(max(count, 1)))
    held = min(power_of_2(max(length, 1)), POINTS)
    return (bounds.tiny, bounds.max, held), max(-(-count // block), 1), block, 4 if block > 32 or held > 128 else 1
