"""The backend belongs to a thread or a task, to nobody else, and ends with its block."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import omegamax
from omegamax import kernels
from omegamax.kernels import _dispatch


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert kernels.current_backend() == _dispatch._latest == "auto"


def test_overlapping_blocks_of_two_threads_leave_nothing_behind():
    entered, left, seen = threading.Event(), threading.Event(), []

    def first():
        with omegamax.backend("reference"):
            entered.set()
            assert left.wait(30)
            seen.append(kernels.current_backend())
        seen.append(kernels.current_backend())

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(30)
    assert kernels.current_backend() == "auto"
    with omegamax.backend("cpu"):
        assert kernels.current_backend() == "cpu"
        left.set()
        thread.join()
        assert kernels.current_backend() == "cpu"
    assert seen == ["reference", "auto"]


def test_many_threads_have_each_their_own():
    start = threading.Barrier(8)

    def work(i: int) -> bool:
        name = ("reference", "cpu")[i % 2]
        start.wait()
        for _ in range(50):
            with omegamax.backend(name):
                omegamax.sparsemax(torch.tensor([1.0, 0.5, -1.0]))
                if kernels.current_backend() != name:
                    return False
        return kernels.current_backend() == "auto"

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_tasks_have_each_their_own():
    async def task(name: str, steps: int) -> list[str]:
        seen = []
        with omegamax.backend(name):
            for _ in range(steps):
                await asyncio.sleep(0)
                seen.append(kernels.current_backend())
        return [*seen, kernels.current_backend()]

    async def both() -> list[list[str]]:
        return await asyncio.gather(task("reference", 3), task("cpu", 5))

    slow, quick = asyncio.run(both())
    assert slow == ["reference"] * 3 + ["auto"] and quick == ["cpu"] * 5 + ["auto"]


def test_task_inherits_the_block_that_started_it():
    async def asked() -> str:
        return kernels.current_backend()

    async def main() -> str:
        with omegamax.backend("reference"):
            task = asyncio.create_task(asked())
        return await task

    assert asyncio.run(main()) == "reference"


def test_blocks_that_end_in_the_wrong_order():
    first, second = omegamax.backend("reference"), omegamax.backend("cpu")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert kernels.current_backend() == "cpu"
    second.__exit__(None, None, None)
    assert kernels.current_backend() == "auto"


def test_interleaved_generators():
    def steps(name: str):
        with omegamax.backend(name):
            yield

    first, second = steps("reference"), steps("reference")
    next(first), next(second)
    first.close()
    second.close()


def test_exception_ends_the_block():
    with pytest.raises(ZeroDivisionError):
        with omegamax.backend("reference"):
            1 / 0  # noqa: B018


def test_decorated_function_uses_it_in_every_call():
    @omegamax.backend("reference")
    def asked(depth: int = 0) -> list[str]:
        return [kernels.current_backend(), *(asked(depth - 1) if depth else [])]

    assert asked(2) == ["reference"] * 3 and asked() == ["reference"]
    assert kernels.current_backend() == "auto"


def test_gradient_uses_the_backend_of_its_forward_pass(monkeypatch):
    used = []
    find = _dispatch._find
    monkeypatch.setattr(_dispatch, "_find", lambda op, device, name: used.append((op, name)) or find(op, device, name))
    alpha = torch.tensor([[1.5]], dtype=torch.float64, requires_grad=True)
    for f in (omegamax.sparsemax, lambda z: omegamax.entmax(z, alpha), lambda z: omegamax.constrained_softmax(z, 0.9)):
        z = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
        with omegamax.backend("reference"):
            p = f(z)
        g, used[:] = torch.randn_like(p), []
        # As autograd's own threads, one for each GPU, which know no context.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(p.backward, g).result()
        assert used and {name for _, name in used} == {"reference"}
        p = f(z)
        used.clear()
        with omegamax.backend("reference"):
            p.backward(g)
        assert used and {name for _, name in used} == {"auto"}


def test_compiled_function_follows_the_backend(monkeypatch):
    torch._dynamo.reset()
    used = []
    find = _dispatch._find
    monkeypatch.setattr(_dispatch, "_find", lambda op, device, name: used.append(name) or find(op, device, name))
    compiled = torch.compile(lambda z: omegamax.sparsemax(2 * z), backend="aot_eager", fullgraph=True)
    z = torch.randn(3, 4)
    for name in ("auto", "reference", "auto"):
        with omegamax.backend(name):
            used.clear()
            compiled(z)
            assert used == [name]
    torch._dynamo.reset()


def test_graph_of_half_precision_runs_on_every_backend():
    """Traced where the kernels take half precision, it may be called where they do not."""
    z = torch.randn(3, 4).bfloat16()
    p = torch.ops.omegamax.entmax_by_scalar(z, 1.5, 1)
    assert torch.equal(p, omegamax.entmax15(z.float()).bfloat16())


@pytest.mark.parametrize("version, text", [((3, 1), "3.1"), ((3, 3), "3.3")])
def test_old_triton_is_not_used_and_said_once(monkeypatch, version, text):
    monkeypatch.setattr(kernels.triton, "FOUND", version)
    kernels.triton.warn_if_old.cache_clear()
    _dispatch._find.cache_clear()
    assert not kernels.triton.available()
    with pytest.warns(RuntimeWarning, match=rf"found Triton {text}, its GPU kernels need 3\.4") as caught:
        for op in ("entmax", "normmax", "entmax_vjp"):
            assert "triton" not in _dispatch.find(op, "cuda").__module__
    assert len(caught) == 1
    with omegamax.backend("triton"), pytest.raises(RuntimeError, match="no 'triton' kernel for cuda tensors"):
        _dispatch.find("entmax", "cuda")
    kernels.triton.warn_if_old.cache_clear()
    _dispatch._find.cache_clear()


@pytest.mark.parametrize("version, usable", [(None, False), ((3, 3), False), ((3, 4), True), ((3, 10), True)])
def test_triton_is_used_from_its_first_version_on(monkeypatch, version, usable):
    monkeypatch.setattr(kernels.triton, "FOUND", version)
    assert kernels.triton.available() is usable


def test_version_of_triton_is_read_without_importing_it():
    triton = pytest.importorskip("triton")
    assert kernels.triton.FOUND == tuple(map(int, triton.__version__.split(".")[:2]))
