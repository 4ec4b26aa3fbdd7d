"""Sequential k-subsets: the defining problem over all sequences, options, bad input, every mode of torch."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, vmap

import omegamax
from omegamax import sequential_k_subsets
from omegamax.kernels.structures import close_gaps

F64 = torch.float64
both_budgets = pytest.mark.parametrize("at_most", [False, True], ids=["exactly", "at most"])
both_backends = pytest.mark.parametrize("backend", ["reference", "auto"])


def solve(z: Tensor, t: Tensor, k: int, at_most: bool, states: int = 1) -> Tensor:
    """The map over the list of all sequences, by an interior-point solver; with both states regularised if asked."""
    import cvxpy as cp

    rows = [y for y in itertools.product((0, 1), repeat=len(z)) if sum(y) == k or (at_most and sum(y) < k)]
    y = torch.tensor(rows, dtype=F64)
    linear = (y @ z + (y[:, 1:] * y[:, :-1]) @ t).numpy()
    weights = cp.Variable(len(y), nonneg=True)
    p = y.numpy().T @ weights
    penalty = cp.sum_squares(p) / 2 + (cp.sum_squares(1 - p) / 2 if states == 2 else 0)
    problem = cp.Problem(cp.Minimize(penalty - (linear - linear.max()) @ weights), [cp.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver says when it stops short of 1e-14; the test measures how short
        problem.solve(solver=cp.CLARABEL, **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-14))
    return torch.from_numpy(p.value)


@both_budgets
@both_backends
@pytest.mark.parametrize("strength", [-3.0, -0.5, 0.3, 1.0, 5.0])
def test_output_agrees_with_a_convex_solver(at_most: bool, backend: str, strength: float):
    for k in (1, 3, 6):
        z, t = torch.randn(7, dtype=F64), strength * torch.rand(6, dtype=F64)
        with omegamax.backend(backend):
            p = sequential_k_subsets(z, k, t, at_most=at_most)
        assert (p - solve(z, t, k, at_most)).abs().max() <= 1e-9


@both_budgets
def test_scalar_transition_is_shared_by_all_pairs(at_most: bool):
    z = torch.randn(5, 8, dtype=F64)
    p = sequential_k_subsets(z, 3, 0.75, at_most=at_most)
    for t in (torch.tensor(0.75), torch.full((7,), 0.75), torch.full((5, 1), 0.75), torch.full((1, 7), 0.75)):
        assert torch.equal(sequential_k_subsets(z, 3, t, at_most=at_most), p)
    for row in range(2):
        assert (p[row] - solve(z[row], torch.full((7,), 0.75, dtype=F64), 3, at_most)).abs().max() <= 1e-9


@both_budgets
def test_without_transitions_it_is_k_subsets(at_most: bool):
    z = torch.randn(20, 9, dtype=F64)
    p = omegamax.k_subsets(z, 4, at_most=at_most)
    assert torch.equal(sequential_k_subsets(z, 4, at_most=at_most), p)
    searched = sequential_k_subsets(z, 4, torch.zeros(8, dtype=F64), at_most=at_most)
    assert (searched - p).abs().max() <= 1e-12


@both_budgets
def test_two_states_are_regularised_both(at_most: bool):
    z, t = 2 * torch.randn(3, 6, dtype=F64), torch.randn(3, 5, dtype=F64)
    p = sequential_k_subsets(z, 2, t, at_most=at_most, two_state=True)
    for row in range(3):
        assert (p[row] - solve(z[row], t[row], 2, at_most, states=2)).abs().max() <= 1e-9
    if not at_most:
        assert (p - sequential_k_subsets(z / 2, 2, t / 2)).abs().max() <= 1e-14
    half = sequential_k_subsets(z.half(), 2, t, at_most=at_most, two_state=True)
    exact = sequential_k_subsets(z.half().float(), 2, t, at_most=at_most, two_state=True)
    assert half.dtype == torch.float16 and torch.equal(half, exact.half())


def test_strong_transitions_give_runs_and_forbidden_ones_give_gaps():
    z = torch.tensor([0.2, 0.1, 0.9, 0.0, 0.3, 0.8], dtype=F64)
    together = sequential_k_subsets(z, 3, 10.0)
    assert together.sum() == pytest.approx(3, abs=1e-14)
    apart = sequential_k_subsets(z, 3, -math.inf)
    rows = [
        y
        for y in itertools.product((0.0, 1.0), repeat=6)
        if sum(y) == 3 and not any(a * b for a, b in itertools.pairwise(y))
    ]
    # Four sequences without neighbours; the answer is a mixture of these.
    assert len(rows) == 4
    assert (apart - sequential_k_subsets(z, 3, -1e3)).abs().max() <= 1e-9
    with pytest.raises(ValueError, match=r"sequential_k_subsets: transition .* k=4"):
        sequential_k_subsets(z, 4, -math.inf)
    assert sequential_k_subsets(z, 4, -math.inf, at_most=True).isfinite().all()


@both_budgets
def test_masked_entry_takes_its_pairs_with_it(at_most: bool):
    z, t = torch.randn(4, 7, dtype=F64), torch.randn(6, dtype=F64).abs() + 1
    mask = torch.tensor([True, True, False, True, True, True, True])
    p = sequential_k_subsets(z, 3, t, at_most=at_most, mask=mask)
    assert (p[:, 2] == 0).all()
    cut = t.clone()
    cut[1] = 0  # the two sides of the gap are neighbours now, but do not notice
    kept = torch.cat([t[:1], torch.zeros(1, dtype=F64), t[3:]])
    assert (p[:, mask] - sequential_k_subsets(z[:, mask], 3, kept, at_most=at_most)).abs().max() <= 1e-14
    assert torch.equal(p, sequential_k_subsets(z.masked_fill(~mask, -math.inf), 3, cut, at_most=at_most))


@both_backends
def test_rows_with_too_few_entries_take_them_all(backend: str):
    z = torch.tensor([[1.0, -math.inf, 0.5, -math.inf], [-math.inf] * 4, [3.0, -2.0, 1.0, 0.0], [math.nan, 0, 0, 0]])
    z.requires_grad_()
    with omegamax.backend(backend):
        p = sequential_k_subsets(z, 3, 0.5)
    assert p[0].tolist() == [1, 0, 1, 0] and p[1].tolist() == [0, 0, 0, 0]
    assert p[2].sum().item() == pytest.approx(3, abs=1e-6) and p[3].isnan().all()
    p[:3].square().sum().backward()
    assert z.grad.isfinite().all() and (z.grad[[0, 1, 3]] == 0).all()


def test_bad_transition_spoils_its_own_row():
    z, t = torch.randn(3, 4, dtype=F64), torch.zeros(3, 3, dtype=F64)
    t[1, 0], t[2, 2] = math.nan, math.inf
    p = sequential_k_subsets(z, 2, t)
    assert p[0].isfinite().all() and p[1:].isnan().all()


@both_budgets
@both_backends
def test_wide_gaps_change_nothing(at_most: bool, backend: str):
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        z, t = torch.randn(6, dtype=F64, generator=generator), torch.randn(5, dtype=F64, generator=generator)
        z[torch.randperm(6, generator=generator)[:2]] += torch.tensor([30.0, -30.0], dtype=F64)
        far = z * torch.where(z.abs() > 20, 1e25, 1.0)
        with omegamax.backend(backend):
            near = sequential_k_subsets(z, 3, t, at_most=at_most)
            assert (sequential_k_subsets(far, 3, t, at_most=at_most) - near).abs().max() <= 1e-14
        assert (near - solve(z, t, 3, at_most)).abs().max() <= 1e-9


def test_scores_without_wide_gaps_are_only_shifted():
    z, t = torch.randn(10, 8, dtype=F64).clamp(-2, 2), torch.randn(10, 7, dtype=F64)
    assert torch.equal(close_gaps(z, t, at_most=True), z)
    assert torch.equal(close_gaps(z, t, at_most=False), z - z.amax(-1, keepdim=True))


@both_budgets
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_derivatives_match_finite_differences(at_most: bool, dim: int):
    generator = torch.Generator().manual_seed(4)
    z = torch.randn(3, 6, dtype=F64, generator=generator)
    t = 0.5 * torch.randn(3, 5, dtype=F64, generator=generator)
    if dim == 0:
        z, t = z.T.contiguous(), t.T.contiguous()
    inputs = (z.requires_grad_(), t.requires_grad_())

    def f(z: Tensor, t: Tensor) -> Tensor:
        return sequential_k_subsets(z, 2, t, dim, at_most=at_most)

    assert gradcheck(
        f, inputs, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True, atol=1e-8
    )
    assert gradgradcheck(f, inputs, atol=1e-8, check_fwd_over_rev=True)


@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (1, 5)], ids=str)
def test_gradient_reaches_every_shape_of_transition(shape: tuple[int, ...]):
    z = torch.randn(3, 6, dtype=F64, generator=torch.Generator().manual_seed(1))
    t = (0.4 + 0.1 * torch.randn(shape, dtype=F64)).requires_grad_()
    assert gradcheck(lambda t: sequential_k_subsets(z, 2, t), t, check_forward_ad=True, atol=1e-8)


def test_transforms_of_torch_func_compose():
    z, t = torch.randn(4, 6, dtype=F64), torch.tensor(0.5, dtype=F64)

    def f(z: Tensor, t: Tensor) -> Tensor:
        return sequential_k_subsets(z, 2, t)

    one = [jacrev(f, argnums=(0, 1)), jacfwd(f, argnums=(0, 1))]
    for a, b in zip(one[0](z[0], t), one[1](z[0], t), strict=True):
        assert (a - b).abs().max() <= 1e-14
    assert (vmap(f, (0, None))(z, t) - f(z, t)).abs().max() <= 1e-14
    each = torch.rand(4, dtype=F64)
    expected = torch.stack([f(row, s) for row, s in zip(z, each, strict=True)])
    assert (vmap(f)(z, each) - expected).abs().max() <= 1e-14
    assert (vmap(f, (None, 0))(z[0], each)[1] - f(z[0], each[1])).abs().max() <= 1e-14
    assert hessian(lambda z: f(z, t).sum())(z[0]).abs().max() == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@both_budgets
def test_compiled_map_equals_eager(at_most: bool):
    torch._dynamo.reset()

    def f(z: Tensor, t: Tensor) -> Tensor:
        return sequential_k_subsets(2 * z, 2, t, at_most=at_most) + 1

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for dtype in (F64, torch.float32):
        z, t = torch.randn(5, 7, dtype=dtype), torch.rand((), dtype=dtype)
        g = torch.randn(5, 7, dtype=dtype)
        results = []
        for run in (compiled, f):
            inputs = (z.clone().requires_grad_(), t.clone().requires_grad_())
            p = run(*inputs)
            results.append((p.detach(), *torch.autograd.grad(p, inputs, g)))
        for ours, theirs in zip(*results, strict=True):
            assert (ours - theirs).abs().max() <= 16 * torch.finfo(dtype).eps
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@both_budgets
@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
def test_operator_passes_the_checks_of_torch_library(at_most: bool, grad: bool):
    z = torch.randn(3, 5, dtype=F64, requires_grad=grad)
    for shape, dim in (((1, 1), 1), ((3, 4), 1), ((2, 5), 0)):
        t = torch.randn(shape, dtype=F64, requires_grad=grad)
        torch.library.opcheck(torch.ops.omegamax.sequential_k_subsets.default, (z, t, 2, at_most, dim))


def test_arguments_of_the_wrong_kind_are_refused():
    z, name = torch.randn(2, 5), "sequential_k_subsets"
    for k in (1.5, "2", None, torch.tensor(2)):
        with pytest.raises(TypeError, match=f"{name}: k must be an integer"):
            sequential_k_subsets(z, k)
    for k in (-1, 6):
        with pytest.raises(ValueError, match=rf"{name}: k must lie in \[0, 5\]"):
            sequential_k_subsets(z, k, 0.5)
    with pytest.raises(TypeError, match=f"{name}: transition must be a number or a tensor, got str"):
        sequential_k_subsets(z, 2, "strong")
    with pytest.raises(TypeError, match=f"{name}: transition must be a number or a floating-point tensor"):
        sequential_k_subsets(z, 2, torch.ones(4, dtype=torch.int64))
    for shape in ((5,), (3, 4), (2, 5), (1, 1, 4)):
        with pytest.raises(ValueError, match=rf"{name}: transition .*\(2, 4\)"):
            sequential_k_subsets(z, 2, torch.ones(shape))
    with pytest.raises(TypeError, match=f"{name}: z must be a floating-point tensor"):
        sequential_k_subsets(z.long(), 2, 0.5)


@both_budgets
def test_every_size_of_budget_works(at_most: bool):
    z = torch.randn(6, 5, dtype=F64)
    for k in range(6):
        p = sequential_k_subsets(z, k, 0.5, at_most=at_most)
        assert (p.sum(-1) <= k + 1e-14).all() and (at_most or (p.sum(-1) - k).abs().max() <= 1e-14)
    assert (
        sequential_k_subsets(z, 9, 0.5, at_most=True) - sequential_k_subsets(z, 5, 0.5, at_most=True)
    ).abs().max() == 0
    one = sequential_k_subsets(torch.tensor([[0.3], [-2.0]], dtype=F64), 1, 0.5, at_most=at_most)
    assert one.flatten().tolist() == pytest.approx([0.3, 0.0] if at_most else [1.0, 1.0], abs=1e-15)


def test_gradient_at_flat_scores_is_that_of_the_whole_face():
    # Without transitions it is k_subsets; the face has more dimensions than the search keeps structures.
    z = (1e-3 * torch.randn(400, dtype=torch.float64)).requires_grad_()
    weights = torch.randn(400, dtype=torch.float64)
    none = torch.tensor(0.0, dtype=torch.float64)  # a tensor: the search, not the threshold
    (given,) = torch.autograd.grad((sequential_k_subsets(z, 130, none) * weights).sum(), z)
    (wanted,) = torch.autograd.grad((omegamax.k_subsets(z, 130) * weights).sum(), z)
    torch.testing.assert_close(given, wanted, atol=1e-9, rtol=0)


@both_budgets
@pytest.mark.parametrize("sign", [-1, 1])
def test_both_backends_agree_for_every_distribution_of_scores(at_most: bool, sign: int):
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randn(6, 12, dtype=F64, generator=generator)
    distributions = (drawn, 0.01 * drawn, 10 * drawn, 1e6 * drawn, (2 * drawn).round(), torch.zeros_like(drawn))
    masked = drawn.masked_fill(drawn > 1, -math.inf)
    masked[5, 3] = math.nan
    g = torch.randn(6, 12, dtype=F64, generator=generator)
    for z, k in itertools.product((*distributions, masked), (0, 1, 4, 12)):
        results = []
        for backend in ("auto", "reference"):
            leaf, t = z.clone().requires_grad_(), torch.tensor(sign * 0.25, dtype=F64, requires_grad=True)
            with omegamax.backend(backend):
                p = sequential_k_subsets(leaf, k, t, at_most=at_most)
            results.append((p.detach(), *torch.autograd.grad(p, (leaf, t), g)))
        for ours, theirs in zip(*results, strict=True):
            assert torch.equal(ours.isnan(), theirs.isnan())
            assert (ours - theirs).nan_to_num().abs().max() <= 1e-9


def test_rows_that_are_searched_and_rows_that_are_not_share_a_batch():
    z = torch.randn(8, 12, dtype=F64, generator=torch.Generator().manual_seed(6))
    z[::2] *= 0.01  # the relaxation of flat scores is not tight
    t = torch.full((8, 11), 0.3, dtype=F64)
    inputs = (z.requires_grad_(), t.requires_grad_())
    assert gradcheck(lambda z, t: sequential_k_subsets(z, 3, t), inputs, check_forward_ad=True, eps=1e-7, atol=1e-7)
    whole = sequential_k_subsets(z, 3, t)
    alone = torch.stack([sequential_k_subsets(row, 3, s) for row, s in zip(z, t, strict=True)])
    assert torch.equal(whole, alone)
