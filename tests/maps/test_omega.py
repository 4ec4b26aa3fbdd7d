"""Regularisers against their formulas, their conjugates against brute force, their margins against the maps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import omegamax
from omegamax import Bounded, KSubsets, NormEntropy, Omega, Shannon, Tsallis

F64 = torch.float64
OMEGAS = {
    "shannon": Shannon(),
    **{f"tsallis {a:g}": Tsallis(a) for a in (0.5, 1.0, 1.25, 1.5, 2.0, 3.0, math.inf)},
    **{f"norm {a:g}": NormEntropy(a) for a in (1.2, 2.0, 5.0, math.inf)},
    **{f"k {k:g}": KSubsets(k) for k in (1, 2, 2.5)},
    "at most 2": KSubsets(2, at_most=True),
    "bounded softmax": Bounded("softmax", 0.5),
    "bounded sparsemax": Bounded("sparsemax", 0.5, 0.05),
}
every_omega = pytest.mark.parametrize("omega", OMEGAS.values(), ids=OMEGAS.keys())
SMOOTH = {n: o for n, o in OMEGAS.items() if "inf" not in n}
every_smooth = pytest.mark.parametrize("omega", SMOOTH.values(), ids=SMOOTH.keys())


def simplex(rows: int = 30, size: int = 6) -> Tensor:
    p = torch.distributions.Dirichlet(torch.full((size,), 0.7, dtype=F64)).sample((rows,))
    p[: rows // 3, :2] = 0
    return p / p.sum(-1, keepdim=True)


def test_shannon_is_the_sum_of_p_log_p():
    p = simplex()
    terms = [sum(x * math.log(x) for x in row if x > 0) for row in p.tolist()]
    assert (Shannon()(p) - torch.tensor(terms, dtype=F64)).abs().max() <= 1e-14
    assert Shannon()(torch.eye(4, dtype=F64)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.99, 1.01, 1.5, 2.0, 3.0, 10.0])
def test_tsallis_is_its_formula(alpha: float):
    p = simplex()
    powers = torch.where(p > 0, p.pow(alpha), 0.0).sum(-1)
    assert (Tsallis(alpha)(p) - (powers - 1) / (alpha * (alpha - 1))).abs().max() <= 1e-12


@pytest.mark.parametrize("alpha", [1 - 1e-6, 1 - 1e-12, 1.0, 1 + 1e-12, 1 + 1e-6])
def test_tsallis_is_continuous_through_shannon(alpha: float):
    p = simplex()
    assert (Tsallis(alpha)(p) - Shannon()(p)).abs().max() <= 1e-5
    if abs(alpha - 1) < 1e-9:
        assert (Tsallis(alpha)(p) - Shannon()(p)).abs().max() <= 1e-11


def test_tsallis_of_alpha_two_is_half_the_squared_norm():
    p = simplex()
    assert (Tsallis(2.0)(p) - (p.square().sum(-1) - 1) / 2).abs().max() <= 1e-15


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 3.0, 50.0])
def test_norm_entropy_is_its_formula(alpha: float):
    p = simplex()
    norms = torch.linalg.vector_norm(p, alpha, dim=-1)
    assert (NormEntropy(alpha)(p) - (norms - 1)).abs().max() <= 1e-14


def test_norm_entropy_of_infinite_alpha_is_the_largest_entry():
    p = simplex()
    assert torch.equal(NormEntropy(math.inf)(p), p.amax(-1) - 1)
    assert (NormEntropy(1e4)(p) - NormEntropy(math.inf)(p)).abs().max() <= 1e-3


@pytest.mark.parametrize("kind", [Tsallis, NormEntropy])
def test_alpha_for_each_row_gives_each_row_its_value(kind: type[Omega]):
    p = simplex(4)
    alphas = [math.inf, 1.5, 2.0, 3.0]
    values = kind(torch.tensor(alphas, dtype=F64)[:, None])(p)
    assert values.shape == (4,)
    for i, alpha in enumerate(alphas):
        assert values[i].item() == pytest.approx(kind(alpha)(p[i]).item(), abs=1e-14)


def test_k_subsets_and_bounded_take_the_value_of_their_base():
    p = simplex()
    assert (KSubsets(2)(p) - p.square().sum(-1) / 2).abs().max() <= 1e-15
    assert torch.equal(Bounded("softmax", 0.9)(p), Shannon()(p))
    assert torch.equal(Bounded("sparsemax", 0.9)(p), Tsallis(2.0)(p))


@every_omega
def test_value_is_convex_and_zero_or_less_below_the_corners(omega: Omega):
    p, q = simplex(), simplex().flip(0).flip(1)
    middle = omega((p + q) / 2)
    assert (middle <= (omega(p) + omega(q)) / 2 + 1e-14).all()
    corners = omega(torch.eye(5, dtype=F64))
    assert (corners - corners[0]).abs().max() <= 1e-15
    assert (omega(p) <= corners[0] + 1e-14).all()


@every_omega
@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 3, 6)])
def test_value_is_taken_over_the_last_axis(omega: Omega, shape: tuple[int, ...]):
    p = torch.rand(shape, dtype=F64)
    p = p / p.sum(-1, keepdim=True)
    assert omega(p).shape == omega.conjugate(p).shape == shape[:-1]
    assert omega(p.float()).dtype == torch.float32


@every_smooth
def test_value_has_a_gradient_inside_the_domain(omega: Omega):
    p = simplex(4)[2:].clone().requires_grad_()
    assert (p > 0).all()
    assert gradcheck(omega, p)


@every_smooth
def test_gradient_of_the_conjugate_is_the_map(omega: Omega):
    z = torch.randn(8, 6, dtype=F64, requires_grad=True)
    grad = torch.autograd.grad(omega.conjugate(z).sum(), z)[0]
    assert (grad - omega.argmax(z)).abs().max() <= 1e-15
    assert gradcheck(omega.conjugate, z, atol=1e-7, check_forward_ad=True)


def lattice(omega: Omega, step: float) -> Tensor:
    """Points of the domain in three dimensions, evenly spaced."""
    axis = torch.arange(0, 1 + step / 2, step, dtype=F64)
    if getattr(omega, "at_most", False):
        points = torch.cartesian_prod(axis, axis, axis)
        return points[points.sum(-1) <= omega.total + 1e-12]
    points = torch.cartesian_prod(axis, axis)
    points = torch.cat([points, omega.total - points.sum(-1, keepdim=True)], -1)
    low, high = getattr(omega, "lower", None) or 0.0, getattr(omega, "upper", 1.0)
    return points[((points >= low - 1e-12) & (points <= high + 1e-12)).all(-1)].clamp(min=0)


@every_omega
def test_conjugate_is_the_maximum_over_the_domain(omega: Omega):
    points = lattice(omega, 0.025)
    z = 0.5 * torch.randn(12, 3, dtype=F64)
    best = (z @ points.T - omega(points)).amax(-1)
    conjugate = omega.conjugate(z)
    assert (conjugate >= best - 1e-12).all()
    assert (conjugate - best).max() <= 0.02


def test_conjugates_have_their_closed_forms():
    z = torch.randn(10, 5, dtype=F64)
    assert (Shannon().conjugate(z) - z.logsumexp(-1)).abs().max() <= 1e-14
    assert (Tsallis(1.0).conjugate(z) - z.logsumexp(-1)).abs().max() <= 1e-14
    assert (Tsallis(math.inf).conjugate(z) - z.amax(-1)).abs().max() <= 1e-15
    p = omegamax.sparsemax(z)
    tau = (z - p).masked_fill(p == 0, math.nan).nanmean(-1)
    expected = (0.5 * (z.square() - tau[:, None].square()) * (p > 0)).sum(-1) + 0.5
    assert (Tsallis(2.0).conjugate(z) - expected).abs().max() <= 1e-13


@every_omega
def test_masked_entries_leave_the_conjugate_alone(omega: Omega):
    z = torch.randn(4, 6, dtype=F64)
    wide = torch.cat([z, torch.full((4, 2), -math.inf, dtype=F64)], -1).requires_grad_()
    value = omega.conjugate(wide)
    assert (value - omega.conjugate(z)).abs().max() <= 1e-14
    assert (torch.autograd.grad(value.sum(), wide)[0][:, 6:] == 0).all()


@pytest.mark.parametrize(
    "kind, level", [(Tsallis, 1.0), (Tsallis, 1.5), (Tsallis, 2.5), (NormEntropy, 1.5), (NormEntropy, 3.0)]
)
@pytest.mark.parametrize("shape", [(), (1,), (4, 1)])
def test_conjugate_has_a_gradient_in_alpha(kind: type[Omega], level: float, shape: tuple[int, ...]):
    z = torch.tensor([[0.3, 0.1, -0.2], [1.0, 0.4, 0.2], [0.0, 0.05, 0.4], [-1.0, -0.7, -0.8]], dtype=F64)
    alpha = torch.full(shape, level, dtype=F64, requires_grad=True)
    z.requires_grad_()

    def conjugate(z, alpha):
        return kind(alpha).conjugate(z)

    assert gradcheck(conjugate, (z, alpha), atol=1e-7, check_forward_ad=True)


def test_margins_are_those_of_the_maps():
    assert Shannon().margin == math.inf
    assert Tsallis(1.0).margin == Tsallis(0.5).margin == math.inf
    assert [Tsallis(a).margin for a in (1.25, 1.5, 2.0, 3.0, math.inf)] == [4.0, 2.0, 1.0, 0.5, 0.0]
    assert [NormEntropy(a).margin for a in (1.1, 2.0, math.inf)] == [1.0, 1.0, 1.0]
    assert KSubsets(3).margin == 1.0
    assert Bounded("sparsemax", 0.5).margin == 1.0 and Bounded("softmax", 0.5).margin == math.inf
    assert Tsallis(torch.tensor([[1.5], [2.0]])).margin == 2.0


@pytest.mark.parametrize(
    "omega", [Tsallis(1.25), Tsallis(1.5), Tsallis(2.0), Tsallis(3.0), NormEntropy(1.5), NormEntropy(4.0)]
)
def test_map_is_one_hot_exactly_from_the_margin_on(omega: Omega):
    hot = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=F64)
    assert torch.equal(omega.argmax(hot * omega.margin), hot)
    below = omega.argmax(hot * omega.margin * (1 - 1e-3))
    assert (below > 0).all()


def test_totals_are_what_the_maps_sum_to():
    z = torch.randn(3, 6, dtype=F64)
    for omega in OMEGAS.values():
        if not getattr(omega, "at_most", False):
            assert omega.argmax(z).sum(-1).tolist() == pytest.approx([omega.total] * 3, abs=1e-14)


@pytest.mark.parametrize("omega", OMEGAS.values(), ids=OMEGAS)
def test_row_with_nothing_left_has_a_conjugate_of_zero_and_every_value_a_graph(omega):
    assert omega.conjugate(torch.full((2, 4), -math.inf, dtype=F64)).tolist() == [0.0, 0.0]
    p = omega.argmax(torch.randn(3, 4, dtype=F64)).requires_grad_()
    assert torch.autograd.grad(omega(p).sum(), p)[0].isfinite().all()
