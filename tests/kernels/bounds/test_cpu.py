"""Compiled kernels of maps with bounds against plain torch: bounds in every form, edge cases, hostile scores."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omegamax.kernels import load

F32, F64 = torch.float32, torch.float64
INF = math.inf
# Widths of a vector and of several, and what is left at their ends.
SIZES = (1, 2, 7, 8, 9, 33, 200, 1000)
ROUNDING = {F32: 1e-7, F64: 1e-14}
SCALES = (0.01, 1.0, 1e3, 1e15, 1e30)


def rows(size: int, scale: float, dtype: torch.dtype) -> Tensor:
    """Ordinary scores, ties, absent entries, rows with nothing left, NaN and +inf."""
    torch.manual_seed(size)
    z = scale * torch.randn(9, size, dtype=dtype)
    z[1] = (3 * z[1] / scale).round() * scale
    z[2] = z[2, :1]
    z[3, : size // 2] = -INF
    z[4] = -INF
    z[5, -1], z[6, size // 3] = math.nan, INF
    z[7, 0] = 1e30
    return z


def make_bounds(form: str, size: int, dtype: torch.dtype) -> tuple[Tensor | float, Tensor | float]:
    """Return floors and ceilings that every row with something left can hold."""
    shape = {"entry": (9, size), "row": (9, 1), "shared": (1, size), "infinite": (9, size)}.get(form)
    if shape is None:
        return (0.0, 3 / size) if form == "number" else (torch.zeros(1, 1, dtype=dtype), 3 / size)
    upper = (2.2 + 4 * torch.rand(shape, dtype=dtype)) / size
    lower = torch.rand(shape, dtype=dtype) / (2 * size)
    if form == "infinite":
        upper[torch.rand(shape) < 0.5] = INF
    return lower, upper


def run(op: str, backend: str, z: Tensor, lower: Tensor | float, upper: Tensor | float, dim: int = -1) -> Tensor:
    given = (lower, upper, 1.0) if op == "box_simplex" else (upper,)
    return load(op, backend)(z, *given, dim)


def mask(bound: Tensor | float, z: Tensor) -> Tensor | float:
    """Return bounds that are 0 at masked entries, as maps hand over what is one for each entry."""
    return torch.where(z == -INF, 0.0, bound) if isinstance(bound, Tensor) and bound.numel() > 1 else bound


@pytest.mark.parametrize("op", ["box_simplex", "capped_softmax"])
@pytest.mark.parametrize("form", ["number", "one", "entry", "row", "shared", "infinite"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_probabilities_and_their_gradient(op, form, scale, dtype):
    within = ROUNDING[dtype]
    for size in SIZES:
        z = rows(size, scale, dtype)
        lower, upper = (mask(bound, z) for bound in make_bounds(form, size, dtype))
        p = run(op, "cpu", z, lower, upper)
        wanted = run(op, "reference", z, lower, upper)
        torch.testing.assert_close(p, wanted, rtol=0, atol=within, equal_nan=True)
        assert (p[4] == 0).all() and p[5:7].isnan().all()
        g = torch.randn_like(z)
        given = (lower, upper, -1) if op == "box_simplex" else (upper, -1)
        found, slope = (load(f"{op}_vjp", each)(wanted, g, *given) for each in ("cpu", "reference"))
        kept = [0, 1, 2, 3, 4, 7, 8]
        torch.testing.assert_close(found[kept], slope[kept], rtol=0, atol=10 * within)


@pytest.mark.parametrize("op", ["box_simplex", "capped_softmax"])
def test_memory_in_any_order(op):
    z = torch.randn(5, 6, 7, dtype=F64)
    upper = 0.3 + torch.rand(5, 6, 7, dtype=F64)
    lower = torch.rand(5, 6, 7, dtype=F64) / 20
    for dim in (0, 1, 2, -1):
        wanted = run(op, "reference", z, lower, upper, dim)
        for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
            turned = [
                t.permute(order).contiguous().permute(*(order.index(i) for i in range(3))) for t in (z, lower, upper)
            ]
            p = run(op, "cpu", *turned, dim)
            assert p.is_contiguous()
            torch.testing.assert_close(p, wanted, rtol=0, atol=1e-15)
    assert torch.equal(run(op, "cpu", z[:, ::2], lower[:, ::2], upper[:, ::2]), run(op, "cpu", z, lower, upper)[:, ::2])
    assert run(op, "cpu", z[:0], lower[:0], upper[:0]).shape == (0, 6, 7)


def test_totals_of_each_row():
    z = 3 * torch.randn(6, 12, dtype=F64)
    totals = torch.tensor([[0.0], [0.5], [1.0], [4.0], [11.5], [12.0]], dtype=F64)
    p = load("box_simplex", "cpu")(z, 0.0, 1.0, totals, -1)
    torch.testing.assert_close(p.sum(-1, keepdim=True), totals, rtol=0, atol=1e-14)
    torch.testing.assert_close(p, load("box_simplex", "reference")(z, 0.0, 1.0, totals), rtol=0, atol=1e-14)


@pytest.mark.parametrize("op", ["box_simplex", "capped_softmax"])
def test_row_does_not_depend_on_its_neighbours_and_threads(op):
    torch.manual_seed(0)
    z, upper = torch.randn(3000, 50), 0.05 + torch.rand(3000, 50)
    p = run(op, "cpu", z, 0.0, upper)
    order = torch.randperm(3000)
    assert torch.equal(run(op, "cpu", z[order], 0.0, upper[order]), p[order])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(run(op, "cpu", z, 0.0, upper), p)
    finally:
        torch.set_num_threads(threads)


def test_free_scores_far_below_capped_ones_keep_their_digits():
    z = torch.tensor([[1000.0, 999.0, 1.0, 0.5, -2.0]], dtype=F64)
    upper = torch.tensor([[0.3, 0.2, 1.0, 1.0, 0.001]], dtype=F64)
    p = load("capped_softmax", "cpu")(z, upper, -1)
    rest = torch.tensor([1.0, 0.5], dtype=F64).softmax(-1) * (1 - 0.501)
    torch.testing.assert_close(p, torch.cat([upper[0, :2], rest, upper[0, 4:]]).unsqueeze(0), rtol=1e-15, atol=0)


def test_many_ceilings_are_met_one_after_the_other():
    """Each round frees mass for the next: ceilings that double, below scores that are alike."""
    upper = (0.5 ** torch.arange(1.0, 40.0, dtype=F64)).unsqueeze(0)
    upper[0, 0] = 0.6
    z = torch.zeros(1, 39, dtype=F64)
    for op in ("capped_softmax", "box_simplex"):
        p = run(op, "cpu", z, 0.0, upper)
        torch.testing.assert_close(p, run(op, "reference", z, 0.0, upper), rtol=0, atol=1e-15)
        assert p.sum().item() == pytest.approx(1, abs=1e-15)
