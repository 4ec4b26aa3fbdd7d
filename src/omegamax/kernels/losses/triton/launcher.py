"""Launch the kernels of entmax losses: rows of scores and a target for each, no row of probabilities.

Half precision is loaded and stored as it is and computed in float32; float64 is left to plain torch. The second half of
the file lists the support of each row of the gradient, and multiplies two matrices by these lists.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.choice import Parameter, choose, entmax_case, kind_of
from omegamax.kernels.kinds import Kind
from omegamax.kernels.losses.triton.long import entmax_loss_long_kernel
from omegamax.kernels.losses.triton.projection import gather_rows_kernel, list_support_kernel, scatter_rows_kernel
from omegamax.kernels.losses.triton.soft_targets import entmax_loss_soft_kernel, entmax_loss_soft_vjp_kernel
from omegamax.kernels.losses.triton.tile import entmax_loss_kernel, entmax_loss_vjp_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import on_device

LONG_BLOCK = 1024  # entries of the block of a long row, of each position of which a program keeps four
VJP_BLOCK = 2048  # entries of a row, at most, that a program of the backward pass takes
LIST_BLOCK = 1024  # entries of a row that are searched for support at once


VJP_KERNELS = {
    "entmax_loss_vjp_kernel": entmax_loss_vjp_kernel,
    "entmax_loss_soft_vjp_kernel": entmax_loss_soft_vjp_kernel,
}


def entmax_loss(
    z: Tensor, target: Tensor, alpha: Parameter, smoothing: float, slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``Omega*(z) - <y, z>`` of rows ``[N, K]`` for classes ``[N]``; plus ``Omega(y)`` for targets ``[N, K]``.

    Args:
        z: entries of a row next to each other; so are those of target probabilities.
        alpha: a scalar, or one for each row, ``[N]`` in float32.
        smoothing: the share of a class that goes to all of them.
        slope: whether the derivative in alpha is wanted.

    Returns:
        The values ``[N]``, what the probabilities are made of ``[N, 3]``, and the slopes ``[N]`` (else ``[0]``), all
        in float32.
    """
    if target.is_floating_point():
        return _soft_loss(z, target, alpha, smoothing, slope)
    count, size = z.shape
    value, state = z.new_empty(count, dtype=torch.float32), z.new_empty(count, 3, dtype=torch.float32)
    slopes = z.new_empty(count if slope else 0, dtype=torch.float32)
    if not count:
        return value, state, slopes
    case, kind, (alphas, scalar) = entmax_case(alpha), kind_of(alpha), _split(alpha)
    kernel = choose("entmax_loss", case, z.itemsize, size)[0]
    with on_device(z):
        tensors = (z, target.contiguous(), value, state, slopes, alphas, scalar)
        scalars = (float(smoothing), count, size, z.stride(0))
        flags = (kind.value, alphas is not None, smoothing > 0, slope)
        if kernel == "entmax_loss_long_kernel":
            entmax_loss_long_kernel[(count,)](*tensors, *scalars, *flags, BLOCK=LONG_BLOCK, num_warps=8)
        else:
            block = power_of_2(size)
            rows = max(512 // block, 1)
            warps = _warps(rows * block, 1024 if kind not in (Kind.ENTMAX, Kind.ENTMAX_ABOVE_2) else 512)
            grid = (-(-count // rows),)
            entmax_loss_kernel[grid](*tensors, *scalars, *flags, R=rows, BLOCK=block, num_warps=warps)
    return value, state, slopes


def entmax_loss_vjp(
    z: Tensor,
    target: Tensor,
    state: Tensor,
    g: Tensor,
    alpha: Parameter,
    smoothing: float,
    in_place: bool,
    classes: int | None = None,
) -> Tensor:
    """Return ``g (p - y)``, ``[N, K]``, from the state of the loss.

    Args:
        in_place: overwrite the scores.
        classes: of how many the scores are a few, next to each other; None: all. Index 0 is the first of these few, and
            an index that is none of them stands for another class.
    """
    count, size = z.shape
    out = z if in_place else torch.empty_like(z, memory_format=torch.contiguous_format)
    if not count:
        return out
    kind, (alphas, scalar) = kind_of(alpha), _split(alpha)
    block = min(power_of_2(size), VJP_BLOCK)
    rows = max(512 // block, 1)
    grid = (-(-count // rows), -(-size // block))
    soft = target.is_floating_point()
    operation = "soft_entmax_loss_vjp" if soft else "entmax_loss_vjp"
    kernel = VJP_KERNELS[choose(operation, entmax_case(alpha), z.itemsize, size)[0]]
    strides = (z.stride(0), *([target.stride(0)] if soft else []), out.stride(0))
    shares = (float(smoothing), *([] if soft else [smoothing / (classes or size)]))
    scalars = (alphas, scalar, *shares, count, size, *strides, kind.value, alphas is not None)
    with on_device(z):
        tensors = (z, target if soft else target.contiguous(), state, g.contiguous(), out)
        kernel[grid](*tensors, *scalars, R=rows, BLOCK=block, num_warps=_warps(rows * block, 512))
    return out


def _soft_loss(z: Tensor, y: Tensor, alpha: Parameter, smoothing: float, slope: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss against probabilities: the thresholds, which no target changes, then one more pass."""
    count, size = z.shape
    value, state, _ = entmax_loss(z, z.new_zeros(count, dtype=torch.long), alpha, 0.0, False)
    slopes = torch.empty_like(value) if slope else value[:0]
    if count:
        kind, (alphas, scalar) = kind_of(alpha), _split(alpha)
        # The rounding of many entries adds up, and a large common score would multiply it: it counts as none.
        slack = size * torch.finfo(y.dtype).eps
        block = min(power_of_2(size), 1024)
        with on_device(z):
            tensors = (z, y, value, state, slopes, alphas, scalar, float(smoothing), slack)
            sizes = (count, size, z.stride(0), y.stride(0), kind.value, alphas is not None, slope)
            entmax_loss_soft_kernel[(count,)](*tensors, *sizes, BLOCK=block, num_warps=_warps(block, 256))
    return value, state, slopes


def _warps(entries: int, each: int) -> int:
    return min(max(entries // each, 1), 16)


def _split(alpha: Parameter) -> tuple[Tensor | None, float]:
    """Return alpha by row and as a scalar, of which a kernel reads one."""
    return (alpha.contiguous(), 2.0) if isinstance(alpha, Tensor) else (None, float(alpha))


class SupportLists(NamedTuple):
    """Entries of the gradient in some rows of scores that are not zero."""

    counts: Tensor  # [N], int32; where it exceeds the room, the first are listed
    columns: Tensor  # [N, room], int32
    values: Tensor  # [N, room], float32

    @classmethod
    def empty(cls, like: Tensor, room: int) -> SupportLists:
        """Return lists for as many rows as ``like`` has."""
        columns = like.new_empty(len(like), room, dtype=torch.int32)
        return cls(
            like.new_empty(len(like), dtype=torch.int32), columns, torch.empty_like(columns, dtype=torch.float32)
        )

    def of(self, part: slice) -> SupportLists:
        """Return the lists of some rows."""
        return SupportLists(*(x[part] for x in self))


def list_support(
    z: Tensor, index: Tensor, state: Tensor, g: Tensor, alpha: Parameter, out: SupportLists
) -> SupportLists:
    """List what is not zero of ``g (p - y)``, for scores ``[N, K]`` whose loss has returned this state."""
    count, size = z.shape
    if count:
        kind, (alphas, scalar) = kind_of(alpha), _split(alpha)
        tensors = (z, index.contiguous(), state, g.contiguous(), *out, alphas, scalar)
        sizes = (count, size, z.stride(0), out.columns.shape[1], kind.value, alphas is not None)
        with on_device(z):
            list_support_kernel[(count,)](*tensors, *sizes, BLOCK=min(power_of_2(size), LIST_BLOCK), num_warps=4)
    return out


def gather_rows(lists: SupportLists, weight: Tensor, out: Tensor) -> None:
    """Write ``v @ weight`` to ``out [N, D]``, for the listed ``v [N, K]``."""
    count, room = lists.columns.shape
    if out.numel():
        size = weight.shape[1]
        block = min(power_of_2(size), 512)
        scalars = (size, room, weight.stride(0), out.stride(0))
        tensors = (lists.columns, lists.values, lists.counts, weight, out)
        with on_device(weight):
            gather_rows_kernel[(count, -(-size // block))](*tensors, *scalars, EACH=16, BLOCK=block, num_warps=4)


def scatter_rows(tokens: Tensor, columns: Tensor, values: Tensor, hidden: Tensor, out: Tensor) -> None:
    """Add ``v.T @ hidden`` to ``out [K, D]``, for entries ``values`` of ``v [N, K]`` at rows ``tokens`` and columns."""
    if not columns.numel() or not out.numel():
        return
    columns, order = columns.sort(stable=True)  # by class, and tokens in order, so that the sums are reproducible
    columns, counts = columns.unique_consecutive(return_counts=True)
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    size = hidden.shape[1]
    # Most classes have few entries: the fewer programs, the less time is spent on starting them.
    block = min(power_of_2(size), 2048)
    scalars = (size, hidden.stride(0), out.stride(0))
    tensors = (tokens[order], values[order], first, columns, hidden, out)
    with on_device(hidden):
        scatter_rows_kernel[(len(columns), -(-size // block))](*tensors, *scalars, EACH=4, BLOCK=block, num_warps=4)
