"""Other libraries that compute the same maps, where they are installed: ``entmax``, ``adasplash``, Liger-Kernel."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from types import ModuleType

import torch

try:
    import triton.testing
    from triton.runtime.autotuner import Autotuner
except ImportError:
    Autotuner = None

NAMES = ("entmax", "adasplash", "liger_kernel")
TUNED = ("triton_entmax_v2", "adasplash_v2", "adasplash_block_mask")  # modules of adasplash


def peer(name: str) -> ModuleType | None:
    """The library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def row_map(name: str, alpha: float) -> Callable | None:
    """The peer's entmax for one alpha, as one would call it."""
    library = peer(name)
    if library is None:
        return None
    if name == "entmax":
        exact = {1.5: library.entmax15, 2.0: library.sparsemax}
        return exact.get(alpha, lambda z: library.entmax_bisect(z, alpha))
    if name == "liger_kernel":
        functional = peer("liger_kernel.transformers.functional")
        return functional.liger_sparsemax if functional is not None and alpha == 2 else None
    exact = {1.5: library.triton_entmax15, 2.0: library.triton_sparsemax}
    return exact.get(alpha, lambda z: library.triton_entmax(z, alpha=alpha))


def attention(alpha: float, is_causal: bool) -> Callable | None:
    library = peer("adasplash")
    return library and (lambda q, k, v: library.adasplash(q, k, v, alpha=alpha, is_causal=is_causal))


def tune_quickly() -> None:
    """Let adasplash choose among all its settings, but by fewer readings of each: it has two hundred to try."""
    for kernel in _tuned():
        kernel.do_bench = lambda call, quantiles: triton.testing.do_bench(call, warmup=2, rep=10, quantiles=quantiles)


def only_compile(part: int, parts: int) -> None:
    """Leave adasplash every ``parts``-th of its settings, each tried once, so that many processes share them."""

    def once(call, quantiles):
        call()
        torch.cuda.synchronize()
        return [1.0] * len(quantiles)

    for kernel in _tuned():
        every = vars(kernel).setdefault("every_setting", kernel.configs)
        kernel.configs = every[part::parts] or every[:1]
        kernel.cache.clear()
        kernel.do_bench = once


def _tuned() -> Iterator:
    if peer("adasplash") is None or Autotuner is None:
        return
    for name in TUNED:
        try:
            module = importlib.import_module(f"adasplash.{name}")
        except Exception:  # not for this version of Triton; the tables will say so
            continue
        yield from (kernel for kernel in vars(module).values() if isinstance(kernel, Autotuner))
