"""Rows of numbers of several lengths, kept one behind the other."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import torch
from torch import Tensor


class RaggedRows:
    """Rows that are added one by one; four bytes a number.

    Args:
        code: of the numbers, ``"i"`` for int32 or ``"f"`` for float32.

    >>> rows = RaggedRows("i")
    >>> rows.add([1, 2])
    >>> rows.add([3])
    >>> rows.tensors(), get_row(rows.tensors(), 1)
    ((tensor([1, 2, 3], dtype=torch.int32), tensor([0, 2, 3])), tensor([3], dtype=torch.int32))
    """

    def __init__(self, code: str) -> None:
        self.flat, self.ends = array(code), array("q", [0])

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.ends) - 1

    def add(self, row: Iterable[float]) -> None:
        """Put a row behind the others."""
        self.flat.extend(row)  # type: ignore[arg-type]
        self.ends.append(len(self.flat))

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Return all numbers, and where each row begins and ends."""
        dtype = {"i": torch.int32, "f": torch.float32}[self.flat.typecode]
        flat = torch.frombuffer(self.flat, dtype=dtype) if self.flat else torch.empty(0, dtype=dtype)
        return flat, torch.tensor(self.ends)


def get_row(rows: tuple[Tensor, Tensor], index: int) -> Tensor:
    """Return one row of what :meth:`RaggedRows.tensors` gave."""
    flat, ends = rows
    return flat[ends[index] : ends[index + 1]]
