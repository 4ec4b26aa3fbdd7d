"""Choose the implementation of an operation: by the device of its tensors and by the backend that the user asks for.

Each package in ``PACKAGES`` declares ``OPS``: the operations that it implements, by backend. The implementation of
``entmax``, of package ``rows``, on the backend ``cpu`` is the function ``entmax`` of the module ``rows/cpu.py``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from torch import Tensor
from torch.compiler import is_compiling

from omegamax._arguments import check_choice
from omegamax.kernels import _library, triton
from omegamax.kernels.host import Kernel, bring, run_on_host, send_back

PACKAGES = (
    "rows",
    "bounds",
    "losses",
    "attention",
    "moments",
    "gaussian",
    "contour",
    "plane",
    "mixtures",
    "isotonic",
    "structures",
    "variation",
)
BACKENDS = ("auto", "cpu", "triton", "reference")
# The module of a package that implements its operations on a backend.
MODULES = {"cpu": "cpu", "triton": "triton.launcher", "reference": "reference"}
# The backends of a device, the fastest first; those of any other device are ("reference",).
PREFERENCE = {"cpu": ("cpu", "reference"), "cuda": ("triton", "reference")}
_DEFAULT = os.environ.get("OMEGAMAX_BACKEND", "auto")
# The choice of this thread or task, and the blocks that made it, the innermost last.
_choice: ContextVar[str] = ContextVar("omegamax.backend", default=_DEFAULT)
_blocks: ContextVar[tuple[tuple[object, str], ...]] = ContextVar("omegamax.backend.blocks", default=())
# The last choice of any thread: what torch.compile can read and guard on.
_latest = _DEFAULT


def _read_table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for package in PACKAGES:
        for name, operations in import_module(f"omegamax.kernels.{package}").OPS.items():
            for op in operations:
                table.setdefault(op, {})[name] = package
    return table


# operation -> {backend: the package that implements it there}
TABLE = _read_table()

# Operations that run on the host where another device has no kernel of them: the compiled one is faster than plain
# torch on that device even with both copies, for its many small steps wait for each other.
ON_HOST = frozenset(op for op in TABLE if op.startswith(("tv_grid", "tv_graph")))


def solve(op: str, z: Tensor, *rest) -> Tensor:
    """Run the operation ``op`` on ``(z, *parameters, dim)``, or whatever else it takes."""
    device = "cuda" if z.is_cuda else "cpu" if z.is_cpu else z.device.type  # the type itself takes longer to ask for
    return _find(op, device, _choice.get())(z, *rest)


def find(op: str, device: str) -> Kernel:
    """Return the implementation of ``op`` that runs on tensors on ``device``."""
    return _find(op, device, _choice.get())


def load(op: str, name: str) -> Kernel:
    """Import the implementation of ``op`` on the backend ``name``."""
    return getattr(import_module(f"omegamax.kernels.{TABLE[op][name]}.{MODULES[name]}"), op)


def is_compiled(op: str, z: Tensor) -> bool:
    """Tell whether ``op`` runs as compiled code on tensors like this one, not as many small operations of torch."""
    if z.is_cuda:
        return current_backend() in ("auto", "triton") and _is_usable(op, "triton")
    return z.is_cpu and current_backend() in ("auto", "cpu") and _is_usable(op, "cpu")


def solve_where_compiled(op: str, function: Callable[..., tuple]) -> Callable[..., tuple]:
    """Wrap a function of tensors, to tensors, whose work is ``op``, so that it runs where that is compiled.

    From a GPU that has no kernel of it, that is the host: what such a search does on a GPU are many small steps that
    wait for each other, and for the host.
    """

    @functools.wraps(function)
    def call(*given):
        first = next(a for a in given if isinstance(a, Tensor))
        if not is_solved_on_host(op, first):
            return function(*given)
        return tuple(send_back(a, first.device) for a in function(*bring(*given)))

    return call


def is_solved_on_host(op: str, z: Tensor) -> bool:
    """Tell whether ``op`` is compiled for the host alone, and ``z`` is not there."""
    return not z.is_cpu and current_backend() == "auto" and not is_compiled(op, z) and _is_usable(op, "cpu")


def takes_half(op: str, z: Tensor) -> bool:
    """Tell whether ``op`` reads and writes half precision like this tensor's by itself, computing in float32."""
    return (
        z.is_cuda and current_backend() in ("auto", "triton") and "triton" in TABLE.get(op, ()) and triton.available()
    )


def current_backend() -> str:
    """Return the name of the backend that this thread or task has chosen."""
    return _latest if is_compiling() else _choice.get()


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
    preferred = PREFERENCE.get(device, ("reference",))
    usable = [choice for choice in preferred if _is_usable(op, choice)]
    if name == "auto":
        if device != "cpu" and op in ON_HOST and "triton" not in usable and _is_usable(op, "cpu"):
            return run_on_host(load(op, "cpu"))
        return load(op, usable[0])
    if name in usable:
        return load(op, name)
    if name in preferred and name not in TABLE[op]:  # nobody wrote it for this backend: plain torch takes its place
        return load(op, "reference")
    raise RuntimeError(f"{op}: no {name!r} kernel for {device} tensors; usable there: {usable}")


def _is_usable(op: str, name: str) -> bool:
    """Tell whether ``op`` is written for a backend that works on this machine."""
    if name == "triton":
        if not is_compiling():  # dynamo traces what is cached, and warns of it
            triton.warn_if_old()
        return name in TABLE[op] and triton.available()
    return name in TABLE[op] and (name == "reference" or _library.is_available(TABLE[op][name]))
