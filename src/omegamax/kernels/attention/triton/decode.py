"""Launch the kernels that attend to a cache in pages; nothing waits for the device between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.attention.call import pad_to_power_of_2
from omegamax.kernels.attention.paged import Decoded, PagedCall
from omegamax.kernels.attention.triton.pages import bound_pages_kernel, read_pages_kernel
from omegamax.kernels.attention.triton.survivors import (
    bound_edges_kernel,
    combine_splits_kernel,
    solve_survivors_kernel,
    weigh_survivors_kernel,
)
from omegamax.kernels.triton.launch import PlannedLaunch, compile_ahead, is_compiled, on_device

SIDE_BY_SIDE = 4096  # scores of a row that its threshold is searched in at a time
VALUES = 32  # rows of values at a time


def decode(call: PagedCall) -> Decoded:
    """Return attention to all keys of the pages, of which only those are read that may matter."""
    q, v = call.q, call.v
    texts, rows = q.shape[:2]
    whole = (q.new_empty(texts, rows, dtype=dtype) for dtype in (torch.int64, torch.float32, torch.float32))
    decoded = Decoded(v.new_empty(texts, rows, v.shape[-1]), *whole)
    if q.numel():
        with on_device(q):
            launches = _plan(call, decoded)
            key = (q.device.index, q.dtype, v.dtype, *(tuple(x.constants.values()) for x in launches))
            if not is_compiled(key):
                compile_ahead(key, launches, q)
            for planned in launches:
                planned.run()
    return decoded


def _plan(call: PagedCall, decoded: Decoded) -> list[PlannedLaunch]:
    """Return the launches, in their order."""
    q, k, v = call.q, call.k, call.v
    texts, rows = q.shape[:2]
    size, pages, splits, share, tiles = k.shape[1], call.pages, call.splits, call.share, call.tiles
    length = share * call.page
    floats: Any = {"dtype": torch.float32, "device": q.device}
    bounds = torch.empty(texts, pages, rows, **floats)
    early = torch.empty(texts, rows, call.chunks, call.page, **floats)
    first = torch.empty(texts, rows, call.chunks, dtype=torch.int32, device=q.device)
    listed = torch.empty(texts * tiles, splits, share, dtype=torch.int32, device=q.device)
    scores = torch.empty(texts, rows, splits, length, **floats)
    indices = torch.empty_like(scores, dtype=torch.int32)
    count, read = torch.empty(2, texts, rows, splits, dtype=torch.int32, device=q.device)
    top, unread, mass = torch.empty(3, texts, rows, splits, **floats)
    edge, t = torch.empty(2, texts, rows, **floats)
    parts = torch.empty(texts, rows, splits, v.shape[-1], **floats)
    found, alpha = (count, top, unread, read), (call.alpha, call.alphas)

    extremes = (_add_strides(call.low), _add_strides(call.high))
    scores_of = (call.limits, *alpha, call.scale, bounds)
    tensors: tuple = (q, _add_strides(k), *extremes, *scores_of, early, first, rows, size, pages, call.chunk)
    constants: dict[str, Any] = {**call.sizes, "num_warps": 4}
    launches = [PlannedLaunch(bound_pages_kernel, (texts * rows, call.chunks), tensors, constants)]

    tensors = (*alpha, early, edge, call.chunks * call.page)
    constants = {**call.formula, "C": SIDE_BY_SIDE, "num_warps": 8}
    launches.append(PlannedLaunch(bound_edges_kernel, (texts * rows,), tensors, constants))

    tensors = (q, _add_strides(k), _add_strides(call.codes), *extremes, *scores_of)
    tensors = (*tensors, first, edge, listed, scores, indices, found)
    tensors = (*tensors, rows, size, pages, tiles, call.chunks, call.chunk, share)
    constants = {"SPLITS": splits, **call.sizes, "BM": call.rows, "num_warps": 4}
    launches.append(PlannedLaunch(read_pages_kernel, (texts * tiles, splits), tensors, constants))

    constants = {**call.formula, "SPLITS": splits, "C": SIDE_BY_SIDE // splits, "num_warps": 8}
    tensors = (*alpha, scores, found, edge, t, length)
    launches.append(PlannedLaunch(solve_survivors_kernel, (texts * rows,), tensors, constants))

    width = {"WIDTH": v.shape[-1], "W": pad_to_power_of_2(v.shape[-1], 16)}
    tensors = (_add_strides(v), *alpha, scores, indices, found, t, parts, mass, rows, size, length)
    constants = {**call.formula, "SPLITS": splits, "C": VALUES, **width, "num_warps": 4}
    launches.append(PlannedLaunch(weigh_survivors_kernel, (texts * rows, splits), tensors, constants))

    tensors = (*alpha, found, edge, t, parts, mass, decoded.out, tuple(decoded[1:]))
    constants = {"KIND": call.kind.value, "SPLITS": splits, **width, "num_warps": 4}
    launches.append(PlannedLaunch(combine_splits_kernel, (texts * rows,), tensors, constants))
    return launches


def _add_strides(x: Tensor) -> tuple:
    """Return a tensor with its strides of texts and of keys or pages."""
    return x, x.stride(0), x.stride(1)
