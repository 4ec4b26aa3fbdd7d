"""Clusters of equal probabilities: oscarmax against convex solvers, its operator against pooling one by one."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax import KSubsets, Tsallis, entmax, graph_fusedmax, oscar_prox, oscarmax, sparsemax
from omegamax.kernels.isotonic import isotonic
from omegamax.maps import Oscar

F64 = torch.float64


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def pairs(p):
    """The larger of every pair of cvxpy's entries."""
    import cvxpy as cp

    return sum(cp.maximum(p[i], p[j]) for i in range(p.size) for j in range(i)) if p.size > 1 else 0


def solve(problem) -> None:
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says when it stops short of 1e-12; the test measures how short
        problem.solve(solver=cp.CLARABEL, **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12))


def penalties():
    import cvxpy as cp

    return {
        "sparsemax": lambda p: cp.sum_squares(p) / 2,
        "softmax": lambda p: -cp.sum(cp.entr(p)),
        "entmax15": lambda p: cp.sum(cp.power(p, 1.5)) / 0.75,
        "normmax": lambda p: cp.pnorm(p, 2),
    }


@pytest.mark.parametrize("base", ["sparsemax", "softmax", "entmax15", "normmax"])
@pytest.mark.parametrize("shift", [0.0, -3.0, 3.0])
@pytest.mark.parametrize("strength", [0.05, 0.3])
def test_map_agrees_with_a_convex_solver_whatever_the_signs_of_the_scores(base: str, shift: float, strength: float):
    import cvxpy as cp

    z = draw(6, seed=3) + shift
    p = cp.Variable(6, nonneg=True)
    value = z.numpy() @ p - penalties()[base](p) - strength * pairs(p)
    solve(cp.Problem(cp.Maximize(value), [cp.sum(p) == 1]))
    assert (oscarmax(z, strength, base=base) - torch.from_numpy(p.value)).abs().max() <= 2e-6


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("shift", [0.0, -1.5, 2.0])
def test_map_over_subsets_agrees_with_a_convex_solver(at_most: bool, shift: float):
    import cvxpy as cp

    z = draw(6, seed=5) + shift
    p = cp.Variable(6)
    total = cp.sum(p) <= 2 if at_most else cp.sum(p) == 2
    solve(cp.Problem(cp.Maximize(z.numpy() @ p - cp.sum_squares(p) / 2 - 0.1 * pairs(p)), [p >= 0, p <= 1, total]))
    found = oscarmax(z, 0.1, base=KSubsets(2, at_most=at_most))
    assert (found - torch.from_numpy(p.value)).abs().max() <= 2e-6


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.5])
def test_operator_agrees_with_a_convex_solver(strength: float):
    import cvxpy as cp

    x = draw(7, seed=1)
    w = cp.Variable(7)
    solve(cp.Problem(cp.Minimize(cp.sum_squares(w - x.numpy()) / 2 + strength * pairs(w))))
    assert (oscar_prox(x, strength) - torch.from_numpy(w.value)).abs().max() <= 1e-6


def test_map_is_graph_fusedmax_of_half_the_strength_on_the_complete_graph():
    z = draw(20, 7, seed=2)
    edges = torch.triu_indices(7, 7, offset=1)
    assert (oscarmax(z, 0.1) - graph_fusedmax(z, edges, 0.05)).abs().max() <= 1e-9


def pooled(row: list[float]) -> list[float]:
    """Non-increasing regression, one entry at a time."""
    blocks: list[tuple[float, int]] = []
    for value in row:
        block = (value, 1)
        while blocks and blocks[-1][0] <= block[0]:
            mean, count = blocks.pop()
            total = count + block[1]
            block = ((mean * count + block[0] * block[1]) / total, total)
        blocks.append(block)
    return [mean for mean, count in blocks for _ in range(count)]


@given(
    row=st.lists(st.one_of(st.floats(-1e3, 1e3), st.integers(-3, 3).map(float)), min_size=1, max_size=40),
    absent=st.integers(0, 3),
)
def test_isotonic_regression_equals_pooling_one_by_one(row: list[float], absent: int):
    x = torch.tensor([row + [-math.inf] * absent], dtype=F64)
    fit = isotonic(x)[0]
    assert (fit[: len(row)] - torch.tensor(pooled(row), dtype=F64)).abs().max() <= 1e-12 * (1 + max(map(abs, row)))
    assert (fit[1:] <= fit[:-1]).all() and (fit[len(row) :] == -math.inf).all()


