"""Which kernel runs: the choice by name, by environment, and what is said when it cannot be honoured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import omegamax
from omegamax.kernels import _dispatch, _library
from omegamax.kernels.rows import reference


def python(program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def no_compiled_kernels(monkeypatch):
    monkeypatch.setattr(_library, "is_available", lambda package: False)
    _dispatch._find.cache_clear()
    yield
    monkeypatch.undo()
    _dispatch._find.cache_clear()


def test_plain_torch_serves_where_nothing_is_compiled(no_compiled_kernels):
    z = torch.randn(3, 6, dtype=torch.float64)
    assert torch.equal(omegamax.sparsemax(z), reference.entmax(z, 2.0))


def test_compiled_backend_asked_for_by_name_never_falls_back(no_compiled_kernels):
    with pytest.raises(RuntimeError, match=r"entmax: no 'cpu' kernel for cpu tensors; usable there: \['reference'\]"):
        with omegamax.backend("cpu"):
            omegamax.sparsemax(torch.randn(3, 6))


@pytest.mark.parametrize("op", ["line_vjp", "gaussian_on_line"])
def test_operation_that_nobody_compiled_runs_on_plain_torch(op: str):
    assert "cpu" not in _dispatch.TABLE[op]
    with omegamax.backend("cpu"):
        assert _dispatch.find(op, "cpu").__name__ == op


def test_environment_sets_the_backend_of_a_process():
    program = "import torch, omegamax; from omegamax.kernels import _dispatch; "
    program += "print(_dispatch.find('entmax', 'cpu').__module__)"
    done = python(program, OMEGAMAX_BACKEND="reference")
    assert done.stdout.strip() == "omegamax.kernels.rows.reference", done.stderr


def test_unknown_backend_in_the_environment_is_an_error_that_lists_the_known():
    done = python("import torch, omegamax; omegamax.sparsemax(torch.zeros(3))", OMEGAMAX_BACKEND="gpu")
    assert done.returncode != 0
    assert "OMEGAMAX_BACKEND must be one of 'auto', 'cpu', 'triton', 'reference', got 'gpu'" in done.stderr


def test_contexts_nest():
    with omegamax.backend("reference"):
        with omegamax.backend("auto"):
            assert _dispatch.current_backend() == "auto"
        assert _dispatch.current_backend() == "reference"
    assert _dispatch.current_backend() == "auto"


def test_total_variation_of_a_gpu_runs_on_the_host_only_where_that_is_compiled(no_compiled_kernels):
    assert _dispatch.find("tv_graph", "cuda").__module__ == "omegamax.kernels.variation.reference"
    assert _dispatch.find("tv_grid", "mps").__module__ == "omegamax.kernels.variation.reference"


@pytest.mark.skipif(not _library.is_available("variation"), reason="nothing is compiled here")
def test_total_variation_of_another_device_runs_on_the_host(monkeypatch):
    assert _dispatch.find("tv_graph", "cuda").__module__ == "omegamax.kernels.variation.cpu"
    assert _dispatch.find("tv_grid", "mps").__module__ == "omegamax.kernels.variation.cpu"
    monkeypatch.setattr(_dispatch.triton, "available", lambda: False)
    _dispatch._find.cache_clear()
    kernel = _dispatch.find("tv_grid", "cuda")
    _dispatch._find.cache_clear()
    x = torch.randn(2, 3, 4)
    assert kernel.__module__ == "omegamax.kernels.variation.cpu"
    assert torch.equal(kernel(x, 0.1), _dispatch.find("tv_grid", "cpu")(x, 0.1))
    with omegamax.backend("reference"):
        assert _dispatch.find("tv_grid", "cuda").__module__ == "omegamax.kernels.variation.reference"


def test_searches_for_structures_run_on_the_host_where_that_alone_has_them(monkeypatch):
    """Without a GPU the copies are none, but all else is as there: which way is taken, and that gradients come back."""
    z = torch.randn(3, 4, 5, dtype=torch.float64)
    edges = torch.tensor([[0, 0, 1, 2, 1], [1, 2, 2, 3, 3]])

    def all_of_it() -> list[torch.Tensor]:
        x = z.clone().requires_grad_()
        p = omegamax.sequential_k_subsets(x, 2, 0.7)
        u, found = omegamax.structured.sparsemap(
            x.flatten(0, 1), omegamax.structured.SpanningTree(edges), return_structures=True
        )
        v = omegamax.structured.sparsemap(x, omegamax.structured.Sequence(transition=torch.eye(5)))
        loss = (p * z).sum() + (u * z.flatten(0, 1)).square().sum() + found.probabilities.square().sum() + v.cos().sum()
        pairs = omegamax.SequentialKSubsets(2, 0.7).pair_score(p.detach())
        return [p, u, v, found.structures, found.count, pairs, *torch.autograd.grad(loss, x)]

    wanted = all_of_it()
    brought = []
    monkeypatch.setattr(_dispatch, "is_solved_on_host", lambda op, z: True)
    monkeypatch.setattr(omegamax.kernels, "is_solved_on_host", lambda op, z: True)
    monkeypatch.setattr(_dispatch, "bring", lambda *given: brought.append(given) or list(given))
    for a, b in zip(all_of_it(), wanted, strict=True):
        assert torch.equal(a, b)
    assert len(brought) == 2  # the map with its gradient, and the pairs
