"""Kernels that one call needs are compiled at the same time, before the first of them is launched."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.triton import launch
from omegamax.kernels.triton.launch import PlannedLaunch, compile_ahead, is_compiled, launch_kept

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


def test_a_launch_is_kept_for_tensors_of_the_same_types_alone(monkeypatch):
    """Nothing runs: what is kept says which pointers it was given, or that it cannot be used now."""
    asked: list[tuple] = []
    given: list[tuple] = []
    usable = True

    def keep(kernel, programs, tensors, arguments, warps, key, registers) -> None:
        asked.append(key)
        launch._kept[key] = lambda *pointers: given.append(pointers) is None and usable

    kernel, x, y = SimpleNamespace(__name__="kernel"), torch.zeros(4), torch.zeros(4, dtype=torch.bool)
    monkeypatch.setattr(launch, "launch", keep)
    monkeypatch.setattr(launch, "_kept", {})
    monkeypatch.setattr(launch, "_find", lambda key: launch._kept.get(key))
    for _ in range(3):
        launch_kept(kernel, 4, (x, y), (1, 2), 1)
    assert len(asked) == 1 and given == [(x.data_ptr(), y.data_ptr())] * 2
    others = [(5, (x, y), (1, 2), 1), (4, (x.double(), y), (1, 2), 1), (4, (x, y), (1, 3), 1), (4, (x, y), (1, 2), 2)]
    others += [(4, (x, y.to("meta")), (1, 2), 1), (4, (x, y), (1, 2), 1, 128)]
    for other in others:
        launch_kept(kernel, *other)
    assert len(asked) == len(set(asked)) == 1 + len(others)
    usable = False
    launch_kept(kernel, 4, (x, y), (1, 2), 1)
    assert asked[-1] == asked[0] and len(given) == 3
