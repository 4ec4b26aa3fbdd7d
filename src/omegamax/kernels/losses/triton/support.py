"""Lists of what a loss moves in each row of scores, and the products with two matrices that need no more than these."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from omegamax.kernels.losses.triton import launcher as loss
from omegamax.kernels.losses.triton import support_kernels
from omegamax.kernels.triton.layout import on_device

BLOCK = 1024  # entries of a row that are looked through at once


class Lists(NamedTuple):
    """Entries of the gradient in some rows of scores."""

    counts: Tensor  # [N], int32; of more than there is room for, the first are listed
    columns: Tensor  # [N, room], int32
    values: Tensor  # [N, room], float32

    @classmethod
    def empty(cls, like: Tensor, room: int) -> Lists:
        """For as many rows as ``like`` has."""
        columns = like.new_empty(len(like), room, dtype=torch.int32)
        return cls(
            like.new_empty(len(like), dtype=torch.int32), columns, torch.empty_like(columns, dtype=torch.float32)
        )

    def of(self, part: slice) -> Lists:
        """Those of some rows."""
        return Lists(*(x[part] for x in self))


def listed(z: Tensor, index: Tensor, state: Tensor, g: Tensor, alpha: float | Tensor, out: Lists) -> Lists:
    """What is not zero of ``g (p - y)``, for scores ``[N, K]`` whose loss has left this state."""
    count, size = z.shape
    if count:
        kind, many, number = loss._alpha(alpha)
        block = min(triton.next_power_of_2(size), BLOCK)
        tensors = (z, index.contiguous(), state, g.contiguous(), *out, many, number)
        with on_device(z):
            support_kernels.listed[(count,)](
                *tensors,
                count,
                size,
                z.stride(0),
                out.columns.shape[1],
                kind,
                many is not None,
                BLOCK=block,
                num_warps=4,
            )
    return out


def gathered(lists: Lists, weight: Tensor, out: Tensor) -> None:
    """``v @ weight`` into ``out``, ``[N, D]``, for the listed ``v`` ``[N, K]``."""
    count, room = lists.columns.shape
    if out.numel():
        size = weight.shape[1]
        block = min(triton.next_power_of_2(size), 512)
        numbers = (size, room, weight.stride(0), out.stride(0))
        tensors = (lists.columns, lists.values, lists.counts, weight, out)
        with on_device(weight):
            support_kernels.gathered[(count, -(-size // block))](*tensors, *numbers, EACH=16, BLOCK=block, num_warps=4)


def summed(tokens: Tensor, columns: Tensor, values: Tensor, hidden: Tensor, out: Tensor) -> None:
    """``v.T @ hidden`` added to ``out``, ``[K, D]``, for entries of ``v`` ``[N, K]``."""
    if not columns.numel() or not out.numel():
        return
    columns, order = columns.sort(stable=True)  # by class, and tokens in order: the sums do not depend on luck
    columns, counts = columns.unique_consecutive(return_counts=True)
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    size = hidden.shape[1]
    # Most classes have few entries: programs that take whole vectors start less often.
    block = min(triton.next_power_of_2(size), 2048)
    numbers = (size, hidden.stride(0), out.stride(0))
    tensors = (tokens[order], values[order], first, columns, hidden, out)
    with on_device(hidden):
        support_kernels.summed[(len(columns), -(-size // block))](*tensors, *numbers, EACH=4, BLOCK=block, num_warps=4)
