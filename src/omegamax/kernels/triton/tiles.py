"""Tiles: the entries of some rows that a program has, how it reads them and how it writes what it made of them.

``EVEN``: every program has all its rows, and they are as long as a tile; then nothing has to be asked for an entry.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(rows, K, R: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers of this program's rows ``[R, 1]`` and entries ``[1, BLOCK]``, and which of them there are."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    return row, column, (row < rows) & (column < K)


@triton.jit
def sheaf_of(rows, K, R: tl.constexpr, C: tl.constexpr, L: tl.constexpr):
    """The same of tiles ``[R, C, L]``, of which a thread has entries with all numbers along ``C``."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None, None]
    column = tl.arange(0, C)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    return row, column, (row < rows) & (column < K)


@triton.jit
def read(ptr, column, here, other: tl.constexpr, EVEN: tl.constexpr):
    """Entries of the rows at ``ptr`` in float32, ``other`` where there are none."""
    if EVEN:
        return tl.load(ptr + column).to(tl.float32)
    return tl.load(ptr + column, mask=here, other=other).to(tl.float32)


@triton.jit
def write(ptr, column, here, x, EVEN: tl.constexpr):
    """Entries to the rows at ``ptr``."""
    if EVEN:
        tl.store(ptr + column, x)
    else:
        tl.store(ptr + column, x, mask=here)
