"""Finding the compiled libraries: built at install where there is a compiler, opened with ctypes."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
import warnings
from pathlib import Path

import torch
from torch import Tensor


@functools.cache
def library(*builds: str) -> ctypes.CDLL | None:
    """The first of these builds that is there, opened; None where there is none."""
    for name in builds:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(__file__).with_name(name + suffix)
            if path.exists():
                return ctypes.CDLL(str(path))
    return None


def announce(*builds: str) -> None:
    """Open these builds before this process forks, if it ever does.

    A library has to know of the fork: its threads, and torch's, are those of the parent. One that is first opened in
    the child would wait for them for ever.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lambda: library(*builds))


def found(*builds: str) -> bool:
    """Whether one of these builds is there; warns once where not."""
    if library(*builds) is None:
        _warn()
        return False
    return True


@functools.cache
def _warn() -> None:
    warnings.warn(
        "omegamax: no compiled CPU kernels were found, so the maps run on plain torch, which is exact but slower. "
        "They are built when omegamax is installed on a machine with a C++ compiler.",
        RuntimeWarning,
        stacklevel=3,
    )


def dense(z: Tensor) -> Tensor:
    """Contiguous memory that holds what the tensor says (a negated view keeps its sign elsewhere)."""
    return z.resolve_neg().contiguous()


def by_row(parameter: Tensor, z: Tensor, dim: int) -> Tensor:
    """One number for each row of ``z`` along ``dim``, in the order of the rows."""
    shape = list(z.shape)
    shape[dim] = 1
    return parameter.detach().double().expand(shape).contiguous()


def processor() -> str:
    """What torch says of this processor: ``"AVX512"``, ``"AVX2"`` or less."""
    return torch.backends.cpu.get_cpu_capability()
