"""Every compiled kernel against its plain-torch twin: sizes, axes, edge cases, threads, processes."""

from __future__ import annotations

import ast
import importlib
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import omegamax
from contracts.records import SOLVED_BY_ROWS, options
from omegamax import kernels
from omegamax.kernels import _dispatch, _library
from omegamax.kernels.rows import norm

F32, F64 = torch.float32, torch.float64
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000, 5000]
COMPILER = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
REFERENCE_ONLY = os.environ.get("OMEGAMAX_BACKEND") == "reference"

needs_native = pytest.mark.skipif(
    REFERENCE_ONLY or not _library.is_available("rows"), reason="no compiled kernels here"
)
both_dtypes = pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
ROUNDING = {F32: 1e-6, F64: 1e-12}

# Beyond the examples of the records: every branch of the solvers.
VARIANTS = [
    *(("entmax", {"alpha": a}) for a in (0.3, 0.9, 1.0, 1.0001, 1.1, 4 / 3, 1.5, 1.75, 2.0, 2.5, 4.0, math.inf)),
    *(("normmax", {"alpha": a}) for a in (1.05, 1.5, 2.0, 4.0)),
    *(("k_subsets", {"k": k}) for k in (0, 1, 1.75, 3)),
    ("constrained_sparsemax", {"upper": 0.7, "lower": 0.0001}),
]
# Maps of structures have kernels of another kind, with tests of their own.
CASES = [(r.name, r.example) for r in SOLVED_BY_ROWS] + VARIANTS
every_case = pytest.mark.parametrize(
    "name, parameters", CASES, ids=["-".join([n, *(f"{v:g}" for v in q.values())]) for n, q in CASES]
)


def test_compiled_kernels_exist_where_there_is_a_compiler():
    if COMPILER and not REFERENCE_ONLY:
        assert _library.is_available("rows"), (
            f"{COMPILER} is on the PATH, but omegamax was installed without compiled kernels"
        )


def test_every_operation_is_found_where_its_package_declares_it():
    """What is written in Triton is read rather than imported: it may not be installed."""
    for op, packages in _dispatch.TABLE.items():
        for backend, package in packages.items():
            module = f"omegamax.kernels.{package}.{_dispatch.MODULES[backend]}"
            if backend == "triton":
                source = Path(omegamax.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
                names = {getattr(node, "name", None) for node in ast.parse(source.read_text()).body}
                assert op in names, f"{module} has no {op}"
            else:
                assert callable(getattr(importlib.import_module(module), op)), f"{module} has no {op}"


def test_every_compiled_operation_has_a_reference():
    compiled = [op for op, packages in _dispatch.TABLE.items() if "cpu" in packages]
    assert len(compiled) > 10
    # Mixtures are fitted in plain torch by their own package, which asks first whether this is compiled.
    asked_for = {op for op in compiled if "mixtures" in _dispatch.TABLE[op].values()}
    assert {op for op in compiled if "reference" not in _dispatch.TABLE[op]} == asked_for


@needs_native
def test_backend_chosen_by_name_is_the_one_that_runs():
    for op, packages in _dispatch.TABLE.items():
        for backend, package in packages.items():
            if backend != "triton":
                module = importlib.import_module(f"omegamax.kernels.{package}.{backend}")
                with omegamax.backend(backend):
                    assert _dispatch.find(op, "cpu") is getattr(module, op)


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match=r"'auto', 'cpu', 'triton', 'reference', got 'gpu'"), omegamax.backend("gpu"):
        pass


def test_backend_returns_to_what_it_was():
    before = _dispatch.current_backend()
    with pytest.raises(ZeroDivisionError), omegamax.backend("reference"):
        raise ZeroDivisionError
    assert _dispatch.current_backend() == before


def fitting(name: str, parameters: dict, size: int) -> dict:
    """The parameters, or the nearest ones that a row of ``size`` can hold."""
    fit = {**options(next(r for r in SOLVED_BY_ROWS if r.name == name), size), **parameters}
    if "k" in fit:
        fit["k"] = min(fit["k"], size)
    if "upper" in fit:
        fit["upper"] = max(fit["upper"], 1 / size)
    return fit


def run(backend: str, name: str, z: Tensor, parameters: dict, dim: int = -1) -> Tensor:
    with omegamax.backend(backend):
        return getattr(omegamax, name)(z, dim=dim, **fitting(name, parameters, z.shape[dim]))


