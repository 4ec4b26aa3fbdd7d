"""Find the compiled libraries: built at install where there is a compiler, opened with ctypes."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
import warnings
from pathlib import Path

import torch
from torch import Tensor

# The builds of the rows' library that run on what torch says of this processor, the best first.
_ROWS = {"AVX512": ("_avx512", "_avx2", "_base"), "AVX2": ("_avx2", "_base")}.get(
    torch.backends.cpu.get_cpu_capability(), ("_base",)
)
# The builds that hold the operations of a package, as pyproject.toml names them.
BUILDS = {
    "rows": _ROWS,
    "bounds": _ROWS,
    "isotonic": _ROWS,
    "contour": _ROWS,
    "attention": _ROWS,
    "mixtures": _ROWS,
    "structures": ("_structures",),
    "variation": ("_variation",),
}


def _find_file(build: str) -> Path | None:
    paths = (Path(__file__).with_name(build + suffix) for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


# Known before anything is traced, so that torch.compile need not look for them.
_FILES = {build: _find_file(build) for builds in BUILDS.values() for build in builds}


def open_library(package: str) -> ctypes.CDLL:
    """Open the library of a package, which must be there."""
    library = _open(*BUILDS[package])
    assert library is not None
    return library


def is_available(package: str) -> bool:
    """Tell whether the library of a package is there; warn once where not."""
    if any(_FILES[build] is not None for build in BUILDS[package]):
        return True
    _warn()
    return False


def name_build(package: str) -> str | None:
    """Return the name of the build that holds the operations of a package on this machine, None without one."""
    for name in BUILDS.get(package, ()):
        if _FILES[name] is not None:
            return name.removeprefix("_")
    return None


@functools.cache
def _open(*builds: str) -> ctypes.CDLL | None:
    """Open the first of these builds that is there."""
    for name in builds:
        path = _FILES[name]
        if path is not None:
            return ctypes.CDLL(str(path))
    return None


def _open_all() -> None:
    for builds in BUILDS.values():
        _open(*builds)


# A library has to know of a fork: its threads, and torch's, are those of the parent. One that is first opened in the
# child would wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_open_all)


@functools.cache
def _warn() -> None:
    warnings.warn(
        "omegamax: no compiled CPU kernels were found, so the maps run on plain torch, which is exact but slower. "
        "They are built when omegamax is installed on a machine with a C++ compiler.",
        RuntimeWarning,
        stacklevel=3,
    )


def make_dense(z: Tensor) -> Tensor:
    """Give a tensor contiguous memory that holds what it says (a negated view keeps its sign elsewhere)."""
    return z.resolve_neg().contiguous()


def expand_by_row(parameter: Tensor, z: Tensor, dim: int) -> Tensor:
    """Give a parameter one float64 scalar for each row of ``z`` along ``dim``, in the order of the rows."""
    shape = list(z.shape)
    shape[dim] = 1
    return parameter.detach().double().expand(shape).contiguous()
