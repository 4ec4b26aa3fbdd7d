"""The search itself: warm starts, limits, what it keeps, and the solution that factors hand on."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omegamax import kernels
from omegamax.kernels.structures import TOLERANCE, ActiveSet, iteration_limit, search
from omegamax.structured import DependencyTree, Factor, SequentialSubsets, Subsets
from omegamax.structured._solution import ActiveSolution, SparseMAPCall
from structured.cases import F64, Case, some_cases

both_backends = pytest.mark.parametrize("backend", ["reference", "auto"])


@some_cases
@both_backends
def test_warm_start_from_the_answer_takes_one_pass(case: Case, backend: str):
    scores, additional = case.draw(20, 0.5)
    with kernels.backend(backend):
        cold = case.factor.solve(scores, additional, structures=True)
        warm = case.factor.solve(scores, additional, structures=True, start=cold.active)
    assert warm.active.iterations.max() <= 1
    assert (warm.marginals - cold.marginals).abs().max() <= 1e-14


@some_cases
@both_backends
def test_warm_start_from_elsewhere_reaches_the_same_solution(case: Case, backend: str):
    scores, additional = case.draw(20)
    others, more = case.draw(20, 3.0, seed=9)
    others[3:6] = -others[3:6]
    with kernels.backend(backend):
        far = case.factor.solve(others, more, structures=True).active
        cold = case.factor.solve(scores, additional, structures=True)
        warm = case.factor.solve(scores, additional, structures=True, start=far)
    assert (warm.marginals - cold.marginals).abs().max() <= 1e-12


@some_cases
@both_backends
def test_warm_start_saves_passes_along_a_path(case: Case, backend: str):
    scores, additional = case.draw(20, 0.3)
    with kernels.backend(backend):
        before = case.factor.solve(scores, additional, structures=True).active
        nudged = scores + 1e-3 * torch.randn(scores.shape, dtype=F64)
        cold = case.factor.solve(nudged, additional, structures=True)
        warm = case.factor.solve(nudged, additional, structures=True, start=before)
    assert (warm.marginals - cold.marginals).abs().max() <= 1e-12
    assert warm.active.iterations.sum() < cold.active.iterations.sum()


@both_backends
def test_warm_start_that_is_forbidden_now_is_dropped(backend: str):
    factor = SequentialSubsets(2, 0.5)
    scores = torch.randn(5, 6, dtype=F64)
    with kernels.backend(backend):
        start = factor.solve(scores).active
        scores[:, 2] = -math.inf
        scores[2, 0] = math.nan
        cold, warm = factor.solve(scores), factor.solve(scores, start=start)
        again = factor.solve(torch.zeros(5, 6, dtype=F64), start=warm.active)  # a row of which is empty
    assert warm.marginals[2].isnan().all() and cold.marginals[2].isnan().all()
    rest = [0, 1, 3, 4]
    assert (warm.marginals[rest] - cold.marginals[rest]).abs().max() <= 1e-14
    assert again.marginals.isfinite().all()


@some_cases
@both_backends
def test_search_reports_what_it_did(case: Case, backend: str):
    scores, additional = case.draw(6)
    with kernels.backend(backend):
        active = case.factor.solve(scores, additional, structures=True).active
    assert active.count.dtype == torch.int64 and active.iterations.dtype == torch.int64
    assert (active.iterations < iteration_limit(scores[0].numel())).all()
    assert (active.residual >= 0).all() and active.residual.max() <= 1e-12
    with kernels.backend(backend):
        cut = case.factor.solve(0.1 * scores, additional, structures=True, max_iter=1).active
    late = cut.iterations == 1
    assert late.any() and (cut.residual[late] > 0).all()
    assert (cut.weights.sum(-1) - 1).abs().max() <= 1e-14


@some_cases
def test_jacobian_product_is_the_derivative(case: Case):
    scores, additional = case.draw(5, 0.7, seed=6)
    solution = case.factor.solve(scores, additional, structures=True)
    step = 1e-6
    d_scores, d_additional = case.draw(5, seed=7)
    moved = case.factor.solve(
        scores + step * d_scores, None if additional is None else additional + step * d_additional, structures=True
    )
    du, dv = solution.jvp(d_scores, d_additional)
    smooth = (solution.active.count == moved.active.count).nonzero()[:, 0]
    assert len(smooth) >= 3
    assert ((moved.marginals - solution.marginals) / step - du)[smooth].abs().max() <= 1e-8
    if additional is not None:
        change = (moved.additional_marginals - solution.additional_marginals) / step
        assert (change - dv)[smooth].abs().max() <= 1e-8
        # Symmetric as a whole: <J a, b> = <a, J b>.
        other, more = case.draw(5, seed=8)
        eu, ev = solution.jvp(other, more)
        left = (du * other).flatten(1).sum(-1) + (dv * more).sum(-1)
        right = (eu * d_scores).flatten(1).sum(-1) + (ev * d_additional).sum(-1)
        assert (left - right).abs().max() <= 1e-12


class Dependent(Factor):
    """All pairs out of four, where the additional scores, not the unary ones, tell {01, 23} from {02, 13}."""

    pairs = torch.tensor(
        [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]], dtype=F64
    )

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        return (scores @ self.pairs.T + additional).argmax(-1)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.pairs[structures], torch.nn.functional.one_hot(structures, 6)


def test_structures_that_only_additional_scores_tell_apart_replace_each_other():
    # The marginals 1/2 can be had in three ways, of which one has the best additional score.
    extra = torch.tensor([[0.0, 0.0, 0.02, 0.02, 0.01, 0.01]], dtype=F64)
    scores = torch.zeros(1, 4, dtype=F64)
    best = Dependent().solve(scores, extra)
    assert (best.marginals - 0.5).abs().max() <= 1e-14
    assert (best.additional_marginals - torch.tensor([0, 0, 0.5, 0.5, 0, 0], dtype=F64)).abs().max() <= 1e-14
    worst = Dependent().solve(scores, -extra, start=best.active)
    assert (worst.marginals - 0.5).abs().max() <= 1e-14
    assert (worst.additional_marginals - torch.tensor([0.5, 0.5, 0, 0, 0, 0], dtype=F64)).abs().max() <= 1e-14


def test_oracle_that_misleads_does_not_hang():
    # It names a structure at random, optimal or not: the search ends, by convergence or by its limit.
    generator = torch.Generator().manual_seed(0)

    def oracle(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
        return (torch.rand(scores.shape, generator=generator) < 0.5).to(F64), additional

    active = search(oracle, torch.randn(10, 6, dtype=F64), torch.zeros(10, 0, dtype=F64), None, TOLERANCE, 50)
    assert (active.iterations <= 50).all() and (active.weights.sum(-1) - 1).abs().max() <= 1e-14
    assert (active.weights >= 0).all()


@both_backends
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12, 1e100, 1e300])
def test_search_ends_at_every_scale(backend: str, scale: float):
    for factor, shape in ((SequentialSubsets(3, 0.5 * scale), (6, 12)), (DependencyTree(), (4, 7, 7))):
        scores = scale * torch.randn(shape, dtype=F64)
        with kernels.backend(backend):
            solution = factor.solve(scores)
            rounded = factor.solve((scores / scale).round() * scale)
        assert solution.marginals.isfinite().all() and rounded.marginals.isfinite().all()


@both_backends
def test_scores_apart_by_orders_of_magnitude_leave_the_rest_exact(backend: str):
    rest = torch.tensor([0.25, 0.0, 0.5, -0.125, 0.375], dtype=F64)
    for lead in (1e2, 1e8, 1e30, 1e300):
        for at_most in (False, True):
            factor = SequentialSubsets(3, 0.75, at_most)
            with kernels.backend(backend):
                far = factor.solve(torch.cat([torch.tensor([lead], dtype=F64), rest, torch.tensor([-lead])])[None])
                near = factor.solve(torch.cat([torch.tensor([20.0], dtype=F64), rest, torch.tensor([-20.0])])[None])
            assert (far.marginals - near.marginals).abs().max() <= 1e-15


def test_solution_without_structures_is_a_solution():
    scores = torch.randn(3, 5, dtype=F64, requires_grad=True)
    call = SparseMAPCall(Subsets(2).solve)
    u, v, weights = call(scores, None)
    assert call.solution.active is None and call.solution.additional_marginals is None
    assert v.shape == (3, 0) and weights.shape == (3, 0)
    assert u.requires_grad and not call.solution.marginals.requires_grad


def test_empty_sets_have_no_marginals_but_nan():
    zero = torch.zeros(2, 0, dtype=F64)
    none = ActiveSet(
        zero[..., None].expand(2, 0, 3),
        zero[..., None].expand(2, 0, 0),
        zero,
        zero.sum(-1).long(),
        zero.sum(-1).long(),
        torch.full((2,), math.nan, dtype=F64),
    )
    solution = ActiveSolution(none, (3,))
    assert solution.marginals.shape == (2, 3) and solution.marginals.isnan().all()
    du, _ = solution.jvp(torch.randn(2, 3, dtype=F64))
    assert (du == 0).all()
