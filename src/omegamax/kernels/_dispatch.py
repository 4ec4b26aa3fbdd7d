"""Which implementation of a kernel runs: by operation, device and the wish of the user."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor
from torch.compiler import is_compiling

from omegamax._arguments import check_choice
from omegamax.kernels import (
    active_set,
    isotonic,
    jacobians,
    native,
    native_structures,
    native_variation,
    reference,
    steepest,
    triton,
    variation,
)

Kernel = Callable[..., Tensor]

BACKENDS = ("auto", "cpu", "triton", "reference")
PREFERENCE = {"cpu": ("cpu", "reference"), "cuda": ("triton", "reference")}
# Modules of compiled operations, named in their OPS, which have available().
COMPILED = (native, native_structures, native_variation)
# Modules of plain torch whose operations, named in their OPS, take what the compiled ones do.
PLAIN = (steepest, variation, active_set, isotonic)
_DEFAULT = os.environ.get("OMEGAMAX_BACKEND", "auto")
# The choice of this thread or task, and the blocks that made it, the innermost last.
_choice: ContextVar[str] = ContextVar("omegamax.backend", default=_DEFAULT)
_blocks: ContextVar[tuple[tuple[object, str], ...]] = ContextVar("omegamax.backend.blocks", default=())
# The last choice of any thread: what torch.compile can read and guard on.
_latest = _DEFAULT


def wanted() -> str:
    """The backend of this thread or task."""
    return _latest if is_compiling() else _choice.get()


def find(op: str, device: str) -> Kernel:
    """The kernel of ``op`` for tensors on ``device``."""
    return _find(op, device, _choice.get())


def solve(op: str, z: Tensor, *rest) -> Tensor:
    """Run kernel ``op`` on ``(z, *parameters, dim)``, or whatever else it takes."""
    return _find(op, "cpu" if z.is_cpu else z.device.type, _choice.get())(z, *rest)


def compiled(op: str, z: Tensor) -> bool:
    """Whether ``op`` runs as compiled code on tensors like this one, rather than as many small operations of torch."""
    return z.is_cpu and wanted() != "reference" and _kernel(op, "cpu") is not None


def takes_half(op: str, z: Tensor) -> bool:
    """Whether ``op`` reads and writes half precision like this tensor's by itself, computing in float32."""
    return z.is_cuda and wanted() in ("auto", "triton") and op in triton.OPS and triton.available()


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use one backend inside a ``with`` block: ``"auto"``, ``"cpu"``, ``"triton"`` or ``"reference"`` (plain torch).

    It holds for the thread or the asyncio task that enters the block, and for gradients of what is computed there,
    wherever these are computed. The environment variable ``OMEGAMAX_BACKEND`` sets it for a whole process. A backend
    asked for by name never falls back to another.

        >>> import torch, omegamax
        >>> with omegamax.backend("reference"):
        ...     omegamax.sparsemax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """
    check_choice("backend", "name", name, BACKENDS)
    block = (object(), name)
    _choose((*_blocks.get(), block))
    try:
        yield
    finally:
        # Blocks may end in any order, as those of two generators do.
        _choose(tuple(b for b in _blocks.get() if b is not block))


def _choose(blocks: tuple[tuple[object, str], ...]) -> None:
    global _latest
    _blocks.set(blocks)
    _latest = blocks[-1][1] if blocks else _DEFAULT
    _choice.set(_latest)


@functools.cache
def _find(op: str, device: str, name: str) -> Kernel:
    check_choice("omegamax", "OMEGAMAX_BACKEND", name, BACKENDS)
    usable = {b: k for b in PREFERENCE.get(device, ("reference",)) if (k := _kernel(op, b)) is not None}
    if name == "auto":
        return next(iter(usable.values()))
    # What was asked for by name, or the torch twin of an operation that nobody compiled.
    if name not in usable and not (name in PREFERENCE.get(device, ()) and not _compilable(op, name)):
        raise RuntimeError(f"{op}: no {name!r} kernel for {device} tensors; usable there: {list(usable)}")
    return usable.get(name, usable["reference"])


def _kernel(op: str, name: str) -> Kernel | None:
    if name == "cpu":
        return next((getattr(m, op) for m in COMPILED if op in m.OPS and m.available()), None)
    if name == "triton":
        triton.warn_if_old()
        return triton.load(op) if op in triton.OPS and triton.available() else None
    for module in PLAIN:
        if op in module.OPS:
            return getattr(module, op)
    return getattr(jacobians, op) if op.endswith("_vjp") else _along_any_dim(getattr(reference, op))


def _compilable(op: str, name: str) -> bool:
    return op in triton.OPS if name == "triton" else any(op in module.OPS for module in COMPILED)


def _along_any_dim(kernel: Kernel) -> Kernel:
    """A last-axis kernel that takes ``dim``; parameters have the rank of the scores."""

    @functools.wraps(kernel)
    def along(z: Tensor, *rest) -> Tensor:
        *parameters, dim = rest
        moved = (a.movedim(dim, -1) if isinstance(a, Tensor) else a for a in (z, *parameters))
        p = kernel(*moved).movedim(-1, dim).contiguous()
        # Autograd lets nobody write into a Function's result that is a view.
        return p.clone() if p._is_view() else p

    return along
