"""How close the maps of rows come to exact arithmetic, in total variation: long rows, soft masks, wide gaps."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import Tensor

import omegamax
from contracts.records import SOLVED_BY_ROWS
from omegamax import kernels
from omegamax.kernels import _library

F32, F64 = torch.float32, torch.float64
BACKENDS = ["cpu", "reference"] if _library.is_available("rows") else ["reference"]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
both_dtypes = pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
# A few roundings of each probability; a sum of probabilities would hide errors that cancel. What float64 is compared
# with is float64 too, and has shifted the scores: 1e-16 of a score is 1e-11 of a probability of 1e-5.
ROUNDING = {F32: 8e-7, F64: 1e-11}

# Parameters that the examples of the records leave out. A string is a function of the number of entries K.
PARAMETERS: dict[str, list[dict]] = {
    "entmax": [{"alpha": a} for a in (0.7, 1.0, 1.03, 1.25, 1.3, 1.5, 1.75, 2.0, 2.5, 4.0, math.inf)],
    "normmax": [{"alpha": a} for a in (1.1, 1.3, 1.5, 2.0, 4.0, math.inf)],
    "k_subsets": [{"k": k} for k in ("1", "2", "3", "7", "32", "2.7", "0.3 * K", "K - 1", "K - 0.5", "K")],
    "constrained_softmax": [{"upper": "4 / K"}, {"upper": "0.5"}],
    "constrained_sparsemax": [{"upper": "4 / K"}, {"upper": "0.5"}],
}
CASES = [(r.name, parameters) for r in SOLVED_BY_ROWS for parameters in PARAMETERS.get(r.name, [{}])]
every_case = pytest.mark.parametrize(
    "name, parameters", CASES, ids=["-".join([n, *map(str, q.values())]) for n, q in CASES]
)


def at_size(parameters: dict, size: int) -> dict:
    """The parameters of a row of ``size`` entries, each within what such a row can hold."""
    fit = {}
    for key, value in parameters.items():
        value = eval(value, {"K": size}) if isinstance(value, str) else value
        fit[key] = min(value, size) if key == "k" else max(value, 1 / size) if key == "upper" else value
    return fit


def apply(backend: str, name: str, z: Tensor, parameters: dict) -> Tensor:
    with omegamax.backend(backend):
        return getattr(omegamax, name)(z, **parameters)


def total_variation(p: Tensor, q: Tensor) -> float:
    """Half the sum of the differences, relative to the mass."""
    return float((p.double() - q.double()).abs().sum() / (2 * q.double().sum()))


def score_distributions(size: int) -> dict[str, Tensor]:
    """Rows with small and with large supports, ties and near ties, in float32."""
    generator = torch.Generator().manual_seed(size)
    normal = torch.randn(size, generator=generator)
    half = torch.rand(size, generator=generator) < 0.5
    lead = torch.zeros(size)
    lead[size // 3] = 0.9
    return {
        "flat with a lead": lead,
        "small noise with a lead": lead + 1e-3 * normal * (lead == 0),
        "small noise around 3": 3 + 1e-3 * normal,
        "normal": normal,
        "narrow normal": 0.01 * normal,
        "uniform": torch.rand(size, generator=generator),
        "half tied": torch.where(half, 0.25, 0.1 * normal),
        "two levels": torch.where(half, 0.25, 0.25 - 1e-5),
    }


@functools.lru_cache(maxsize=64)
def exact(name: str, parameters: tuple, size: int, distribution: str) -> Tensor:
    """In float64, by plain torch."""
    return apply("reference", name, score_distributions(size)[distribution].double(), dict(parameters))


def check_rows(backend: str, name: str, parameters: dict, dtype: torch.dtype, size: int) -> None:
    parameters = at_size(parameters, size)
    for distribution, z in score_distributions(size).items():
        p = apply(backend, name, z.to(dtype), parameters)
        error = total_variation(p, exact(name, tuple(parameters.items()), size, distribution))
        assert error <= ROUNDING[dtype], f"{backend}, {dtype}, {distribution}: off by {error:.1e}"


# In one test, so that the exact rows are found once.
@pytest.mark.parametrize("size", [40, 1000, 100_000])
@every_case
def test_row_of_any_length_is_near_exact(name: str, parameters: dict, size: int):
    for backend in BACKENDS:
        for dtype in (F32, F64):
            if backend == "cpu" or (dtype == F32 and size <= 1000):
                check_rows(backend, name, parameters, dtype, size)


# Length adds terms to sums: a case for each formula of the compiled kernels. Plain torch works in float64, as what it
# would be compared with does.
MILLION = {"entmax": (0.7, 1.25, 1.3, 4.0), "normmax": (1.3, 2.0), "k_subsets": ("3", "0.3 * K", "K - 0.5")}
MILLION |= {"constrained_softmax": ("4 / K",), "constrained_sparsemax": ("4 / K",)}
LONGEST = [(name, q) for name, q in CASES if name not in MILLION or set(q.values()) & set(MILLION[name])]


@pytest.mark.slow
@pytest.mark.parametrize("name, parameters", LONGEST, ids=str)
@pytest.mark.skipif("cpu" not in BACKENDS, reason="no compiled kernels here")
def test_row_of_a_million_is_near_exact(name: str, parameters: dict):
    check_rows("cpu", name, parameters, F32, 1_000_000)


@every_case
@pytest.mark.skipif("cpu" not in BACKENDS, reason="no compiled kernels here")
def test_rows_along_another_axis_are_near_exact(name: str, parameters: dict):
    size = 20_000
    parameters = at_size(parameters, size)
    z = torch.stack(list(score_distributions(size).values()), 1)
    with omegamax.backend("cpu"):
        p = getattr(omegamax, name)(z, dim=0, **parameters)
    for i, distribution in enumerate(score_distributions(size)):
        error = total_variation(p[:, i], apply("reference", name, z[:, i].double(), parameters))
        assert error <= ROUNDING[F32], f"{distribution}: off by {error:.1e}"


@pytest.mark.parametrize("name, parameters", [c for c in CASES if not c[0].startswith("constrained")], ids=str)
@every_backend
@pytest.mark.parametrize("size", [1000, 100_000])
def test_gradient_of_a_long_row_is_near_exact(name: str, parameters: dict, backend: str, size: int):
    parameters = at_size(parameters, size)
    alpha = {"softmax": 1.0, "sparsemax": 2.0, "entmax15": 1.5}.get(name, parameters.get("alpha"))
    op = "normmax_vjp" if name == "normmax" else "k_subsets_vjp" if name == "k_subsets" else "entmax_vjp"
    rest = () if alpha is None else (alpha,)
    g = torch.randn(size)
    for distribution, z in score_distributions(size).items():
        leaf = z.clone().requires_grad_()
        p = apply(backend, name, leaf, parameters)
        with omegamax.backend(backend):
            (grad,) = torch.autograd.grad(p, leaf, g)
        with omegamax.backend("reference"):
            truth = kernels.solve(op, p.detach().double(), g.double(), *rest, -1)
        error = (grad.double() - truth).abs().sum() / truth.abs().sum().clamp(min=1e-30)
        assert error <= 2e-6, f"{distribution}: off by {error:.1e}"


# Below alpha = 1 a mask of -1e4 still has mass.
MASKABLE = [(n, q) for n, q in CASES if q.get("alpha", 2.0) >= 1]


@pytest.mark.parametrize("name, parameters", MASKABLE, ids=str)
@every_backend
@both_dtypes
@pytest.mark.parametrize("mask", [-1e4, -1e9, "least"])
def test_soft_mask_is_as_good_as_absence(name: str, parameters: dict, backend: str, dtype: torch.dtype, mask):
    mask = torch.finfo(dtype).min if mask == "least" else mask
    generator = torch.Generator().manual_seed(0)
    for size, real in ((12, 5), (60, 45), (130, 40), (130, 3), (1000, 50), (4096, 90), (4096, 3000)):
        fit = at_size(parameters, real)
        z = torch.full((size,), mask, dtype=dtype)
        at = torch.randperm(size, generator=generator)[:real].sort().values
        z[at] = torch.randn(real, generator=generator).to(dtype)
        p = apply(backend, name, z, fit)
        truth = apply("reference", name, z[at].double(), fit)
        assert p.count_nonzero() == p[at].count_nonzero()
        assert total_variation(p[at], truth) <= ROUNDING[dtype]


@every_backend
@both_dtypes
@pytest.mark.parametrize("gap", [3.0, 100.0, 1e4, 1e9, 1e30])
def test_subsets_beyond_a_gap_share_what_is_left(backend: str, dtype: torch.dtype, gap: float):
    """Leaders take one each; the budget that is left is spent as if they were absent."""
    generator = torch.Generator().manual_seed(1)
    for size, leaders in ((10, 4), (60, 20), (200, 3), (200, 100), (3000, 70)):
        z = torch.randn(size, generator=generator).to(dtype)
        ahead = torch.randperm(size, generator=generator)[:leaders]
        z[ahead] = torch.linspace(8.0, 9.0, leaders).to(dtype) + gap
        rest = torch.ones(size, dtype=torch.bool).index_fill(0, ahead, False)
        for left in (0.3, 1.0, 2.7, 5.0):
            p = apply(backend, "k_subsets", z, {"k": leaders + left})
            truth = apply("reference", "k_subsets", z[rest].double(), {"k": left})
            assert (p[ahead] == 1).all()
            # The budget is known to the digits of a float64, of which the leaders take some.
            assert total_variation(p[rest], truth) <= ROUNDING[dtype]


@every_backend
@both_dtypes
def test_two_scores_as_far_apart_as_can_be(backend: str, dtype: torch.dtype):
    most = torch.finfo(dtype).max
    for z in (torch.tensor([most, -most], dtype=dtype), torch.tensor([-most] + 99 * [most], dtype=dtype)):
        for k in (0.5, 1.0, 1.5, 2.0):
            p = apply(backend, "k_subsets", z, {"k": k})
            top = int((z > 0).sum())
            expected = torch.full_like(z, max(0.0, k - top)).masked_fill(z > 0, min(1.0, k / top))
            assert (p - expected).abs().max() <= torch.finfo(dtype).eps


@pytest.mark.parametrize("name, parameters", [c for c in CASES if set(c[1]) & {"alpha", "k"}], ids=str)
@every_backend
@both_dtypes
@pytest.mark.parametrize("size", [40, 3000])
def test_parameter_as_a_tensor_is_as_precise(name: str, parameters: dict, backend: str, dtype: torch.dtype, size: int):
    ((key, value),) = at_size(parameters, size).items()
    value = torch.tensor(value, dtype=dtype)
    for distribution, z in score_distributions(size).items():
        p = apply(backend, name, z.to(dtype), {key: value})
        error = total_variation(p, apply("reference", name, z.double(), {key: value.item()}))
        assert error <= ROUNDING[dtype], f"{distribution}: off by {error:.1e}"


LOSSES = [
    ("softmax_loss", {}),
    ("sparsemax_loss", {}),
    ("entmax15_loss", {}),
    *(("entmax_loss", {"alpha": a}) for a in (1.25, 1.3, 1.75)),
    *(("normmax_loss", {"alpha": a}) for a in (1.5, 2.0)),
]


@pytest.mark.parametrize("name, parameters", LOSSES, ids=str)
@every_backend
@pytest.mark.parametrize("size", [1000, 100_000])
def test_loss_of_a_long_row_is_near_exact(name: str, parameters: dict, backend: str, size: int):
    loss = getattr(omegamax.losses, name)
    target = torch.tensor([size // 2])
    for distribution, z in score_distributions(size).items():
        with omegamax.backend(backend):
            leaf = z[None].clone().requires_grad_()
            value = loss(leaf, target, **parameters)
            (grad,) = torch.autograd.grad(value, leaf)
        with omegamax.backend("reference"):
            twin = z[None].double().requires_grad_()
            truth = loss(twin, target, **parameters)
            (slope,) = torch.autograd.grad(truth, twin)
        assert abs(value.item() - truth.item()) <= 1e-6 * (1 + truth.item()), distribution
        assert (grad.double() - slope).abs().sum() <= 2e-6, distribution
