"""Shapes of the tiles that a program of a kernel takes: by the length of a row and the bytes of an entry.

Measured on an H200, but for those of images, and harmless elsewhere.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from omegamax.kernels.choice import REGISTER_ROW


class Tile(NamedTuple):
    """A plain tile: ``rows`` of ``block`` entries for each program, a power of two not below the length of a row."""

    rows: int
    block: int
    warps: int


class FoldedTile(NamedTuple):
    """A folded tile: ``rows`` of ``depth`` times ``width`` entries for each program."""

    rows: int
    depth: int
    width: int
    warps: int


class Blocks(NamedTuple):
    """How a long row is read: ``depth`` blocks of ``block`` entries at a time."""

    depth: int
    block: int
    warps: int


# Rows and width of a folded tile of short rows, by length and bytes of an entry: few threads share a row, so that few
# take part in a sum. Sparsemax needs fewer registers of a thread.
SHORT_TILES = {
    (128, 4): (8, 16),
    (128, 2): (8, 32),
    (256, 4): (4, 32),
    (256, 2): (4, 64),
    (512, 4): (2, 64),
    (512, 2): (4, 64),
}
SHORT_SPARSEMAX_TILES = SHORT_TILES | {(128, 4): (4, 32), (128, 2): (4, 64)}
FOLDED_WARPS = {1024: 1, 2048: 1, 4096: 2, 8192: 4, 16384: 4}  # by length; 8 beyond
ANY_ALPHA_REGISTERS = (
    168  # of a thread, at most, of the kernel of any alpha: six programs of two warps then run at once
)
ABOVE_TWO_REGISTERS = 128  # the same for alpha > 2, where most rows need few of them: eight programs run at once
STRING_REGISTERS = 128  # of a thread, at most, of taut strings: two programs of eight warps then run at once
IMAGE_REGISTERS = 128  # the same of images: four programs of four warps then run at once
STRING_WARPS = 2**16 // (32 * STRING_REGISTERS)  # of a program, at most: a multiprocessor has 65536 registers
LONG_BLOCK = Tile(1, 4096, 8)  # a block of a long row
LONG_BLOCKS = Blocks(4, 4096, 8)
LISTED_ENTRIES = 2048  # of a long row, at most, that are listed one by one where too many groups have candidates
MAX_CANDIDATES = {False: 4096, True: 8192}  # entries of a long row that are loaded again; True: of a general power


def power_of_2(size: int) -> int:
    """Return the least power of two that is not below ``size``."""
    return 1 << (size - 1).bit_length()


@functools.cache
def row_tile(size: int, light: bool = False) -> Tile:
    """Return the plain tile for rows of ``size`` entries.

    ``light``: kernels that do little more than load and store are fastest with few entries for each thread.
    """
    block = power_of_2(size)
    rows = max(1, 512 // block)
    if light:
        return Tile(rows, block, 2 if block <= 512 else min(block // 256, 16 if block <= 8192 else 32))
    return Tile(rows, block, min(max(rows * block // 512, 1), 32))


@functools.cache
def string_tile(size: int) -> Tile:
    """Return the plain tile of taut strings: float64, and several numbers for each entry, of which a thread has 4
    where rows are no longer than 2048."""
    block = max(power_of_2(size), 32)
    rows = max(1, 128 // block)
    return Tile(rows, block, min(max(rows * block // 128, 1), STRING_WARPS))


@functools.cache
def image_tile(cells: int) -> tuple[int, int]:
    """Return the cells that one program holds of an image, all of them and up to a power of two, and its warps."""
    block = max(power_of_2(cells), 64)
    return block, 2 if block <= 128 else min(max(block // 128, 4), 16)


def tiles_per_program(tiles: int, warps: int) -> int:
    """Return how many tiles a program takes that mostly finds nothing to do: as many programs as run at once."""
    programs = 1024 // warps
    return 64 if tiles >= 64 * programs else 8 if tiles >= 8 * programs else 1


@functools.cache
def folded_tile(size: int, itemsize: int, sparsemax: bool = False) -> FoldedTile:
    """Return the folded tile for rows of ``size`` entries of ``itemsize`` bytes."""
    block = power_of_2(size)
    if block <= 512:
        forms = SHORT_SPARSEMAX_TILES if sparsemax else SHORT_TILES
        rows, width = forms.get((block, itemsize), (8, min(block, 16)))
        return FoldedTile(rows, block // width, width, 1)
    return _one_row_tile(block, itemsize, FOLDED_WARPS.get(block, 8))


@functools.cache
def any_alpha_tile(size: int, itemsize: int) -> FoldedTile:
    """Return the folded tile for the kernel of any alpha, whose threads hold two values for each entry."""
    block = power_of_2(size)
    if block == 512 and itemsize == 2:
        return FoldedTile(2, 4, 128, 1)
    if block <= 512:
        return folded_tile(size, itemsize)
    return _one_row_tile(block, itemsize, max(block // 2048, 1))


@functools.cache
def outside_tile(size: int, itemsize: int) -> FoldedTile:
    """Return the folded tile for rows whose own alpha is outside [1, 2]: at most 32 entries for each thread."""
    block = power_of_2(size)
    return any_alpha_tile(size, itemsize) if block <= 512 else _one_row_tile(block, itemsize, block // 1024)


def _one_row_tile(block: int, itemsize: int, warps: int) -> FoldedTile:
    """Return a tile of one row, as wide as one 16-byte load of every thread."""
    width = 16 // itemsize * 32 * warps
    return FoldedTile(1, max(block // width, 1), min(block, width), warps)


@functools.cache
def listed_entries(size: int, groups: int) -> int:
    """Return how many entries of a long row are listed one by one at most: few enough that the list is small beside
    the row, and room for as many ``groups`` as there may be in their place."""
    return max(groups, min(LISTED_ENTRIES, power_of_2(max(size // 32, 1))))


@functools.cache
def candidate_blocks(size: int, power: bool) -> Blocks:
    """Return how a long row is read whose candidates are listed; ``power``: that of a general power."""
    if power:
        block = min(power_of_2(size) // 16, 8192)
        return Blocks(4, block, max(block // 512, 4))
    if size <= REGISTER_ROW:
        return Blocks(4, 2048, 4)
    return LONG_BLOCKS if size <= 131072 else Blocks(4, 8192, 16)
