"""The generic loss against the problem that defines it."""

import math

import cvxpy as cp
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax.losses import fenchel_young_loss

OMEGAS = {
    "softmax": omegamax.Shannon(),
    "sparsemax": omegamax.Tsallis(2.0),
    "entmax15": omegamax.Tsallis(1.5),
    "entmax 1.25": omegamax.Tsallis(1.25),
    "entmax 0.7": omegamax.Tsallis(0.7),
    "entmax 3": omegamax.Tsallis(3.0),
    "normmax 2": omegamax.NormEntropy(2.0),
    "normmax 4": omegamax.NormEntropy(4.0),
    "k_subsets": omegamax.KSubsets(2),
    "at most 2": omegamax.KSubsets(2, at_most=True),
    "bounded": omegamax.Bounded("sparsemax", upper=0.6),
}
every_omega = pytest.mark.parametrize("omega", OMEGAS.values(), ids=OMEGAS.keys())
Z = torch.tensor([1.2, 0.4, -0.3, 0.9, -1.7], dtype=torch.float64)


def point_of_domain(omega, size=5, rows=()):
    return omega.argmax(2 * torch.randn(*rows, size, dtype=torch.float64))


def cvxpy_problem(name):
    """Omega as a cvxpy expression with its constraints."""
    p = cp.Variable(5)
    simplex = [p >= 0, cp.sum(p) == 1]
    return {
        "softmax": (p, -cp.sum(cp.entr(p)), simplex),
        "sparsemax": (p, 0.5 * (cp.sum_squares(p) - 1), simplex),
        "entmax15": (p, (cp.sum(cp.power(p, 1.5)) - 1) / 0.75, simplex),
        "entmax 1.25": (p, (cp.sum(cp.power(p, 1.25)) - 1) / 0.3125, simplex),
        "entmax 0.7": (p, (1 - cp.sum(cp.power(p, 0.7, approx=False))) / 0.21, simplex),
        "entmax 3": (p, (cp.sum(cp.power(p, 3)) - 1) / 6, simplex),
        "normmax 2": (p, cp.norm(p, 2) - 1, simplex),
        "normmax 4": (p, cp.norm(p, 4) - 1, simplex),
        "k_subsets": (p, 0.5 * cp.sum_squares(p), [p >= 0, p <= 1, cp.sum(p) == 2]),
        "at most 2": (p, 0.5 * cp.sum_squares(p), [p >= 0, p <= 1, cp.sum(p) <= 2]),
        "bounded": (p, 0.5 * (cp.sum_squares(p) - 1), [p >= 0, p <= 0.6, cp.sum(p) == 1]),
    }[name]


@pytest.mark.parametrize("name", OMEGAS)
def test_loss_is_the_gap_of_its_optimisation_problem(name):
    p, value, constraints = cvxpy_problem(name)
    y = point_of_domain(OMEGAS[name])
    best = cp.Problem(cp.Maximize(p @ Z.numpy() - value), constraints).solve(solver=cp.CLARABEL)
    p.value = y.numpy()
    gap = float(value.value) + best - float(y @ Z)
    assert fenchel_young_loss(Z, y, OMEGAS[name]).item() == pytest.approx(gap, abs=2e-6)


@every_omega
def test_gradient_is_the_map_minus_the_target(omega):
    z = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    y = point_of_domain(omega, rows=(4,))
    (grad,) = torch.autograd.grad(fenchel_young_loss(z, y, omega, reduction="sum"), z)
    torch.testing.assert_close(grad, omega.argmax(z) - y)


@every_omega
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_is_exactly_zero_at_the_map(omega, dtype):
    z = 3 * torch.randn(50, 6, dtype=dtype) + 100
    if omega.margin == math.inf:
        assert fenchel_young_loss(z, omega.argmax(z), omega, "none").max() < 1e-4
    else:
        assert fenchel_young_loss(z, omega.argmax(z), omega, "none").max() == 0


@every_omega
@given(z=st.lists(st.floats(-1e3, 1e3, width=32), min_size=5, max_size=5), seed=st.integers(0, 9))
def test_loss_is_never_negative(omega, z, seed):
    z = torch.tensor(z, dtype=torch.float32)
    y = omega.argmax(torch.randn(5, generator=torch.Generator().manual_seed(seed)))
    assert fenchel_young_loss(z, y, omega) >= 0


