"""Count what would be launched on a GPU, on a machine that has none; or launch it, interpreted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import omegamax
from omegamax import _checks, kernels
from omegamax.nn import _row_weights

# What only says how memory is read, or sets some aside.
NO_KERNEL = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}
NO_KERNEL |= {"_unsafe_view", "detach", "alias", "is_same_size", "promote_types"}
# What waits for the device: a value is read, a size depends on values, or numbers are copied from the host.
WAITS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "lift_fresh"}


class Launches(TorchDispatchMode):
    """Operations by name: those that run a kernel, and those for which the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split(".")[0]
        bare = name.removeprefix("aten::")
        if bare in WAITS:
            self.waits[name] += 1
        elif not func.is_view and bare not in NO_KERNEL:
            self.kernels[name] += 1
        return func(*args, **(kwargs or {}))

    @property
    def total(self) -> int:
        return self.kernels.total()


def count_launches(
    step: Callable[[], Tensor], inputs: tuple[Tensor, ...], fused: bool = False
) -> tuple[Launches, Launches]:
    """Return the operations of ``step`` and those of the gradient of its result.

    Tensors count as ordinary ones, though a dispatch mode looks on, and as ones that cannot be read, as on a GPU.
    The step runs once before, as caches are filled by the first. With ``fused``, kernels of Triton are launched, which
    count and do nothing: what is computed from what they would have written is anything. Otherwise all is plain torch.
    """
    with pytest.MonkeyPatch.context() as patch, omegamax.backend("reference"):
        patch.setattr(_checks, "dispatch_mode_count", lambda: 0)
        readable = _checks.readable
        for module in [m for name, m in sys.modules.items() if name.startswith("omegamax")]:
            if getattr(module, "readable", None) is readable:
                patch.setattr(module, "readable", lambda t: False)
        launched: list[str] = []
        if fused:

            def launch(op: str, *given: Any) -> Tensor:
                return load(op, "triton" if "triton" in kernels.TABLE[op] else "reference")(*given)

            def note(kernel: Any, *rest: Any) -> None:
                launched.append(kernel.__name__)

            load = kernels.load
            patch.setattr(kernels, "solve", launch)
            patch.setattr(kernels, "load", lambda op, name: load(op, "triton" if name == "cpu" else name))
            patch.setattr(kernels, "is_compiled", lambda op, z: "triton" in kernels.TABLE[op])
            for package in ("moments", "gaussian", "contour", "plane", "mixtures"):
                patch.setattr(import_module(f"omegamax.kernels.{package}.triton.launcher"), "launch_kept", note)
        step()
        launched.clear()
        with Launches() as ahead:
            result = step()
        ahead.kernels.update(launched)
        launched.clear()
        seed = torch.ones_like(result)
        with Launches() as back:
            torch.autograd.grad(result, inputs, seed)
        back.kernels.update(launched)
    return ahead, back


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let operations that have a kernel of Triton be launched, and list them."""
    pytest.importorskip("triton", minversion="3.4")
    from kernels.interpreter import allow_run_time_loops

    if not torch.cuda.is_available():
        allow_run_time_loops(monkeypatch)
    found: list[str] = []

    load = kernels.load

    def note(op: str, name: str) -> Any:
        found.append(op)
        return load(op, name)

    def solve(op: str, *given: Any) -> Any:
        return note(op, "triton" if "triton" in kernels.TABLE[op] else "reference")(*given)

    monkeypatch.setattr(kernels, "load", note)
    monkeypatch.setattr(_row_weights, "readable", lambda t: False)
    monkeypatch.setattr(kernels, "solve", solve)
    monkeypatch.setattr(kernels, "is_compiled", lambda op, z: "triton" in kernels.TABLE[op])
    return found