@pytest.mark.parametrize("size", [2, 3, 100, 513])
def test_isotonic_regression_of_long_rows_equals_pooling_one_by_one(size: int):
    x = draw(8, size, seed=size)
    x[1], x[2] = torch.arange(size), -torch.arange(size)
    x[3] = x[3].cumsum(-1)
    x[4, 0] = 1e30  # no sum may see it
    fit = isotonic(x)
    for row, line in zip(x, fit, strict=True):
        assert (line[1:] - torch.tensor(pooled(row.tolist()), dtype=F64)[1:]).abs().max() <= 1e-12 * (1 + size)


def test_entries_of_a_cluster_are_bitwise_equal_and_wherever_they_are():
    z = torch.tensor([0.5, -1.0, 0.625, 0.25, 0.5625], dtype=F64)
    p = oscarmax(z, 0.125)
    assert p[0] == p[2] == p[4] and p[3] < p[0] and p[1] == 0
    assert len(oscarmax(z, 10.0).unique()) == 1
    assert len(oscarmax(draw(4, 300, seed=7), 1e-3, base="softmax").unique()) < 4 * 300


def test_strength_zero_is_the_base_map_ties_included():
    z = torch.tensor([[1.0, 0.5, 0.5, -1.0], [0.2, 0.2, 0.2, 0.2]], dtype=F64, requires_grad=True)
    g = draw(2, 4)
    for base in (sparsemax, lambda z: entmax(z, 1.5)):
        omega = Tsallis(2.0) if base is sparsemax else Tsallis(1.5)
        for strength in (0.0, torch.zeros((), dtype=F64), torch.zeros(2, 1, dtype=F64)):
            p = oscarmax(z, strength, base=omega)
            # Scores are measured from the largest one first, which may round the last digit otherwise.
            torch.testing.assert_close(p, base(z), rtol=4e-16, atol=0)
            ours, wanted = torch.autograd.grad(p, z, g)[0], torch.autograd.grad(base(z), z, g)[0]
            torch.testing.assert_close(ours, wanted, rtol=1e-15, atol=1e-15)


def test_any_strength_joins_ties_for_the_gradient():
    z = torch.tensor([1.0, 0.5, 0.5, -2.0], dtype=F64, requires_grad=True)
    g = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=F64)
    for strength in (1e-3, 1e-30):  # the latter is below the rounding of the scores
        grad = torch.autograd.grad(oscarmax(z, strength), z, g)[0]
        assert grad[1] == grad[2]


def test_masked_entries_do_not_count():
    z, mask = draw(10, 6, seed=4), torch.tensor([True, False, True, True, False, True])
    p = oscarmax(z, 0.2, mask=mask)
    assert (p[:, mask] - oscarmax(z[:, mask], 0.2)).abs().max() <= 1e-15 and (p[:, ~mask] == 0).all()
    w = oscar_prox(z.masked_fill(~mask, -math.inf), 0.2)
    assert (w[:, mask] - oscar_prox(z[:, mask], 0.2)).abs().max() <= 1e-15 and (w[:, ~mask] == -math.inf).all()


CLUSTERED = torch.tensor([[0.8, 0.6, 0.77, -0.9, 0.3], [0.3, 0.7, -1.0, -0.6, 0.5]], dtype=F64)


