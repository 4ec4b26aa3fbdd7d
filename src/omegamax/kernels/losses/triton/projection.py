"""Gradients through a linear layer by the support of its scores: few entries of a row, listed, instead of all.

With ``v = p - y`` the gradient of the loss in the scores ``W h``, that in ``h`` is a sum of as many rows of ``W`` as
``v`` has entries, and that in a row of ``W`` a sum of as many ``h`` as have it in their support.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.losses.triton.long import support_edge
from omegamax.kernels.losses.triton.tile import probabilities_at, shift_scores
from omegamax.kernels.triton.device import INF, load_alpha


@triton.jit
def list_support_kernel(
    z_ptr,
    index_ptr,
    state_ptr,
    g_ptr,
    count_ptr,
    column_ptr,
    value_ptr,
    alpha_ptr,
    alpha,
    rows,
    K: tl.constexpr,
    z_stride,
    room,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """List columns and values of the nonzero entries of ``g (p - y)``, in order; their count may exceed the room."""
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    column_ptr += row * room
    value_ptr += row * room
    g = tl.load(g_ptr + row)
    index = tl.load(index_ptr + row)
    top = tl.load(state_ptr + 3 * row)
    t = tl.load(state_ptr + 3 * row + 1)
    step = tl.load(state_ptr + 3 * row + 2)
    a = load_alpha(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), rows, PER_ROW, 1)
    count = 0
    if g != 0.0:
        low = support_edge(a, t, step, KIND)
        for begin in range(0, K, BLOCK):
            column = begin + tl.arange(0, BLOCK)[None, :]
            z = tl.load(z_ptr + column, mask=column < K, other=-INF).to(tl.float32)
            x = shift_scores(z, top)
            is_target = column == index
            candidate = (x > low) | is_target
            if tl.max(candidate.to(tl.int32)) > 0:
                p, _ = probabilities_at(x, a, t, step, KIND)
                p = tl.where(z > -INF, p, 0.0)
                on = ((p > 0.0) | is_target).to(tl.int32)
                position = count + tl.cumsum(on, 1) - 1
                fits = (on > 0) & (position < room)
                tl.store(column_ptr + position, column, mask=fits)
                tl.store(value_ptr + position, g * (p - is_target.to(tl.float32)), mask=fits)
                count += tl.sum(on)
        # Rows of NaN have no zeros.
        count = tl.where(top < INF, count, K)
    tl.store(count_ptr + row, count)


@triton.jit
def gather_rows_kernel(
    column_ptr,
    value_ptr,
    count_ptr,
    weight_ptr,
    out_ptr,
    D,
    room,
    weight_stride,
    out_stride,
    EACH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum the listed rows of ``weight``, for a block of its columns, for each row of lists."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([1, BLOCK], tl.float32)
    begin = 0
    count = tl.minimum(tl.load(count_ptr + row), room)
    while begin < count:
        entry = begin + tl.arange(0, EACH)[:, None]
        mask = entry < count
        column = tl.load(column_ptr + row * room + entry, mask=mask, other=0).to(tl.int64)
        value = tl.load(value_ptr + row * room + entry, mask=mask, other=0.0)
        vectors = tl.load(weight_ptr + column * weight_stride + d, mask=mask & (d < D), other=0.0).to(tl.float32)
        total += tl.sum(value * vectors, 0, keep_dims=True)
        begin += EACH
    tl.store(out_ptr + row * out_stride + d, total, mask=d < D)


@triton.jit
def scatter_rows_kernel(
    token_ptr,
    value_ptr,
    first_ptr,
    column_ptr,
    hidden_ptr,
    out_ptr,
    D,
    hidden_stride,
    out_stride,
    EACH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the listed rows of ``hidden``, for a block of its columns, for each class that is in some support."""
    class_index = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([1, BLOCK], tl.float32)
    begin = tl.load(first_ptr + class_index)
    end = tl.load(first_ptr + class_index + 1)
    while begin < end:
        entry = begin + tl.arange(0, EACH)[:, None]
        mask = entry < end
        token = tl.load(token_ptr + entry, mask=mask, other=0).to(tl.int64)
        value = tl.load(value_ptr + entry, mask=mask, other=0.0)
        vectors = tl.load(hidden_ptr + token * hidden_stride + d, mask=mask & (d < D), other=0.0).to(tl.float32)
        total += tl.sum(value * vectors, 0, keep_dims=True)
        begin += EACH
    out_ptr += tl.load(column_ptr + class_index).to(tl.int64) * out_stride
    total += tl.load(out_ptr + d, mask=d < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + d, total, mask=d < D)
