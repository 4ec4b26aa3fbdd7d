"""Lists of what a loss moves in each row of scores, and the products with two matrices that need no more than these."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from omegamax.kernels.triton import _loss_support, loss
from omegamax.kernels.triton._layout import on_device

BLOCK = 2048  # entries of a row that are looked through at once
EACH = 16  # vectors that are added up at once


class Lists(NamedTuple):
    """Entries of the gradient in some rows of scores."""

    counts: Tensor  # [N], int32; of more than there is room for, the first are listed
    columns: Tensor  # [N, room], int32
    values: Tensor  # [N, room], float32


def listed(z: Tensor, index: Tensor, state: Tensor, g: Tensor, alpha: float | Tensor, room: int) -> Lists:
    """What is not zero of ``g (p - y)``, for scores ``[N, K]`` whose loss has left this state."""
    count, size = z.shape
    counts = z.new_empty(count, dtype=torch.int32)
    columns = z.new_empty(count, room, dtype=torch.int32)
    values = z.new_empty(count, room, dtype=torch.float32)
    if count:
        kind, many, number = loss._alpha(alpha)
        block = min(triton.next_power_of_2(size), BLOCK)
        tensors = (z, index.contiguous(), state, g.contiguous(), counts, columns, values, many, number)
        with on_device(z):
            _loss_support.listed[(count,)](
                *tensors, count, size, z.stride(0), room, kind, many is not None, BLOCK=block, num_warps=8
            )
    return Lists(counts, columns, values)


def gathered(lists: Lists, weight: Tensor, out: Tensor) -> None:
    """``v @ weight`` into ``out``, ``[N, D]``, for the listed ``v`` ``[N, K]``."""
    count, room = lists.columns.shape
    if out.numel():
        block = _block(weight)
        with on_device(weight):
            _loss_support.gathered[(count, -(-weight.shape[1] // block))](
                lists.columns,
                lists.values,
                lists.counts,
                weight,
                out,
                weight.shape[1],
                room,
                weight.stride(0),
                out.stride(0),
                EACH=EACH,
                BLOCK=block,
                num_warps=4,
            )


def summed(tokens: Tensor, columns: Tensor, values: Tensor, hidden: Tensor, out: Tensor, add: bool) -> None:
    """``v.T @ hidden`` into ``out``, ``[K, D]``, or added to it, for entries of ``v`` ``[N, K]``; other rows stay."""
    if not columns.numel() or not out.numel():
        return
    columns, order = columns.sort(stable=True)  # by class, and tokens in order: the sums do not depend on luck
    columns, counts = columns.unique_consecutive(return_counts=True)
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    block = _block(hidden)
    with on_device(hidden):
        _loss_support.summed[(len(columns), -(-hidden.shape[1] // block))](
            tokens[order],
            values[order],
            first,
            columns,
            hidden,
            out,
            hidden.shape[1],
            hidden.stride(0),
            out.stride(0),
            ADD=add,
            EACH=EACH,
            BLOCK=block,
            num_warps=4,
        )


def _block(matrix: Tensor) -> int:
    return min(triton.next_power_of_2(matrix.shape[1]), 512)
