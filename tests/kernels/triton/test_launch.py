"""Kernels that one call needs are compiled at the same time, and launched again at little cost."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.triton import launch
from omegamax.kernels.triton.launch import (
    PlannedLaunch,
    call_again,
    compile_ahead,
    is_compiled,
    launch_kept,
    run_and_keep,
)

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


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


class Compiled:
    """A kernel with three parameters for tensors and numbers, and a constant; says what its launcher is given."""

    arg_names = ("first", "pair", "last", "BLOCK")

    def __init__(self):
        self.given: list[tuple] = []
        self.function, self.packed_metadata = 1, (4, 1, 0)
        direct = SimpleNamespace(
            launch=self.note, global_scratch_size=0, profile_scratch_size=0, launch_cooperative_grid=0, launch_pdl=0
        )
        self.run = direct if launch.DIRECT else self.note

    def note(self, *given) -> None:
        self.given.append((given[:3], given[-len(self.arg_names) :]))

    def __getitem__(self, grid):
        return lambda *arguments, **constants: self


@pytest.fixture
def gpu(monkeypatch) -> SimpleNamespace:
    """A GPU that is the current one, and nothing that listens to launches."""
    state = SimpleNamespace(current=None)  # the index of the device of tensors on the CPU
    driver = SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda device: 0))
    monkeypatch.setattr(launch.triton.runtime, "driver", driver)
    monkeypatch.setattr(launch, "current_cuda_device", lambda: state.current)
    monkeypatch.setattr(launch, "_runtime", SimpleNamespace(launch_enter_hook=None))
    monkeypatch.setattr(launch, "_kept_calls", {})
    return state


def some_call(kernel: Compiled, x=None, y=None) -> tuple:
    """Launches that read two tensors and fill two, one of them inside a tuple; and all the tensors."""
    x, y, t = (torch.zeros(8).as_subclass(OnGpu) if given is None else given for given in (x, y, None))
    out = torch.zeros(2, 3, dtype=torch.float64).t().as_subclass(OnGpu)
    planned = [
        PlannedLaunch(kernel, (5,), (x, (y, 7, None, t), out), {"BLOCK": 4}),
        PlannedLaunch(kernel, (2, 3), (out, (1, x), t), {"BLOCK": 8, "num_warps": 4}),
    ]
    return planned, (x, y, None), (out, t)


def test_a_call_is_launched_again_with_other_tensors(gpu):
    kernel = Compiled()
    run_and_keep("call", *some_call(kernel))
    x, y = torch.zeros(8), torch.zeros(8)
    out, t = call_again("call", x, y, None)
    assert (out.shape, out.stride(), out.dtype, t.shape) == ((3, 2), (1, 3), torch.float64, (8,))
    a, b, c, d = (tensor.data_ptr() for tensor in (x, y, out, t))
    assert kernel.given == [((5, 1, 1), (a, (b, 7, None, d), c, 4)), ((2, 3, 1), (c, (1, a), d, 8))]
    assert call_again("another", x, y, None) is None


def test_a_call_is_not_launched_again_where_it_would_differ(gpu, monkeypatch):
    kernel = Compiled()
    run_and_keep("call", *some_call(kernel))
    x, y = torch.zeros(8), torch.zeros(9)
    assert call_again("call", x, y[1:], None) is None  # Triton compiled for pointers that 16 divides
    gpu.current = 1
    assert call_again("call", x, y, None) is None
    gpu.current = None
    monkeypatch.setattr(launch, "_runtime", SimpleNamespace(launch_enter_hook=SimpleNamespace(calls=[print])))
    assert call_again("call", x, y, None) is None and not kernel.given


def test_calls_that_are_not_kept(gpu):
    x, less_aligned = torch.zeros(8).as_subclass(OnGpu), torch.zeros(9)[1:].as_subclass(OnGpu)
    run_and_keep("twice", *some_call(Compiled(), x, x))
    run_and_keep("less aligned", *some_call(Compiled(), less_aligned))
    run_and_keep("on the CPU", *some_call(Compiled(), torch.zeros(8)))
    assert not launch._kept_calls
