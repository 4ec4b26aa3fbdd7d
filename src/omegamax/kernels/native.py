"""The compiled CPU kernels, opened with ctypes: C++ in ``cpu/``, built at install where there is a compiler."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import warnings
from pathlib import Path

import torch
from torch import Tensor

OPS = ("entmax", "normmax", "k_subsets", "entmax_vjp", "normmax_vjp", "k_subsets_vjp")

_ENTMAX, _NORMMAX, _SUBSETS = range(3)  # enum Kind in cpu/vjp.h

# The builds that run on what torch says of this processor, best first.
_BUILDS = {"AVX512": ("_avx512", "_avx2", "_base"), "AVX2": ("_avx2", "_base")}


@functools.cache
def available() -> bool:
    """Whether a compiled library was found; warns once where there is none."""
    if _library() is None:
        warnings.warn(
            "omegamax: no compiled CPU kernels were found, so the maps run on plain torch, which is exact but slower. "
            "They are built when omegamax is installed on a machine with a C++ compiler.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


@functools.cache
def _library() -> ctypes.CDLL | None:
    builds = _BUILDS.get(torch.backends.cpu.get_cpu_capability(), ("_base",))
    for name in builds:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(__file__).with_name(name + suffix)
            if path.exists():
                return ctypes.CDLL(str(path))
    return None


@functools.cache
def _entry(direction: str, dtype: torch.dtype):
    """One C function with its signature: see cpu/native.cpp."""
    library = _library()
    assert library is not None
    function = getattr(library, f"omegamax_{direction}_{'f32' if dtype == torch.float32 else 'f64'}")
    pointers = 2 if direction == "forward" else 3
    function.argtypes = [
        ctypes.c_int,
        *[ctypes.c_void_p] * (pointers + 1),
        ctypes.c_int,
        *[ctypes.c_int64] * 3,
        ctypes.c_int,
    ]
    function.restype = None
    return function


@functools.lru_cache(maxsize=256)
def _number(value: float) -> ctypes.c_double:
    return ctypes.c_double(value)


def _parameter(value: float | Tensor, z: Tensor, dim: int) -> tuple[object, int]:
    """A row parameter as the kernels take it: one shared double, or one for each row in the order of the rows."""
    if not isinstance(value, Tensor):
        return ctypes.byref(_number(float(value))), 1
    if value.numel() == 1:
        return ctypes.byref(_number(float(value))), 1
    shape = list(z.shape)
    shape[dim] = 1
    return value.detach().double().expand(shape).contiguous(), 0


def _dense(z: Tensor) -> Tensor:
    """Contiguous memory that holds what the tensor says (a negated view keeps its sign elsewhere)."""
    return z.resolve_neg().contiguous() if z.is_neg() else z.contiguous()


def _forward(kind: int, z: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    z = _dense(z)
    p = torch.empty_like(z)
    held, shared = _parameter(parameter, z, dim)
    _entry("forward", z.dtype)(
        kind,
        z.data_ptr(),
        p.data_ptr(),
        held.data_ptr() if isinstance(held, Tensor) else held,
        shared,
        *_sizes(z, dim),
        torch.get_num_threads(),
    )
    return p


def _backward(kind: int, p: Tensor, g: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    p, g = _dense(p), _dense(g)
    out = torch.empty_like(p)
    held, shared = _parameter(parameter, p, dim)
    _entry("backward", p.dtype)(
        kind,
        p.data_ptr(),
        g.data_ptr(),
        out.data_ptr(),
        held.data_ptr() if isinstance(held, Tensor) else held,
        shared,
        *_sizes(p, dim),
        torch.get_num_threads(),
    )
    return out


def _sizes(z: Tensor, dim: int) -> tuple[int, int, int]:
    """``z`` as [outer, K, inner]."""
    K = z.shape[dim]
    if dim == z.dim() - 1:
        return z.numel() // K, K, 1
    inner = 1
    for size in z.shape[dim + 1 :]:
        inner *= size
    return (z.numel() // (K * inner) if inner else 0), K, inner


def entmax(z: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    return _forward(_ENTMAX, z, alpha, dim)


def normmax(z: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    return _forward(_NORMMAX, z, alpha, dim)


def k_subsets(z: Tensor, k: float | Tensor, dim: int) -> Tensor:
    return _forward(_SUBSETS, z, k, dim)


def entmax_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    return _backward(_ENTMAX, p, g, alpha, dim)


def normmax_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    return _backward(_NORMMAX, p, g, alpha, dim)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    return _backward(_SUBSETS, p, g, 0.0, dim)
