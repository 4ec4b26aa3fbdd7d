"""How scores lie in memory as rows, and how many rows and warps a program takes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
import triton
from torch import Tensor

LONGEST = 32768  # entries that one program holds in its registers


class Tile(NamedTuple):
    """``rows`` of ``block`` entries for each program, a power of two at least as long as a row."""

    rows: int
    block: int
    warps: int


@functools.cache
def tile(size: int, light: bool = False) -> Tile:
    """What one program takes of rows of ``size`` entries; measured on Hopper, harmless elsewhere.

    ``light``: kernels that do little more than read and write are best with few entries for a thread.
    """
    block = triton.next_power_of_2(size)
    rows = max(1, 512 // block)
    if light:
        return Tile(rows, block, 2 if block <= 512 else min(block // 256, 16 if block <= 8192 else 32))
    return Tile(rows, block, min(max(rows * block // 512, 1), 32))


def turns_of(tiles: int, warps: int) -> int:
    """How many tiles a program has that mostly finds that there is nothing to do: as many programs as run at a time."""
    programs = 1024 // warps
    return 64 if tiles >= 64 * programs else 8 if tiles >= 8 * programs else 1


class Sheaf(NamedTuple):
    """``rows`` of ``depth`` times ``width`` entries for each program; a thread has those ``width`` apart."""

    rows: int
    depth: int
    width: int
    warps: int


# Rows and width for short rows, by length and bytes of an entry: a few threads share a row, so that sums cross few.
SHEAVES = {
    (128, 4): (8, 16),
    (128, 2): (8, 32),
    (256, 4): (4, 32),
    (256, 2): (4, 64),
    (512, 4): (2, 64),
    (512, 2): (4, 64),
}
LINEAR = {(128, 4): (4, 32), (128, 2): (4, 64)}  # those for sparsemax that differ: it takes less of a thread
WARPS = {1024: 1, 2048: 1, 4096: 2, 8192: 4, 16384: 4}


@functools.cache
def sheaf(size: int, itemsize: int, linear: bool = False) -> Sheaf:
    """As :func:`tile`, for the kernels of sparsemax, which is ``linear``, and its kin."""
    block = triton.next_power_of_2(size)
    if block <= 512:
        forms = SHEAVES | LINEAR if linear else SHEAVES
        rows, width = forms.get((block, itemsize), (8, min(block, 16)))
        return Sheaf(rows, block // width, width, 1)
    return _wide_sheaf(block, itemsize, WARPS.get(block, 8))


REGISTERS = 168  # for a thread of the kernel of any alpha, so that six programs of two warps run at a time


@functools.cache
def heavy_sheaf(size: int, itemsize: int) -> Sheaf:
    """The same for the kernel of any alpha, whose threads hold two numbers for each entry."""
    block = triton.next_power_of_2(size)
    if block == 512 and itemsize == 2:
        return Sheaf(2, 4, 128, 1)
    if block <= 512:
        return sheaf(size, itemsize)
    return _wide_sheaf(block, itemsize, max(block // 2048, 1))


def _wide_sheaf(block: int, itemsize: int, warps: int) -> Sheaf:
    """One row, as wide as one vector load of all threads brings."""
    width = 16 // itemsize * 32 * warps
    return Sheaf(1, max(block // width, 1), min(block, width), warps)


LONG = Tile(1, 4096, 8)  # a block of a row that is longer
LISTED = (4096, 8192)  # entries of such a row that are looked at again, for sparsemax and entmax15 and for other powers


class Stretch(NamedTuple):
    """``depth`` blocks of ``block`` entries, which are read at a time."""

    depth: int
    block: int
    warps: int


STRETCH = Stretch(4, 4096, 8)


@functools.cache
def stretch(size: int, itemsize: int, dense: bool) -> Stretch | None:
    """How a row is read whose survivors are listed, or None where all of it is kept; ``dense``: many may survive."""
    if size <= (8192 if dense else 16384 if itemsize < 4 else LONGEST):
        return None
    if dense:
        block = min(triton.next_power_of_2(size) // 16, 8192)
        return Stretch(4, block, max(block // 512, 4))
    if size <= LONGEST:
        return Stretch(4, 2048, 4)
    return STRETCH if size <= 131072 else Stretch(4, 8192, 16)


def as_rows(x: Tensor, dim: int) -> Tensor:
    """``x`` as ``[rows, size]`` with ``dim`` last, its entries next to each other; a view where it can be one."""
    if dim == x.dim() - 1 and x.is_contiguous():
        return x.view(-1, x.shape[-1]) if x.dim() != 2 else x
    rows = x.movedim(dim, -1).flatten(0, -2) if x.dim() > 1 else x[None]
    return rows if rows.stride(-1) == 1 or rows.shape[-1] == 1 else rows.contiguous()


def like(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """Rows as a contiguous tensor of the shape of ``x``."""
    if dim == x.dim() - 1:
        return rows.view(x.shape)
    return rows.view(x.movedim(dim, -1).shape).movedim(-1, dim).contiguous()


def by_row(parameter: Tensor, x: Tensor, dim: int) -> Tensor:
    """One number for each row, in float32."""
    shape = list(x.shape)
    shape[dim] = 1
    return parameter.expand(shape).movedim(dim, -1).reshape(math.prod(shape)).float().contiguous()


def along_last(kernel: Callable[..., Tensor], z: Tensor, *rest) -> Tensor:
    """What a kernel of the last axis gives for ``(z, *parameters, dim)``; parameters have the rank of the scores."""
    *parameters, dim = rest
    moved = (a.movedim(dim, -1) if isinstance(a, Tensor) else a for a in (z, *parameters))
    return kernel(*moved).movedim(-1, dim).contiguous()


def on_device(x: Tensor):
    """Launch on the device of ``x``, which need not be the current one."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)
