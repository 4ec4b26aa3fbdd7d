"""Triton's interpreter with reductions of several tensors by NumPy's vectors: its own take one entry after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def reduced_by_halves() -> Iterator[None]:
    """For all tests of a folder whose conftest imports it. Triton need not be there, nor be interpreted."""
    try:
        from triton.runtime.interpreter import ReduceOps
    except ImportError:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        if not torch.cuda.is_available():
            patch.setattr(ReduceOps, "generic_reduce", by_halves)
        yield


def by_halves(reduction, tensors: tuple) -> list:
    """One half with the other, until one entry is left; Triton's axes are powers of two."""
    axis = reduction.axis
    parts = [np.moveaxis(tensor.handle.data, axis, -1) for tensor in tensors]
    while (size := parts[0].shape[-1]) > 1:
        halves = [part[..., a:b] for a, b in ((0, size // 2), (size // 2, size)) for part in parts]
        given = [reduction.to_tensor(half, t.dtype) for half, t in zip(halves, tensors * 2, strict=True)]
        combined = reduction.combine_fn.fn(*given)
        combined = combined if isinstance(combined, tuple) else (combined,)
        parts = [tensor.handle.data for tensor in combined]
    ends = [np.moveaxis(part, -1, axis) if reduction.keep_dims else part[..., 0] for part in parts]
    return [reduction.to_tensor(end, tensor.dtype) for end, tensor in zip(ends, tensors, strict=True)]