@pytest.mark.parametrize("base", ["sparsemax", "softmax", "entmax15"])
def test_gradients_reach_scores_and_strength(base: str):
    strength = torch.tensor([[0.05], [0.07]], dtype=F64, requires_grad=True)
    z = CLUSTERED.clone().requires_grad_()
    p = oscarmax(z, strength, base=base)
    assert p[0, 0] == p[0, 2] and len(p[0].unique()) > 2  # a cluster, and entries apart from it

    def apply(z, strength):
        return oscarmax(z, strength, base=base)

    assert gradcheck(apply, (z, strength), atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(apply, (z, strength), atol=1e-7)
    shared = torch.tensor(0.05, dtype=F64, requires_grad=True)
    assert gradcheck(apply, (z, shared), atol=1e-7, check_forward_ad=True)


def test_gradients_of_the_operator_reach_values_and_strength():
    x = torch.cat([CLUSTERED, torch.full((2, 1), -math.inf, dtype=F64)], 1).requires_grad_()
    strength = torch.tensor(0.05, dtype=F64, requires_grad=True)
    w = oscar_prox(x, strength)
    g = draw(2, 6)
    dx, ds = torch.autograd.grad(w, (x, strength), g)
    assert (dx[:, -1] == 0).all()
    step = 1e-6
    inner = x.detach()
    for i in range(5):
        nudge = torch.zeros_like(inner)
        nudge[:, i] = step
        change = (oscar_prox(inner + nudge, 0.05) - oscar_prox(inner - nudge, 0.05)).nan_to_num() / (2 * step)
        assert ((change * g).sum(-1) - dx[:, i]).abs().max() <= 1e-8
    change = (oscar_prox(inner, 0.05 + step) - oscar_prox(inner, 0.05 - step)).nan_to_num() / (2 * step)
    assert abs((change * g).sum().item() - ds.item()) <= 1e-8


def test_gradient_at_strength_zero_is_the_derivative_from_above():
    z = torch.tensor([0.7, 0.4, 0.4, -0.1], dtype=F64)
    strength = torch.zeros((), dtype=F64, requires_grad=True)
    g = draw(4)
    (grad,) = torch.autograd.grad(oscarmax(z, strength, base="softmax"), strength, g)
    step = 1e-7
    ahead = (oscarmax(z, step, base="softmax") - oscarmax(z, 0.0, base="softmax")) / step
    assert abs((ahead * g).sum().item() - grad.item()) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lower_precision_is_one_rounding_of_the_exact_map(dtype: torch.dtype):
    z = (100 + draw(50, 9, seed=6)).to(dtype)
    p = oscarmax(z, 0.1)
    assert p.dtype == dtype
    exact = oscarmax(z.double(), 0.1)
    assert (p.double() - exact).abs().max() <= torch.finfo(dtype).eps
    w = oscar_prox(z, 0.1)
    assert w.dtype == dtype and torch.equal(
        w.double(), oscar_prox(z.double(), 0.1).to(torch.float32).to(dtype).double()
    )


def test_scalar_is_a_row_of_one():
    assert oscarmax(torch.tensor(0.3), 0.5) == 1 and oscar_prox(torch.tensor(0.3), 0.5) == torch.tensor(0.3)
    with pytest.raises(IndexError, match="oscar_prox: dim=1"):
        oscar_prox(torch.tensor(0.3), 0.5, 1)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e300])
@pytest.mark.parametrize("strength", [0.0, 1.0, 1e30, math.inf])
def test_huge_and_tiny_scores_stay_on_the_simplex(scale: float, strength: float):
    z = scale * torch.tensor([[1, 0, 0.5, -1, 0.25], [0, 0, 0, 0, -1], [1, 1, 1, 1, 1]], dtype=F64)
    p = oscarmax(z.requires_grad_(), strength)
    assert (p >= 0).all() and (p.sum(-1) - 1).abs().max() <= 1e-14
    if strength == math.inf:
        assert (p == 0.2).all()
    assert torch.autograd.grad(p, z, draw(3, 5))[0].isfinite().all()


def test_outlier_takes_no_digits_from_the_others():
    for outlier in (1e6, 1e20, 1e300):
        x = torch.tensor([1.0, outlier, 0.5, 0.0], dtype=F64)
        assert (oscar_prox(x, 0.125)[[0, 2, 3]] - torch.tensor([0.75, 0.375, 0.0], dtype=F64)).abs().max() <= 1e-15
        assert torch.equal(oscar_prox(x, 0.0), x) and torch.equal(oscar_prox(-x, 0.0), -x)
    shared = 1e8 + draw(1000, seed=9)
    assert (oscar_prox(shared, 0.01) - 1e8 - oscar_prox(shared - 1e8, 0.01)).abs().max() <= 2e-8