def draw(dtype: torch.dtype, *shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return (scale * torch.randn(shape, dtype=F64, generator=generator)).to(dtype)


def assert_same(ours: Tensor, truth: Tensor, scale: float = 1.0) -> None:
    assert ours.dtype == truth.dtype and ours.shape == truth.shape
    assert torch.equal(ours.isnan(), truth.isnan())
    error = (ours - truth).abs().nan_to_num(0.0)
    assert error.numel() == 0 or error.max() <= ROUNDING[ours.dtype] * scale, f"off by {error.max():.2g}"


@needs_native
@every_case
@both_dtypes
def test_compiled_forward_agrees_for_every_size(name: str, parameters: dict, dtype: torch.dtype):
    for size in SIZES:
        for scale in (0.1, 1.0, 10.0):
            z = draw(dtype, 3, size, scale=scale)
            assert_same(run("cpu", name, z, parameters), run("reference", name, z, parameters))


@needs_native
@every_case
@both_dtypes
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_compiled_forward_agrees_at_every_scale(name: str, parameters: dict, dtype: torch.dtype, scale: float):
    for size in (2, 17, 64, 300):
        z = draw(dtype, 8, size, scale=scale)
        assert_same(run("cpu", name, z, parameters), run("reference", name, z, parameters))


@needs_native
@every_case
@both_dtypes
def test_compiled_forward_agrees_on_edge_case_rows(name: str, parameters: dict, dtype: torch.dtype):
    for size in (3, 8, 19, 70):
        z = draw(dtype, 14, size)
        z[0] = 0.0
        z[1] = -7.5
        z[2] = (z[2] * 2).round() / 2  # ties
        z[3] = -math.inf
        z[4, 0] = -math.inf
        z[5, -1] = math.nan
        z[6, 1] = math.inf
        z[7, 0], z[7, 1] = math.inf, math.nan
        z[8] = torch.where(torch.arange(size) < 3, z[8], -math.inf)
        z[9] = 1e30
        z[10] = 1e4 + z[10]
        z[11, :2] = 50.0
        z[12] = z[12].sort().values
        z[13] = z[13].sort(descending=True).values
        assert_same(run("cpu", name, z, parameters), run("reference", name, z, parameters))


@needs_native
@every_case
@both_dtypes
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_compiled_forward_agrees_along_every_axis(name: str, parameters: dict, dtype: torch.dtype, dim: int):
    for shape in ((5, 6, 7), (3, 4, 1), (1, 5, 33), (40, 3, 4), (17, 17, 17)):
        if shape[dim] == 1:
            continue
        z = draw(dtype, *shape)
        truth = run("reference", name, z, parameters, dim)
        assert_same(run("cpu", name, z, parameters, dim), truth)
        assert_same(run("cpu", name, z.mT.contiguous().mT, parameters, dim), truth)


ROWS = {
    "entmax": torch.tensor([0.5, 1.0, 1.3, 1.5, 2.0, 2.5, 6.0, math.inf]),
    "normmax": torch.tensor([1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, math.inf]),
    "k_subsets": torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 2.75, 3.0, 5.0]),
}


@needs_native
@pytest.mark.parametrize("name", ROWS)
@both_dtypes
def test_compiled_forward_agrees_with_a_parameter_for_each_row(name: str, dtype: torch.dtype):
    key = "k" if name == "k_subsets" else "alpha"
    each = ROWS[name].to(dtype)
    for size in (5, 16, 90):
        for shape, dim, layout in (
            ((8, size), 1, (8, 1)),
            ((size, 8), 0, (1, 8)),
            ((3, size, 8), 1, (1, 1, 8)),
            ((8, size, 3), 1, (8, 1, 1)),
        ):
            z = draw(dtype, *shape)
            outputs = []
            for backend in ("cpu", "reference"):
                with omegamax.backend(backend):
                    outputs.append(getattr(omegamax, name)(z, dim=dim, **{key: each.reshape(layout)}))
            assert_same(*outputs)


