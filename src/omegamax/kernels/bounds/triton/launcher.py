"""Launch the kernels of maps with bounds; float64, and very long rows with a bound for each entry, go to plain torch.

Bounds are scalars or tensors with the rank of the scores. Gradients read off a probability whether it is at a bound: it
is then equal to the bound, rounded as probabilities are, and no other probability is rounded to that value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.bounds import reference
from omegamax.kernels.bounds.triton.box import box_kernel, clip_vjp_kernel
from omegamax.kernels.bounds.triton.capped_softmax import capped_softmax_kernel, capped_softmax_vjp_kernel
from omegamax.kernels.bounds.triton.clip import clip_kernel
from omegamax.kernels.bounds.triton.clip_long import clip_long_kernel, clip_vjp_long_kernel
from omegamax.kernels.choice import Case, Parameter, choose
from omegamax.kernels.tiles import LONG_BLOCK, MAX_CANDIDATES, candidate_blocks, folded_tile, power_of_2, row_tile
from omegamax.kernels.triton.launch import as_rows, as_tensor, by_row, launch, launch_again

REGISTERS = 128  # of a thread, at most, where it has at most ENTRIES of float32, so that more programs run at once
ENTRIES = 64


def k_subsets(z: Tensor, k: Parameter, dim: int) -> Tensor:
    """Return the projection of scores onto the vectors in ``[0, 1]`` that sum to ``k``."""
    key = _launch_key("k_subsets", z, None, dim, k)
    if key is not None and (p := launch_again(key, z)) is not None:
        return p
    if _kernel("k_subsets", z, dim, k) == "reference.k_subsets":
        return _round_off_bounds(reference.k_subsets(z.to(_wide(z)), k, dim), 0.0, 1.0, z.dtype)
    if isinstance(k, Tensor):
        return _launch_clip(z, by_row(k, z, dim), (0.0, 1.0, 0.0, 0.0), dim)
    integer = float(math.floor(k))
    return _launch_clip(z, None, (0.0, 1.0, integer, k - integer), dim, key)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    """Return the Jacobian of :func:`k_subsets` at ``p`` times ``g``."""
    return box_simplex_vjp(p, g, 0.0, 1.0, dim)


def box_simplex(z: Tensor, lower: Parameter, upper: Parameter, total: Parameter, dim: int) -> Tensor:
    """Return the projection of scores onto the vectors between two bounds that sum to ``total``."""
    key = _launch_key("box_simplex", z, None, dim, lower, upper, total)
    if key is not None and (p := launch_again(key, z)) is not None:
        return p
    kernel = _kernel("box_simplex", z, dim, lower, upper, total)
    if kernel == "reference.box_simplex":
        p = reference.box_simplex(z.to(_wide(z)), lower, upper, total, dim)
        return _round_off_bounds(p, lower, upper, z.dtype)
    if kernel in ("clip_kernel", "clip_long_kernel"):
        low, high, goal = float(lower), float(upper), float(total)
        return _launch_clip(z, None, (low, max(low, min(high, goal)), goal, 0.0), dim, key)
    rows, lowest, highest = as_rows(z, dim), _by_entry(lower, z, dim), _by_entry(upper, z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        each, block, warps = row_tile(size)
        # As wide as one 16-byte load of every thread; short rows are folded four times.
        width = min(max(block // 4, 1) if each > 1 else block, 16 // rows.itemsize * 32 * warps)
        sums = by_row(total if isinstance(total, Tensor) else lowest.new_tensor(total), z, dim)
        strides = (*lowest.stride(), *highest.stride())
        constants = (isinstance(lower, Tensor) or lower != 0, size == block and count % each == 0)
        bounds = (lowest, highest, sums)
        arguments = (*bounds, count, size, rows.stride(0), *strides, *constants, each, block // width, width)
        launch(box_kernel, -(-count // each), (rows, p), arguments, warps, None, REGISTERS if warps <= 8 else None)
    return as_tensor(p, z, dim)


def box_simplex_vjp(p: Tensor, g: Tensor, lower: Parameter, upper: Parameter, dim: int) -> Tensor:
    """Return the Jacobian of :func:`box_simplex` at ``p`` times ``g``."""
    key = _launch_key("box_simplex_vjp", p, g, dim, lower, upper)
    if key is not None and (out := launch_again(key, p, g)) is not None:
        return out
    kernel = _kernel("box_simplex_vjp", p, dim, lower, upper)
    if kernel == "reference.box_simplex_vjp":
        return _plain_vjp(reference.box_simplex_vjp, p, g, lower, upper, dim)
    if kernel == "clip_vjp_long_kernel":
        return _launch_vjp_long(p, g, (lower, upper), dim, key)
    given = isinstance(lower, Tensor) or isinstance(upper, Tensor)
    low, high = (_by_entry(a, p, dim) if given else None for a in (lower, upper))
    scalars = (0.0, 0.0) if given else (lower, upper)
    return _launch_vjp(clip_vjp_kernel, p, g, (low, high), scalars, dim, key)


def capped_softmax(z: Tensor, upper: Parameter, dim: int) -> Tensor:
    """Return softmax of scores with probabilities of at most ``upper``."""
    key = _launch_key("capped_softmax", z, None, dim, upper)
    if key is not None and (p := launch_again(key, z)) is not None:
        return p
    if _kernel("capped_softmax", z, dim, upper) == "reference.capped_softmax":
        p = reference.capped_softmax(z.to(_wide(z)), upper, dim)
        return _round_off_bounds(p, 0.0, upper, z.dtype)
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        high, scalar = (_by_entry(upper, z, dim), 0.0) if isinstance(upper, Tensor) else (None, upper)
        each, block, warps = row_tile(size)
        warps = max(warps // 2, 1)
        unmasked = size == block and count % each == 0
        strides = (0, 0) if high is None else high.stride()
        arguments = (high, scalar, count, size, rows.stride(0), *strides, high is not None, unmasked, each, block)
        launch(capped_softmax_kernel, -(-count // each), (rows, p), arguments, warps, key)
    return as_tensor(p, z, dim)


def capped_softmax_vjp(p: Tensor, g: Tensor, upper: Parameter, dim: int) -> Tensor:
    """Return the Jacobian of :func:`capped_softmax` at ``p`` times ``g``."""
    key = _launch_key("capped_softmax_vjp", p, g, dim, upper)
    if key is not None and (out := launch_again(key, p, g)) is not None:
        return out
    if _kernel("capped_softmax_vjp", p, dim, upper) == "reference.capped_softmax_vjp":
        return _plain_vjp(reference.capped_softmax_vjp, p, g, upper, dim)
    high, scalar = (_by_entry(upper, p, dim), 0.0) if isinstance(upper, Tensor) else (None, upper)
    return _launch_vjp(capped_softmax_vjp_kernel, p, g, (high,), (scalar,), dim, key)


def _kernel(operation: str, x: Tensor, dim: int, *parameters: Parameter) -> str:
    case = Case.SCALARS if all(type(a) is float for a in parameters) else Case.TENSORS
    return choose(operation, case, x.itemsize, x.shape[dim])[0]


def _launch_clip(
    z: Tensor, totals: Tensor | None, scalars: tuple[float, ...], dim: int, key: tuple | None = None
) -> Tensor:
    """Launch the kernel of scalar bounds.

    Args:
        totals: the sum of each row, or None where all have the same.
        scalars: lower and upper bound, and the sum as an integer and a fraction, unread where there are totals.
    """
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count and _kernel("k_subsets", z, dim) == "clip_long_kernel":
        depth, block, warps = candidate_blocks(size, False)
        group = power_of_2(-(-size // block))
        groups = max(MAX_CANDIDATES[False] // group, 1)
        flags = (totals is not None, scalars[0] != 0, size % (depth * block) == 0)
        arguments: tuple = (totals, *scalars, count, size, rows.stride(0), *flags, depth, block, group, groups)
        launch(clip_long_kernel, count, (rows, p), arguments, warps, key, scratch=(count, groups))
    elif count:
        each, depth, width, warps = folded_tile(size, rows.itemsize)
        unmasked = size == depth * width and count % each == 0
        arguments = (totals, *scalars, count, size, rows.stride(0), totals is not None, scalars[0] != 0, unmasked)
        few = rows.itemsize == 4 and scalars[0] == 0 and each * depth * width <= 32 * warps * ENTRIES
        registers = REGISTERS if few else None
        launch(clip_kernel, -(-count // each), (rows, p), (*arguments, each, depth, width), warps, key, registers)
    return as_tensor(p, z, dim)


def _launch_vjp(
    kernel: Any, p: Tensor, g: Tensor, bounds: tuple, scalars: tuple, dim: int, key: tuple | None
) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        each, block, warps = row_tile(size, light=True)
        given = bounds[0] is not None
        strides = [s for a in bounds for s in (a.stride() if given else (0, 0))]
        unmasked = size == block and count % each == 0
        arguments = (*bounds, *scalars, count, size, rows.stride(0), incoming.stride(0), *strides, given, unmasked)
        launch(kernel, -(-count // each), (rows, incoming, out), (*arguments, each, block), warps, key)
    return as_tensor(out, p, dim)


def _launch_vjp_long(p: Tensor, g: Tensor, scalars: tuple, dim: int, key: tuple | None) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        arguments = (*scalars, count, size, rows.stride(0), incoming.stride(0), LONG_BLOCK.block)
        launch(clip_vjp_long_kernel, count, (rows, incoming, out), arguments, LONG_BLOCK.warps, key)
    return as_tensor(out, p, dim)


def _launch_key(name: str, x: Tensor, g: Tensor | None, dim: int, *parameters: Parameter) -> tuple | None:
    """Return what tells a launch from all others, if it can be kept: contiguous rows, scalar parameters."""
    for a in parameters:
        if type(a) is not float:
            return None
    if dim != x.dim() - 1 or not x.is_contiguous() or not (g is None or g.is_contiguous()):
        return None
    return (name, *parameters, x.shape, x.dtype, None if g is None else g.dtype, x.device)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _round_off_bounds(p: Tensor, lower: Parameter, upper: Parameter, dtype: torch.dtype) -> Tensor:
    """Round probabilities to half precision such that those between the bounds are not rounded to one of them."""
    if p.dtype is dtype:
        return p
    near = p.to(dtype)
    for bound in (lower, upper):
        exact = torch.as_tensor(bound, dtype=p.dtype, device=p.device)
        bits = exact.to(dtype).view(torch.int16)
        up, down = (bits + 1).view(dtype), (bits - 1).clamp(min=0).view(dtype)
        higher = p >= exact.to(dtype) if bound is lower else p > exact.to(dtype)
        near = torch.where((p != exact) & (near == exact.to(dtype)), torch.where(higher, up, down), near)
    return near


def _plain_vjp(jacobian: Callable[..., Tensor], p: Tensor, g: Tensor, *rest) -> Tensor:
    """Call a Jacobian in plain torch, at least in float32, with bounds rounded as the probabilities are."""
    *bounds, dim = rest
    wide = _wide(p)
    if p.dtype is not wide:
        bounds = [torch.as_tensor(a, device=p.device).to(p.dtype).to(wide) for a in bounds]
    return jacobian(p.to(wide), g.to(wide), *bounds, dim).to(p.dtype)


def _by_entry(bound: Parameter, x: Tensor, dim: int) -> Tensor:
    """Return a bound for each entry of the rows of ``x``, as an expanded view where that is possible."""
    if not isinstance(bound, Tensor):
        return x.new_full((1, 1), bound, dtype=torch.float32).expand(max(x.numel() // x.shape[dim], 1), x.shape[dim])
    expanded = bound.float().expand(x.shape).movedim(dim, -1)
    return expanded.flatten(0, -2) if x.dim() > 1 else expanded[None]
