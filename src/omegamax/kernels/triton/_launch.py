"""Kernels of a few microseconds: what Triton finds out anew at each launch is kept for the next one like it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
import triton
from torch import Tensor

from omegamax.kernels.triton._layout import on_device

MOST = 4096  # launches that are kept
KNOWN = ((3, 3), (3, 7))  # versions of Triton whose compiled kernels are run as in Launch.__call__


class Launch:
    """A compiled kernel with its grid and all its arguments but the pointers."""

    __slots__ = ("arguments", "device", "function", "metadata", "programs", "run", "stream")

    def __init__(self, kernel: Any, programs: int, arguments: tuple, device: int):
        self.run: Callable = kernel.run
        self.function = kernel.function
        self.metadata = kernel.packed_metadata
        self.stream = triton.runtime.driver.active.get_current_stream
        self.programs, self.arguments, self.device = programs, arguments, device

    def __call__(self, *pointers: int) -> bool:
        """Run it; or not, if a pointer is not as aligned as it was, or a profiler listens, or the device is another."""
        hook = triton.knobs.runtime.launch_enter_hook
        if (hook is not None and getattr(hook, "calls", True)) or torch._C._cuda_getDevice() != self.device:
            return False
        for pointer in pointers:
            if pointer & 15:
                return False
        grid, unheard = (self.programs, 1, 1), (None, None, None)
        stream = self.stream(self.device)
        self.run(*grid, stream, self.function, self.metadata, *unheard, *pointers, *self.arguments)
        return True


_kept: dict[Hashable, Launch] = {}
find = _kept.get


def again(key: Hashable, x: Tensor, *others: Tensor) -> Tensor | None:
    """What a kept launch makes of contiguous tensors, of the shape of the first; None if there is none, or not now."""
    known = find(key)
    if known is None:
        return None
    out = torch.empty_like(x)
    return out if known(x.data_ptr(), *(t.data_ptr() for t in others), out.data_ptr()) else None


def launch(
    kernel: Any, programs: int, tensors: tuple[Tensor | None, ...], arguments: tuple, warps: int, key: Hashable = None
) -> None:
    """Run ``kernel(*tensors, *arguments)``, and keep the launch under ``key``, which tells it from all others."""
    first = tensors[0]
    assert first is not None
    with on_device(first):
        made = kernel[(programs, 1, 1)](*tensors, *arguments, num_warps=warps)
    if key is None or not first.is_cuda or not _known(made) or any(t is None or t.data_ptr() & 15 for t in tensors):
        return
    if len(_kept) >= MOST:
        _kept.clear()
    _kept[key] = Launch(made, programs, arguments, first.device.index)


def _known(kernel: Any) -> bool:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return KNOWN[0] <= version <= KNOWN[1] and all(hasattr(kernel, a) for a in ("run", "function", "packed_metadata"))