@needs_native
@pytest.mark.parametrize("name, parameters", [(r.name, r.example) for r in SOLVED_BY_ROWS], ids=lambda v: str(v))
@both_dtypes
def test_compiled_gradient_agrees(name: str, parameters: dict, dtype: torch.dtype):
    for size in SIZES:
        z = draw(dtype, 3, size)
        g = draw(dtype, 3, size + 1)[:, 1:]
        grads = []
        for backend in ("cpu", "reference"):
            with omegamax.backend(backend):
                leaf = z.clone().requires_grad_()
                p = getattr(omegamax, name)(leaf, **fitting(name, parameters, size))
                grads += torch.autograd.grad(p, leaf, g)
        assert_same(*grads, scale=1 + grads[1].abs().max().item())


VJPS = [
    *(("entmax", a) for a in (0.3, 1.0, 1.25, 1.5, 1.9, 2.0, 2.5, 4.0, math.inf)),
    *(("normmax", a) for a in (1.05, 1.5, 2.0, 3.0, 5.0, math.inf)),
    ("k_subsets", None),
]


def vjps(name: str, p: Tensor, g: Tensor, alpha: float | Tensor | None, dim: int) -> tuple[Tensor, Tensor, float]:
    """The compiled product, the one of plain torch in float64, and the largest term of the sums that make it."""
    rest = () if alpha is None else (alpha,)
    with omegamax.backend("cpu"):
        ours = kernels.solve(f"{name}_vjp", p, g, *rest, dim)
    with omegamax.backend("reference"):
        truth = kernels.solve(f"{name}_vjp", p.double(), g.double(), *rest, dim)
    if alpha is None:
        return ours, truth.to(p.dtype), 4.0
    alpha = torch.as_tensor(alpha, dtype=F64)
    s = torch.where((p > 0) & alpha.isfinite(), p.double().pow(2 - alpha), 0.0)
    if name == "normmax":
        s = s * norm(p.double(), torch.where(alpha.isfinite(), alpha, 2.0), dim).pow(alpha - 1) / (alpha - 1)
    return ours, truth.to(p.dtype), 4.0 * (1 + s.nan_to_num(0.0).max().item())


@needs_native
@pytest.mark.parametrize("name, alpha", VJPS)
@both_dtypes
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_compiled_vjp_agrees_at_the_same_output(name: str, alpha: float | None, dtype: torch.dtype, dim: int):
    for shape in ((4, 5, 6), (16, 17, 18), (2, 70, 3)):
        p = run("reference", name, draw(dtype, *shape), {"k": 1.5} if alpha is None else {"alpha": alpha}, dim)
        p.select(dim, 0)[0] = 0.0
        if alpha is not None:  # Jacobians of the others are those at a distribution
            p = p / p.sum(dim, keepdim=True).clamp(min=torch.finfo(dtype).tiny)
        masked = p.movedim(dim, -1)
        masked[0, 0] = 0.0
        g = draw(dtype, *shape, scale=2.0)
        ours, truth, scale = vjps(name, p, g, alpha, dim)
        assert_same(ours, truth, scale)
        assert (ours.movedim(dim, -1)[0, 0] == 0).all()


@needs_native
@pytest.mark.parametrize("name", ROWS)
@both_dtypes
def test_compiled_vjp_agrees_with_a_parameter_for_each_row(name: str, dtype: torch.dtype):
    if name == "k_subsets":
        return  # its Jacobian does not know k
    each = ROWS[name].to(dtype)
    for shape, dim, layout in (((8, 20), 1, (8, 1)), ((20, 8), 0, (1, 8)), ((3, 20, 8), 1, (1, 1, 8))):
        alpha = each.reshape(layout)
        p = getattr(omegamax, name)(draw(dtype, *shape), alpha, dim=dim)
        assert_same(*vjps(name, p, draw(dtype, *shape, scale=2.0), alpha, dim))


SUMS = ("power_sum", "tsallis", "tsallis_in_alpha", "alpha_vjp")


def sums(backend: str, op: str, p: Tensor, g: Tensor, alpha: float | Tensor) -> Tensor:
    with omegamax.backend(backend):
        return kernels.solve(op, p, g, alpha, 1) if op == "alpha_vjp" else kernels.solve(op, p, alpha)


