"""Run the compiled CPU kernel of an operation on tensors of another device: copied to the host, solved, copied back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor

from omegamax.kernels import _library

Kernel = Callable[..., Tensor]


def run_on_host(kernel: Kernel) -> Kernel:
    """Wrap a CPU kernel so that it takes tensors from another device and returns its result there."""

    @functools.wraps(kernel)
    def call(*given) -> Tensor:
        first = next(a for a in given if isinstance(a, Tensor))
        return send_back(kernel(*bring(*given)), first.device)

    return call


def bring(*given) -> list:
    """Return what a kernel is given with its tensors on the host, from a GPU through pinned memory.

    All copies are under way before the first is waited for; from ordinary memory, a copy would be made twice.
    """
    brought, waiting = [], None
    for a in given:
        if isinstance(a, Tensor) and a.is_cuda:
            here = torch.empty(a.shape, dtype=a.dtype, pin_memory=True)
            here.copy_(a, non_blocking=True)
            brought.append(here)
            waiting = a.device
        else:
            brought.append(a.cpu() if isinstance(a, Tensor) else a)
    if waiting is not None:
        torch.cuda.current_stream(waiting).synchronize()
    return brought


def send_back(result: Tensor, device: torch.device) -> Tensor:
    """Return a result of the host on a device; the host need not wait until it is there."""
    if device.type == "cuda":
        return result.pin_memory().to(device, non_blocking=True)
    return result.to(device)


@functools.cache
def take_host(package: str, op: str) -> Kernel:
    """Return the kernel of the host for tensors of another device; plain torch on that device where there is none."""
    if not _library.is_available(package):
        return getattr(import_module(f"omegamax.kernels.{package}.reference"), op)
    return run_on_host(getattr(import_module(f"omegamax.kernels.{package}.cpu"), op))