@every_omega
def test_loss_has_first_and_second_derivatives_in_every_mode(omega, generic_scores):
    z = generic_scores(omega.argmax, 3, 5).requires_grad_()
    # Inside the domain, away from the zeros at which Omega itself has a kink; k-subsets: the centre is inside.
    y = 0.5 * point_of_domain(omega, rows=(3,)) + 0.1 * omega.total
    y.requires_grad_()

    def loss(z, y):
        return fenchel_young_loss(z, y, omega)

    assert gradcheck(loss, (z, y), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(loss, (z, y))


@pytest.mark.parametrize("family", [omegamax.Tsallis, omegamax.NormEntropy])
@pytest.mark.parametrize("shape", [(), (1,), (2, 1), (3, 2, 1)])
def test_alpha_has_first_and_second_derivatives_in_every_mode(family, shape):
    z = torch.tensor([1.2, 0.4, -0.3], dtype=torch.float64) * torch.rand(3, 2, 1, dtype=torch.float64)
    z.requires_grad_()
    y = torch.rand(3, 2, 3, dtype=torch.float64).softmax(-1)
    alpha = (1.3 + 0.5 * torch.rand(shape, dtype=torch.float64)).requires_grad_()

    def loss(z, alpha):
        return fenchel_young_loss(z, y, family(alpha), "none")

    assert gradcheck(loss, (z, alpha), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(loss, (z, alpha))


@every_omega
def test_loss_maps_differentiates_and_compiles(omega):
    z = torch.randn(4, 5, dtype=torch.float64)
    y = point_of_domain(omega, rows=(4,))
    per_row = torch.func.vmap(torch.func.grad(lambda z, y: fenchel_young_loss(z, y, omega)))(z, y)
    torch.testing.assert_close(per_row, omega.argmax(z) - y)

    z.requires_grad_()
    torch.compiler.reset()  # one line of code, one cache: the Omegas before this one would fill it
    compiled = torch.compile(lambda z, y: fenchel_young_loss(z, y, omega), fullgraph=True, backend="aot_eager")
    loss = compiled(z, y)
    torch.testing.assert_close(loss, fenchel_young_loss(z, y, omega))
    torch.testing.assert_close(torch.autograd.grad(loss, z)[0], (omega.argmax(z) - y) / 4)


def test_target_may_sum_to_one_only_up_to_rounding():
    # 1e4 times the rounding of a sum in float32 would be a loss of about 1e-3 where there is none.
    z = 1e4 + torch.randn(200, 300)
    y = omegamax.entmax15(z)
    assert (y.sum(-1) != 1).any()
    assert fenchel_young_loss(z, y, "entmax15", "none").max() < 1e-5


def test_masked_entries_cost_nothing_unless_the_target_wants_them():
    z = torch.tensor([[1.0, -math.inf, 0.5], [1.0, -math.inf, 0.5]], requires_grad=True)
    y = torch.tensor([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    loss = fenchel_young_loss(z, y, "sparsemax", "none")
    short = fenchel_young_loss(torch.tensor([1.0, 0.5]), torch.tensor([0.5, 0.5]), "sparsemax")
    assert loss.tolist() == [short.item(), math.inf]
    (grad,) = torch.autograd.grad(loss.sum(), z)
    assert grad.tolist() == [[0.25, 0.0, -0.25], [0.25, -0.5, 0.25]]


def test_nan_spoils_its_own_row_only():
    z = torch.tensor([[1.0, math.nan], [math.inf, 0.0], [1.0, 0.0]])
    y = torch.tensor([[1.0, 0.0]] * 3)
    for name in ("softmax", "sparsemax", "entmax15"):
        assert fenchel_young_loss(z, y, name, "none").isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    z, y = torch.randn(8, 5).to(dtype), torch.rand(8, 5).softmax(-1).to(dtype)
    loss = fenchel_young_loss(z, y, "entmax15", "none")
    assert loss.dtype == dtype
    torch.testing.assert_close(loss, fenchel_young_loss(z.float(), y.float(), "entmax15", "none").to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fenchel_young_loss(z, y, "entmax15").dtype == torch.float32


@pytest.mark.parametrize(
    ("z", "y", "kind", "words"),
    [
        (torch.zeros(3, dtype=torch.long), torch.zeros(3), TypeError, "fenchel_young_loss: z must be a floating"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.long), TypeError, "fenchel_young_loss: y must be a floating"),
        (torch.zeros(2, 3), torch.zeros(3), ValueError, r"same shape \[\*, K\], got \(2, 3\) and \(3,\)"),
        (torch.zeros(()), torch.zeros(()), ValueError, "same shape"),
        (torch.zeros(2, 0), torch.zeros(2, 0), ValueError, "at least one entry"),
    ],
)
def test_bad_input_is_refused_by_name(z, y, kind, words):
    with pytest.raises(kind, match=words):
        fenchel_young_loss(z, y, "sparsemax")


def test_unknown_words_list_the_known_ones():
    z = torch.zeros(3)
    with pytest.raises(ValueError, match="fenchel_young_loss: reduction must be one of 'mean', 'sum', 'none'"):
        fenchel_young_loss(z, z, "sparsemax", reduction="max")
    with pytest.raises(ValueError, match="known: softmax, sparsemax"):
        fenchel_young_loss(z, z, "hardmax")