@needs_native
@pytest.mark.parametrize("op", SUMS)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 1 + 1e-9, 1.001, 1.5, 1.7, 2.0, 2 + 1e-9, 3.0, math.inf])
@both_dtypes
def test_compiled_vjp_agrees_in_alpha(op: str, alpha: float, dtype: torch.dtype):
    if op == "power_sum" and alpha == math.inf:
        return  # the conjugate takes its limit
    for size in (1, 5, 16, 33, 300):
        z, g = draw(dtype, 9, size), draw(dtype, 9, size, scale=2.0).roll(1, 1)
        z[1] = 0.5
        z[2, size // 3 :] = -math.inf
        p = run("reference", "entmax", z, {"alpha": alpha})
        p[3] = 0.0
        p[4, -1] = math.nan
        p[5, : size // 2] = torch.finfo(dtype).tiny  # as small as entries of a support are
        g[6, p[6] == 0] = math.nan
        exact = torch.as_tensor(alpha, dtype=F64)
        for given in (alpha, exact, exact.expand(9, 1)):
            truth = sums("reference", op, p.double(), g.double(), given)
            assert_same(sums("cpu", op, p, g, given), truth.to(dtype), 1 + truth.abs().nan_to_num(0.0).max().item())


@needs_native
@pytest.mark.parametrize("op", SUMS)
def test_compiled_vjp_agrees_in_an_alpha_for_each_row(op: str):
    alpha = ROWS["entmax"].double()[:, None]
    if op == "power_sum":
        alpha = alpha.clamp(max=9)
    p, g = run("reference", "entmax", draw(F64, 8, 70), {"alpha": 1.4}), draw(F64, 8, 70).roll(1, 1)
    rows = [sums("reference", op, p[i : i + 1], g[i : i + 1], alpha[i].item()) for i in range(8)]
    assert_same(sums("cpu", op, p, g, alpha), torch.cat(rows), 10.0)
    assert_same(sums("cpu", op, p.T.contiguous().T, g.T.contiguous().T, alpha), torch.cat(rows), 10.0)
    if op != "alpha_vjp":  # one row of probabilities for all alphas
        assert_same(sums("cpu", op, p[:1], g, alpha), sums("cpu", op, p[:1].expand(8, 70).contiguous(), g, alpha))


COMPILED = [(n, q) for n, q in CASES if not n.startswith("constrained")]
every_compiled = pytest.mark.parametrize(
    "name, parameters", COMPILED, ids=["-".join([n, *(f"{v:g}" for v in q.values())]) for n, q in COMPILED]
)


@needs_native
@every_compiled
@both_dtypes
def test_result_does_not_depend_on_the_number_of_threads(name: str, parameters: dict, dtype: torch.dtype, two_threads):
    for shape, dim in (((900, 65), 1), ((65, 900), 0), ((20, 65, 31), 1), ((8, 5000), 1), ((1500, 30), 1)):
        z = draw(dtype, *shape)
        g = z.cos()
        results = []
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            leaf = z.clone().requires_grad_()
            with omegamax.backend("cpu"):
                p = getattr(omegamax, name)(leaf, dim=dim, **fitting(name, parameters, shape[dim]))
                results.append((p.detach(), torch.autograd.grad(p, leaf, g)[0]))
        for p, grad in results[1:]:
            assert torch.equal(p, results[0][0])
            assert torch.equal(grad, results[0][1])


@needs_native
@every_compiled
@both_dtypes
def test_result_does_not_depend_on_the_index_in_the_batch(name: str, parameters: dict, dtype: torch.dtype, two_threads):
    for size in (5, 16, 33, 400):
        row, g = draw(dtype, size), draw(dtype, size + 1)[1:]
        batch = draw(dtype, 67, size)
        batch[[0, 13, 40, 66]] = row
        leaf, alone = batch.requires_grad_(), row.clone().requires_grad_()
        p, q = run("cpu", name, leaf, parameters), run("cpu", name, alone, parameters)
        grads = torch.autograd.grad(p, leaf, g.expand(67, size))[0]
        grad = torch.autograd.grad(q, alone, g)[0]
        for place in (0, 13, 40, 66):
            assert torch.equal(p[place], q)
            assert torch.equal(grads[place], grad)


@needs_native
def test_kernels_work_in_worker_processes():
    program = Path(__file__).with_name("worker_processes.py")
    # A kernel that waits for threads its parent had would hang: the time limit turns that into a failure.
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines() == ["fork before use", "fork with threads", "fork", "spawn"]
