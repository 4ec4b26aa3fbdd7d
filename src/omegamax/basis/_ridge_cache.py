"""Operators that were computed once: looked up by size, gathered for a batch of mixed sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax._checks import is_plain
from omegamax.basis.grid import Size
from omegamax.basis.positions import BatchPositions

# Entries held before everything is forgotten: 1 GB in single precision. A text corpus with every length from 1 to 2000
# and 64 functions takes 0.6 of it.
_MOST_ENTRIES = 2**28
_BAND = 256  # positions; sizes of one band share a table, so that no short one is padded to the longest there is
_STEP = 128  # positions; tables of all lengths are as wide as a multiple of it


class OperatorCache:
    """Operators ``[J, l]`` by size, and tables ``[U, J, L]`` of them with zero columns behind, from which rows come.

    ``setting`` is whatever else an operator depends on: dtype, device, penalty. A table holds sizes of about as many
    positions: the first 256, the next 256, and so on; and those of the band below that came with them.
    """

    def __init__(self) -> None:
        self._single: dict[Hashable, Tensor] = {}
        self._tables: dict[tuple[Hashable, int], tuple[dict[Size, int], Tensor]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._single.clear()
        self._tables.clear()

    def find(self, where: BatchPositions, setting: Hashable, make: Callable[[Size], Tensor]) -> Tensor:
        """Return the operators of a batch at fixed positions: ``[J, L]`` if all are of one size, else ``[*, J, L]``."""
        if where.counts is not None:
            return self.every(where.counts, where.width, setting, make)
        assert where.sizes is not None
        if len(set(where.sizes)) > 1:
            found = self.many(where.sizes, where.width, setting, make)
            return found.reshape(*where.batch, *found.shape[1:])
        found = self.one(where.sizes[0], setting, make)
        return pad(found, (0, where.width - found.shape[-1])) if found.shape[-1] < where.width else found

    def one(self, size: Size, setting: Hashable, make: Callable[[Size], Tensor]) -> Tensor:
        """Return the operator for one size."""
        found = self._single.get((size, setting))
        if found is None:
            found = make(size)
            if _is_lasting(found):
                if sum(t.numel() for t in self._single.values()) + found.numel() > _MOST_ENTRIES:
                    self._single.clear()
                self._single[size, setting] = found
        return found

    def many(self, sizes: list[Size], width: int, setting: Hashable, make: Callable[[Size], Tensor]) -> Tensor:
        """Return the operators for several sizes, ``[len(sizes), J, width]``."""
        bands: dict[int, list[int]] = {}
        for place, size in enumerate(sizes):
            bands.setdefault(max(0, math.prod(size) - 1) // _BAND, []).append(place)
        if len(bands) == 2 and max(bands) - min(bands) == 1:  # texts of about one length: one table has them all
            bands = {max(bands): list(range(len(sizes)))}
        parts = []
        for band, places in bands.items():
            part = self._gather([sizes[i] for i in places], width, (setting, band), make)
            parts.append(part if part.shape[-1] == width else pad(part, (0, width - part.shape[-1])))
        if len(parts) == 1:
            return parts[0]
        order = sorted(range(len(sizes)), key=[place for places in bands.values() for place in places].__getitem__)
        whole = torch.cat(parts)
        return whole.index_select(0, torch.tensor(order).to(whole.device, non_blocking=True))

    def every(self, counts: Tensor, width: int, setting: Hashable, make: Callable[[Size], Tensor]) -> Tensor:
        """Return the operators for numbers of cells of a line ``[*]`` that are on a device, ``[*, J, width]``.

        Nobody waits for them, since those of all lengths are kept: the first call takes long, and a CUDA graph can hold
        the later ones.
        """
        reach = -(-max(width, 1) // _STEP) * _STEP

        def tabulate(size: Size) -> Tensor:
            rows = [make((length,)) for length in range(size[0] + 1)]
            return torch.stack([pad(row, (0, size[0] - row.shape[-1])) for row in rows])

        table = self.one((reach,), ("every", setting), tabulate)
        found = table[..., :width].index_select(0, counts.flatten())
        return found.reshape(*counts.shape, *found.shape[1:])

    def _gather(
        self, sizes: list[Size], width: int, key: tuple[Hashable, int], make: Callable[[Size], Tensor]
    ) -> Tensor:
        """Return the operators for sizes of one band, at most ``width`` columns of each."""
        slots, table = self._tables.get(key, ({}, None))
        missing = [s for s in dict.fromkeys(sizes) if s not in slots]
        if table is None or missing:
            reach = max(map(math.prod, missing), default=0)
            if table is not None:
                reach = max(reach, table.shape[-1])
                others = sum(t.numel() for other, (_, t) in self._tables.items() if other != key)
                if others + (len(slots) + len(missing)) * table.shape[1] * reach > _MOST_ENTRIES:
                    self._tables.clear()
                    slots, table, missing = {}, None, list(dict.fromkeys(sizes))
                    reach = max(map(math.prod, missing))
            slots, table = _extend_table(slots, table, missing, reach, make)
            if _is_lasting(table):
                self._tables[key] = slots, table
        # A copy that blocks would wait for all that a GPU still has to do.
        index = torch.tensor([slots[s] for s in sizes]).to(table.device, non_blocking=True)
        return table[..., :width].index_select(0, index)


def _extend_table(
    slots: dict[Size, int], table: Tensor | None, missing: list[Size], width: int, make: Callable[[Size], Tensor]
) -> tuple[dict[Size, int], Tensor]:
    """Return a table with further operators, at least ``width`` columns wide, and where each size is in it."""
    rows = [make(s) for s in missing]
    if table is not None:
        width = max(width, table.shape[-1])
    fresh = [pad(r, (0, width - r.shape[-1])).unsqueeze(0) for r in rows]
    before = [] if table is None else [pad(table, (0, width - table.shape[-1]))]
    slots = {**slots, **{s: len(slots) + i for i, s in enumerate(missing)}}
    return slots, torch.cat(before + fresh)


def _is_lasting(t: Tensor) -> bool:
    """Tell whether a tensor may be kept for later calls: not if it belongs to a trace (under dynamo it is real)."""
    return type(t) is Tensor if torch.compiler.is_compiling() else is_plain(t)
