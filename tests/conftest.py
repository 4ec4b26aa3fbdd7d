"""Settings shared by every test: reproducible draws, a fixed seed, scores at which the maps are smooth."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from covering import choose
from hypothesis import HealthCheck, settings
from torch import Tensor
from torch.distributions import Distribution
from warm_processes import WarmProcesses

from omegamax.kernels import triton

if not triton.available():
    collect_ignore_glob = ["*/compile_*.py", "*/kernels/hopper.py"]

if not torch.cuda.is_available():
    # Triton then runs its kernels by NumPy. Read when they are first imported.
    os.environ["TRITON_INTERPRET"] = "1"

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    # Processes that share the cores, each with threads for all of them, wait four times as long as they work. One that
    # is to compile would start others, which load torch, for each of them.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    THREADS = max((os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), 1)
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    torch.set_num_threads(THREADS)

# No deadline: the first call of a torch function is slow. No database: the draws do not depend on earlier runs.
settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("quick"), derandomize=False, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    # torch's own forward-mode machinery calls what torch has deprecated.
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script(_method)?` is deprecated:DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore:Please use `torch.vmap` instead:FutureWarning")
    # So does inductor.
    config.addinivalue_line("filterwarnings", "ignore:`torch._prims_common.check` is deprecated:FutureWarning")
    if torch.cuda.is_available():
        # Which the first backward pass of a process does, in a thread of its own.
        context = "Attempting to run cuBLAS, but there was no current CUDA context"
        config.addinivalue_line("filterwarnings", f"ignore:{context}:UserWarning")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("inductor") and not any(map(shutil.which, ("g++", "c++", "clang++"))):
        pytest.skip("needs a C++ compiler")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-cases", action="store_true", help="run every combination of the parameters of a test")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``covering`` leaves out of the cases of a test, unless it is asked for by its name.

    Tests that take minutes come first, so that at the end no process is left alone with one.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if config.getoption("--all-cases") or any("::" in each for each in config.args):
        return
    tests = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    dropped = set()
    for name, cases in tests.items():
        # Cases share the objects that are their values, which need not be hashable.
        values = [{key: id(value) for key, value in case.callspec.params.items()} for case in cases]
        for case, when in zip(cases, choose(name, values), strict=True):
            if when == "slow":
                case.add_marker(pytest.mark.slow)
            elif when == "never":
                dropped.add(case)
    config.hook.pytest_deselected(items=[item for item in items if item in dropped])
    items[:] = [item for item in items if item not in dropped]


def pytest_collection_finish() -> None:
    """Look through the thousands of tests no more when objects are looked for that nothing holds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed() -> None:
    # torch.manual_seed notes where it was called from for each kind of device that has not been used yet.
    (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(0)


@pytest.fixture(autouse=True)
def _validation() -> None:
    # torch.compile turns the checks of distributions' arguments off for the whole process the first time it is used.
    Distribution.set_default_validate_args(True)


@pytest.fixture(autouse=True)
def _no_hang(request):
    """A test that hangs ends the run with a traceback of every thread; on a busy machine all take ten times as long."""
    faulthandler.dump_traceback_later(1800 if request.node.get_closest_marker("slow") else 900, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def one_thread():
    """One intra-op thread, for networks so small that several would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_threads():
    """Two intra-op threads while the test runs, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def warm_processes():
    """Runs programs in processes that have torch and Lightning loaded."""
    pytest.importorskip("lightning")
    warm = WarmProcesses()
    yield warm
    warm.close()


@pytest.fixture
def generic_scores() -> Callable[..., Tensor]:
    """Maker of float64 scores near which a map is smooth: no ties, no entry about to reach or leave a bound."""

    def draw(apply: Callable[[Tensor], Tensor], *shape: int, dim: int = -1, reach: float = 1e-2) -> Tensor:
        size = shape[dim]
        count = torch.Size(shape).numel() // size
        generator = torch.Generator().manual_seed(size)
        z = torch.randn(50 * count, size, dtype=torch.float64, generator=generator)
        nudges = reach * torch.randn(16, 1, size, dtype=torch.float64, generator=generator)
        # A bound holds an entry at one and the same value: nudged, it repeats either always or never.
        values = torch.cat([apply(z)[None], apply(z + nudges)]).sort(0).values
        repeats = values[1:] == values[:-1]
        steady = repeats.all(0) | ~repeats.any(0)
        kept = z[steady.all(-1)]
        assert len(kept) >= count, "too few generic rows: lower reach"
        rows = list(shape)
        del rows[dim]
        return kept[:count].reshape(*rows, size).movedim(-1, dim).contiguous()

    return draw
