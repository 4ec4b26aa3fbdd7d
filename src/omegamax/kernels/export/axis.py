"""Rows along an axis, in operators of torch that every exporter takes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MAX_BITS = 24  # of the length of a row

Parameter = float | Tensor


def solve_rows(solve: Callable[[Tensor], Tensor], z: Tensor, dim: int, shift: bool = True) -> Tensor:
    """Apply ``solve`` along ``dim`` and settle rows without a finite maximum, which else becomes 0 if ``shift``."""
    row = move_last(z, dim)
    top = row.amax(-1, keepdim=True)
    sound = top.abs() < math.inf
    p = solve(keep(row - top if shift else row, sound))
    # Zero times what is infinite is NaN.
    p = torch.where(sound, p, (0 * top).masked_fill(top == -math.inf, 0.0))
    return move_back(p, dim)


def move_last(t: Tensor, dim: int) -> Tensor:
    """Return a tensor with the axis ``dim`` last; axes are counted from the front, as every exporter takes them."""
    return t if dim == t.dim() - 1 else t.movedim(dim, t.dim() - 1)


def move_back(t: Tensor, dim: int) -> Tensor:
    """Undo :func:`move_last`."""
    return t if dim == t.dim() - 1 else t.movedim(t.dim() - 1, dim)


def to_rows(value: Parameter, z: Tensor, dim: int) -> Tensor:
    """Return a parameter in float64, with its axis last if it is a tensor."""
    if isinstance(value, Tensor):
        return move_last(value, dim).double()
    return torch.full((1,), value, dtype=torch.float64, device=z.device)


def keep(x: Tensor, kept: Tensor) -> Tensor:
    """Return ``x`` where ``kept``, and 0 elsewhere."""
    return x.masked_fill(~kept, 0.0)


def normalise(p: Tensor) -> Tensor:
    """Divide rows by their sums."""
    return p / p.sum(-1, keepdim=True)


def count_rounds(size: int) -> int:
    """Count the rounds of a bisection over ``size`` positions; of a size that a graph leaves open, the most."""
    return size.bit_length() if type(size) is int else MAX_BITS


def count_up(u: Tensor) -> Tensor:
    """Return 0, 1, ... along the rows. Nothing here has the shape of a batch but what is computed from scores.

    An exporter may take such a constant for one, and with it the size of the batch.
    """
    return torch.arange(u.shape[-1], device=u.device).to(u.dtype)
