"""Triton's interpreter, made quicker, and right in bfloat16.

Its reductions and scans of several tensors take one entry after another: here NumPy's vectors. And each call of a
function inside a kernel changes all of Triton's language to that of the interpreter, which it is already. It multiplies
matrices of bfloat16 by their bits, and cuts off what a GPU rounds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def quick_interpreter() -> Iterator[None]:
    """For all tests of a folder whose conftest imports it. Triton need not be there, nor be interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("triton") and not torch.cuda.is_available():
            quicken(patch)
        yield


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Make the interpreter quicker, and right in bfloat16."""
    from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, ReduceOps, ScanOps

    patch.setattr(ReduceOps, "generic_reduce", by_halves)
    patch.setattr(ScanOps, "generic_scan", by_doubling)
    patch.setattr(InterpretedFunction, "__call__", once_changed(InterpretedFunction.__call__))
    patch.setattr(InterpreterBuilder, "cast_impl", rounded(InterpreterBuilder.cast_impl))
    patch.setattr(InterpreterBuilder, "create_dot", multiplied(InterpreterBuilder.create_dot))


def allow_run_time_loops(patch: pytest.MonkeyPatch) -> None:
    """Let an array of one number be an index, as the interpreter has it and new versions of NumPy do not."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    patch.setattr(interpreter, "_patch_lang_tensor", patched)


def once_changed(call: Callable) -> Callable:
    """Calls of functions of a module whose language was changed when its first was called."""
    changed: set[str] = set()

    def quick(function, *args, **kwargs):
        if function.fn.__module__ in changed:
            return function.rewrite()(*args, **kwargs)
        changed.add(function.fn.__module__)
        return call(function, *args, **kwargs)

    return quick


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


def by_doubling(scan, tensors: tuple) -> list:
    """Each entry with the one 1, 2, 4, ... before it; what comes round from the end is not taken."""
    axis = scan.axis
    parts = [np.moveaxis(tensor.handle.data, axis, -1) for tensor in tensors]
    size, step = parts[0].shape[-1], 1
    while step < size:
        given = [np.roll(part, step, -1) for part in parts] + parts
        combined = scan.combine_fn.fn(*(scan.to_tensor(x, t.dtype) for x, t in zip(given, tensors * 2, strict=True)))
        combined = combined if isinstance(combined, tuple) else (combined,)
        later = np.arange(size) >= step
        parts = [np.where(later, new.handle.data, old) for new, old in zip(combined, parts, strict=True)]
        step *= 2
    return [scan.to_tensor(np.moveaxis(part, -1, axis), t.dtype) for part, t in zip(parts, tensors, strict=True)]


def rounded(cast: Callable) -> Callable:
    """Casts of bfloat16 by torch, to the nearest."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def exact(builder, source, wanted):
        if source.dtype.scalar == tl.float32 and wanted.scalar == tl.bfloat16:
            data = torch.from_numpy(np.ascontiguousarray(source.data)).bfloat16().view(torch.uint16).numpy()
            return TensorHandle(data, tl.bfloat16)
        if source.dtype.scalar == tl.bfloat16 and wanted.scalar == tl.float32:
            return TensorHandle(widened(source.data), tl.float32)
        return cast(builder, source, wanted)

    return exact


def multiplied(dot: Callable) -> Callable:
    """Products of matrices of bfloat16, which are exact in float32."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def exact(builder, a, b, *options):
        if a.dtype.scalar == tl.bfloat16:
            a, b = (TensorHandle(widened(x.data), tl.float32) for x in (a, b))
        return dot(builder, a, b, *options)

    return exact


def widened(bits: np.ndarray) -> np.ndarray:
    """Numbers in float32 from the bits of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
