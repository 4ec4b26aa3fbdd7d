"""The loss kernels as the dispatcher calls them: rows of scores and a class for each, no row of probabilities.

Half precision is read and written as it is and computed in float32; float64 is left to plain torch.
"""

from __future__ import annotations

import math

import torch
import triton
from torch import Tensor

from omegamax._numerics import on_support, tsallis_log, tsallis_log_alpha
from omegamax.kernels.losses.triton import long as long_kernels
from omegamax.kernels.losses.triton import soft as soft_kernels
from omegamax.kernels.losses.triton import tile as tile_kernels
from omegamax.kernels.rows import reference
from omegamax.kernels.rows.triton import general
from omegamax.kernels.triton.layout import on_device

Parameter = float | Tensor

ENTMAX, STEEP = general.ENTMAX.value, general.STEEP.value
EXACT = {1.0: general.SOFTMAX.value, 1.5: general.ENTMAX15.value, 2.0: general.SPARSEMAX.value}

LONGEST = 4096  # entries of a row that one program holds in its registers
LONG = 1024  # entries of the block of a longer row of which a program keeps four
BACKWARD = 2048  # entries of a program of the backward pass
AT_ONCE = 1 << 24  # entries of rows that plain torch takes at a time


def entmax_loss(
    z: Tensor, target: Tensor, alpha: Parameter, smoothing: float, slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """``Omega*(z) - <y, z>`` of rows ``[N, K]`` for classes ``[N]``, or with ``Omega(y)`` for probabilities ``[N, K]``.

    Args:
        z: entries of a row next to each other; so are those of probabilities.
        alpha: a number, or one for each row, ``[N]`` in float32.
        smoothing: the share of a class that goes to all of them.
        slope: whether the derivative in alpha is wanted.

    Returns:
        The values ``[N]``, what the probabilities are made of ``[N, 3]``, and the slopes ``[N]`` (else ``[0]``), all
        in float32.
    """
    if target.is_floating_point():
        return _soft(z, target, alpha, smoothing, slope)
    count, size = z.shape
    value, state = z.new_empty(count, dtype=torch.float32), z.new_empty(count, 3, dtype=torch.float32)
    slopes = z.new_empty(count if slope else 0, dtype=torch.float32)
    if not count:
        return value, state, slopes
    kind, many, number = _alpha(alpha)
    long = size > LONGEST
    if long and kind == STEEP:
        # Waits for the GPU. Rows of a vocabulary with alpha above 2 are rare enough to be left to plain torch.
        if many is None or bool((many > 2).any()):
            return _plain(z, target, alpha, smoothing, slope)
        kind = ENTMAX
    with on_device(z):
        tensors = (z, target.contiguous(), value, state, slopes, many, number)
        numbers = (float(smoothing), count, size, z.stride(0))
        flags = (kind, many is not None, smoothing > 0, slope)
        if long:
            long_kernels.forward[(count,)](*tensors, *numbers, *flags, BLOCK=LONG, num_warps=8)
        else:
            block = triton.next_power_of_2(size)
            rows = max(512 // block, 1)
            warps = _warps(rows * block, 1024 if kind not in (ENTMAX, STEEP) else 512)
            tile_kernels.forward[(-(-count // rows),)](*tensors, *numbers, *flags, R=rows, BLOCK=block, num_warps=warps)
    return value, state, slopes


def entmax_loss_vjp(
    z: Tensor, target: Tensor, state: Tensor, g: Tensor, alpha: Parameter, smoothing: float, in_place: bool
) -> Tensor:
    """``g (p - y)``, ``[N, K]``, from what the loss has kept; ``in_place`` of the scores, or next to them."""
    count, size = z.shape
    out = z if in_place else torch.empty_like(z, memory_format=torch.contiguous_format)
    if not count:
        return out
    kind, many, number = _alpha(alpha)
    block = min(triton.next_power_of_2(size), BACKWARD)
    rows = max(512 // block, 1)
    grid = (-(-count // rows), -(-size // block))
    soft = target.is_floating_point()
    kernel = soft_kernels.backward if soft else tile_kernels.backward
    strides = (z.stride(0), *([target.stride(0)] if soft else []), out.stride(0))
    numbers = (many, number, float(smoothing), count, size, *strides, kind, many is not None)
    with on_device(z):
        tensors = (z, target if soft else target.contiguous(), state, g.contiguous(), out)
        kernel[grid](*tensors, *numbers, R=rows, BLOCK=block, num_warps=_warps(rows * block, 512))
    return out


def _soft(z: Tensor, y: Tensor, alpha: Parameter, smoothing: float, slope: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The thresholds are those of any target."""
    count, size = z.shape
    value, state, _ = entmax_loss(z, z.new_zeros(count, dtype=torch.long), alpha, 0.0, False)
    slopes = torch.empty_like(value) if slope else value[:0]
    if count:
        kind, many, number = _alpha(alpha)
        # The rounding of many entries adds up, and a large common score would multiply it: it counts as none.
        slack = size * torch.finfo(y.dtype).eps
        block = min(triton.next_power_of_2(size), 1024)
        with on_device(z):
            tensors = (z, y, value, state, slopes, many, number, float(smoothing), slack)
            sizes = (count, size, z.stride(0), y.stride(0), kind, many is not None, slope)
            soft_kernels.forward[(count,)](*tensors, *sizes, BLOCK=block, num_warps=_warps(block, 256))
    return value, state, slopes


def _warps(entries: int, each: int) -> int:
    return min(max(entries // each, 1), 16)


def _alpha(alpha: Parameter) -> tuple[int, Tensor | None, float]:
    """The kernel for it, and alpha by row or as a number."""
    if isinstance(alpha, Tensor):
        return STEEP, alpha.contiguous(), 2.0
    return STEEP if alpha > 2 else EXACT.get(alpha, ENTMAX), None, float(alpha)


def _plain(z: Tensor, index: Tensor, alpha: Parameter, smoothing: float, slope: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The same in plain torch, some rows at a time."""
    a = alpha if isinstance(alpha, Tensor) else z.new_full((len(z),), alpha, dtype=torch.float32)
    parts = (t.split(max(AT_ONCE // z.shape[1], 1)) for t in (z, index, a))
    found = [
        _plain_rows(x.double(), y[:, None], b[:, None].double(), smoothing) for x, y, b in zip(*parts, strict=True)
    ]
    value, state, slopes = (torch.cat(each).float() for each in zip(*found, strict=True))
    return value, state, slopes if slope else slopes[:0]


def _plain_rows(z: Tensor, index: Tensor, a: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    top = z.amax(-1, keepdim=True)
    x = z - torch.where(top == -math.inf, 0.0, top)
    p = reference.entmax(z, a)
    support, safe = on_support(p)
    sharp = a == math.inf
    a = torch.where(sharp, 2.0, a)
    level = -tsallis_log(p.amax(-1, keepdim=True), a)
    value = torch.where(sharp, 0.0, level + (p.pow(a).sum(-1, keepdim=True) - 1) / a)
    met = (1 - smoothing) * x.gather(-1, index) + (smoothing * x.mean(-1, keepdim=True) if smoothing else 0.0)
    value = torch.where(met == -math.inf, math.inf, value - met)
    value = torch.where(top < math.inf, value, math.nan)
    slope = (p * (tsallis_log(p, a) / a + tsallis_log_alpha(p, a)) / a).sum(-1, keepdim=True)
    # Above 2 the smallest entry of the support and its probability, else the level and what float32 leaves of it.
    steep = sharp | (a > 2)
    first = torch.where(steep, torch.where(support, x, 0.0).amin(-1, keepdim=True), level.float())
    second = torch.where(steep, safe.amin(-1, keepdim=True), level - level.float())
    return value.squeeze(-1), torch.cat([top, first, second], -1), torch.where(sharp, 0.0, slope).squeeze(-1)
