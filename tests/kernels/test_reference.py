"""The plain-torch kernels, the truth for all others, against brute force on every small grid of scores."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from omegamax.kernels.bounds import reference as bounds
from omegamax.kernels.rows import norm
from omegamax.kernels.rows import reference as rows

F64 = torch.float64
# All rows of three scores from a coarse grid: every pattern of ties, gaps and supports.
GRID = torch.tensor(list(itertools.product([-2.0, -1.0, -0.5, 0.0, 0.25], repeat=3)), dtype=F64)


def bisect(f, low: Tensor, high: Tensor) -> Tensor:
    """The root of a non-increasing function of each row."""
    for _ in range(100):
        middle = (low + high) / 2
        above = f(middle) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2


@pytest.mark.parametrize("alpha", [0.5, 1.2, 1.5, 2.0, 2.5, 4.0])
def test_entmax_agrees_with_bisection_on_a_grid(alpha: float):
    e = alpha - 1

    def p(shift: Tensor) -> Tensor:
        base = (1 + e * (GRID - shift)).clamp(min=0)
        return torch.where(base > 0, base.pow(1 / e), 0.0)

    top = GRID.amax(-1, keepdim=True)
    shift = bisect(lambda t: p(t).sum(-1, keepdim=True) - 1, top, top + 10)
    assert (rows.entmax(GRID, alpha) - p(shift)).abs().max() <= (1e-13 if alpha <= 2 else 1e-7)


@pytest.mark.parametrize("k", [0.5, 1, 1.5, 2, 2.75, 3])
def test_k_subsets_agrees_with_bisection_on_a_grid(k: float):
    top, bottom = GRID.amax(-1, keepdim=True), GRID.amin(-1, keepdim=True)
    tau = bisect(lambda t: (GRID - t).clamp(0, 1).sum(-1, keepdim=True) - k, bottom - 1, top)
    assert (bounds.k_subsets(GRID, k) - (GRID - tau).clamp(0, 1)).abs().max() <= 1e-14


def test_box_simplex_agrees_with_bisection_on_a_grid():
    lower, upper = torch.tensor([0.1, 0.0, 0.2], dtype=F64), torch.tensor([0.3, 0.7, 0.45], dtype=F64)
    top, bottom = GRID.amax(-1, keepdim=True), GRID.amin(-1, keepdim=True)
    tau = bisect(lambda t: (GRID - t).clamp(lower, upper).sum(-1, keepdim=True) - 1, bottom - 1, top)
    p = bounds.box_simplex(GRID, lower, upper, torch.ones((), dtype=F64))
    assert (p - (GRID - tau).clamp(lower, upper)).abs().max() <= 1e-14


def test_capped_softmax_agrees_with_bisection_on_a_grid():
    upper = torch.tensor([0.3, 0.7, 0.2], dtype=F64)
    log_c = bisect(
        lambda c: torch.minimum(upper, (GRID - c).exp()).sum(-1, keepdim=True) - 1,
        torch.full((len(GRID), 1), -50.0, dtype=F64),
        torch.full((len(GRID), 1), 50.0, dtype=F64),
    )
    assert (bounds.capped_softmax(GRID, upper) - torch.minimum(upper, (GRID - log_c).exp())).abs().max() <= 1e-14


@pytest.mark.parametrize("alpha", [1.0, 1.3, 2.0])
def test_entmax_vjp_is_the_product_with_its_jacobian(alpha: float):
    p = rows.entmax(0.5 * torch.randn(5, dtype=F64), alpha)
    s = torch.where(p > 0, p.pow(2 - alpha), 0.0)
    jacobian = s.diag() - s[:, None] * s / s.sum()
    columns = torch.stack([rows.entmax_vjp(p, g, alpha, -1) for g in torch.eye(5, dtype=F64)])
    assert (columns - jacobian).abs().max() <= 1e-15


@pytest.mark.parametrize("alpha", [1.3, 2.0, 4.0])
def test_norm_is_scaled_against_underflow(alpha: float):
    p = torch.tensor([[1e-200, 2e-200], [0.3, 0.7], [0.0, 0.0]], dtype=F64)
    norms = norm(p, alpha, -1).squeeze(-1)
    expected = (1 + 2**alpha) ** (1 / alpha)
    assert norms[0].item() == pytest.approx(1e-200 * expected, rel=1e-14)
    assert norms[1].item() == pytest.approx(torch.linalg.vector_norm(p[1], alpha).item(), rel=1e-14)
    assert norms[2].isfinite()


@pytest.mark.parametrize("row", [[math.nan, 0.0, 1.0], [math.inf, 0.0, 1.0], [-math.inf] * 3])
def test_rows_without_a_finite_maximum_are_settled_alike(row: list[float]):
    z = torch.tensor([row, [0.5, 0.0, -0.5]], dtype=F64)
    one = torch.ones((), dtype=F64)
    for p in (
        rows.entmax(z, 1.3),
        rows.entmax(z, torch.tensor([[3.0], [2.5]], dtype=F64)),
        rows.normmax(z, 2.0),
        bounds.k_subsets(z, 2),
        bounds.box_simplex(z, 0 * one, one, one),
        bounds.capped_softmax(z, one),
    ):
        assert p[0].isnan().all() if row[0] != -math.inf else (p[0] == 0).all()
        assert p[1].isfinite().all()