def test_per_row_strength_follows_the_axis():
    z, strength = draw(4, 5, 6, seed=8), 0.3 * torch.rand(4, 1, 6, dtype=F64)
    p = oscarmax(z, strength, 1)
    for i in range(4):
        for j in range(6):
            assert (p[i, :, j] - oscarmax(z[i, :, j], strength[i, 0, j])).abs().max() <= 1e-15


def test_bad_arguments_are_named():
    z = draw(3, 4)
    with pytest.raises(ValueError, match=r"oscarmax: strength must be >= 0, got -1"):
        oscarmax(z, -1)
    with pytest.raises(ValueError, match=r"oscarmax: strength must be >= 0"):
        oscarmax(z, math.nan)
    with pytest.raises(ValueError, match=r"oscarmax: strength .*size 1 along dim=1"):
        oscarmax(z, torch.ones(4, dtype=F64))
    with pytest.raises(TypeError, match="oscarmax: strength"):
        oscarmax(z, "much")
    with pytest.raises(ValueError, match="oscarmax: base"):
        oscarmax(z, 0.1, base=omegamax.Bounded("sparsemax", torch.ones(4)))
    with pytest.raises(TypeError, match=r"oscar_prox: x .*int64"):
        oscar_prox(torch.arange(3), 0.1)


def test_negative_strength_that_nobody_looked_at_gives_nan():
    z, strength = draw(1, 4), torch.tensor([[0.1], [-0.1]], dtype=F64)
    p = torch.func.vmap(lambda s: oscarmax(z, s[None]))(strength)
    assert p[0].isfinite().all() and p[1].isnan().all()


@pytest.mark.parametrize("base", ["sparsemax", "entmax15", "softmax"])
def test_value_of_the_regulariser_is_the_sum_over_pairs(base: str):
    p = torch.rand(5, 6, dtype=F64).softmax(-1)
    omega = Oscar(base, 0.3)
    larger = torch.maximum(p[:, :, None], p[:, None, :]).triu(1).sum((1, 2))
    assert (omega(p) - omegamax.get(base)(p) - 0.3 * larger).abs().max() <= 1e-15
    rows = torch.tensor([[0.1], [0.2], [0.3], [0.0], [1.0]], dtype=F64)
    assert (Oscar(base, rows)(p) - omegamax.get(base)(p) - rows[:, 0] * larger).abs().max() <= 1e-15
    z = draw(5, 6)
    assert torch.equal(omega.argmax(z), oscarmax(z, 0.3, base=base))


@pytest.mark.parametrize("base", ["sparsemax", KSubsets(2), "softmax"])
def test_conjugate_has_the_gradients_of_scores_and_strength(base):
    strength = torch.tensor([[0.05], [0.07]], dtype=F64, requires_grad=True)
    z = CLUSTERED.clone().requires_grad_()
    assert gradcheck(lambda z, s: Oscar(base, s).conjugate(z), (z, strength), atol=1e-7)
    masked = torch.cat([CLUSTERED, torch.full((2, 1), -math.inf, dtype=F64)], 1)
    assert (Oscar(base, 0.1).conjugate(masked) - Oscar(base, 0.1).conjugate(CLUSTERED)).abs().max() <= 1e-14


@pytest.mark.parametrize("size", [2, 3, 8, 33])
@pytest.mark.parametrize("base", ["sparsemax", "entmax15", "normmax"])
def test_lead_is_the_margin_of_rows_of_that_size(size: int, base: str):
    omega = Oscar(base, 0.25)
    hot = torch.zeros(size, dtype=F64)
    hot[0] = 1
    assert (omega.argmax(hot * omega.lead(size)) - hot).abs().max() <= 1e-14
    assert omega.argmax(hot * omega.lead(size) * (1 - 1e-3))[0] < 1
    # Enough for others that are not alike, too.
    z = draw(200, size, seed=size)
    z[:, 0] = z[:, 1:].amax(-1) + omega.lead(size)
    assert (omega.argmax(z) - hot).abs().max() <= 1e-13
    assert omega.margin == math.inf and Oscar(base, 0.0).margin == omegamax.get(base).margin
