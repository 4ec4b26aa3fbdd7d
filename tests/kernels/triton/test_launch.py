"""Kernels that one call needs are compiled at the same time, before the first of them is launched."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.triton import launch
from omegamax.kernels.triton.launch import PlannedLaunch, compile_ahead, is_compiled

ON_GPU = SimpleNamespace(is_cuda=True)


class Kernel:
    """Compiles when the others do, and not before."""

    def __init__(self, meeting: threading.Barrier | None = None):
        self.meeting, self.asked, self.met = meeting, [], False

    def warmup(self, *arguments, grid, **constants) -> SimpleNamespace:
        self.asked.append((arguments, grid, constants))
        if self.meeting is None:
            raise ValueError("this one cannot be compiled")
        self.meeting.wait(60)
        self.met = True
        return SimpleNamespace(run=None)


@pytest.fixture(autouse=True)
def _several_cores_and_nothing_compiled(monkeypatch):
    monkeypatch.setattr(launch.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(launch, "on_device", nullcontext)
    yield
    launch._compiled.discard("here")


def test_all_at_once_and_each_kernel_once():
    meeting = threading.Barrier(3)
    kernels = [Kernel(meeting) for _ in range(3)]
    launches = [PlannedLaunch(kernel, (2,), ("x",), {"BLOCK": 4}) for kernel in kernels]
    compile_ahead("here", [*launches, launches[0]._replace(arguments=("y",))], ON_GPU)
    assert [kernel.asked for kernel in kernels] == [[(("x",), (2,), {"BLOCK": 4})]] * 3
    assert all(kernel.met for kernel in kernels)
    assert is_compiled("here") and not is_compiled("there")


def test_what_does_not_compile_says_so_at_its_launch():
    kernel = Kernel()
    compile_ahead("here", [PlannedLaunch(kernel, (1,), (), {})], ON_GPU)
    assert kernel.asked and is_compiled("here")


def test_nothing_is_compiled_for_the_interpreter():
    kernel = Kernel()
    compile_ahead("here", [PlannedLaunch(kernel, (1,), (), {})], SimpleNamespace(is_cuda=False))
    assert not kernel.asked
