"""Operators that were computed once: looked up by size, gathered for a batch of mixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax._checks import is_plain
from omegamax.basis.positions import Size

# Entries held before everything is forgotten: 256 MB in single precision. A text corpus with every length from 1 to
# 1024 and 64 functions fits.
_MOST_ENTRIES = 2**26


class OperatorCache:
    """Operators ``[J, l]`` by size, and tables ``[U, J, L]`` of them with zero columns behind, from which rows come.

    ``setting`` is whatever else an operator depends on: dtype, device, penalty.
    """

    def __init__(self) -> None:
        self._single: dict[Hashable, Tensor] = {}
        self._tables: dict[Hashable, tuple[dict[Size, int], Tensor]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._single.clear()
        self._tables.clear()

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
        slots, table = self._tables.get(setting, ({}, None))
        missing = [s for s in dict.fromkeys(sizes) if s not in slots]
        if table is None or missing or table.shape[-1] < width:
            if table is not None:
                reach = max(width, table.shape[-1])
                if (len(slots) + len(missing)) * table.shape[1] * reach > _MOST_ENTRIES:
                    slots, table, missing = {}, None, list(dict.fromkeys(sizes))
            slots, table = extend_table(slots, table, missing, width, make)
            if _is_lasting(table):
                self._tables[setting] = slots, table
        index = torch.tensor([slots[s] for s in sizes], device=table.device)
        return table[..., :width].index_select(0, index)


def extend_table(
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
