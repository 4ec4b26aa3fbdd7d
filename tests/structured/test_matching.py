"""Matchings: projections onto the assignment polytope against convex programs, enumeration and linear assignment."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev

from omegamax.kernels import backend
from omegamax.kernels.structures import search
from omegamax.kernels.structures.assignment import assign
from omegamax.kernels.structures.birkhoff import decompose
from omegamax.kernels.structures.matching import matching
from omegamax.structured import ConvergenceWarning, Matching, sparsemap, sparsemap_loss

F64 = torch.float64
SHAPES = [(4, 4), (3, 5), (5, 3), (2, 2), (1, 4), (4, 1), (7, 7), (6, 7)]


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def program(scores: Tensor) -> Tensor:
    """The projection by a convex solver."""
    import cvxpy as cp

    n, m = scores.shape
    p = cp.Variable((n, m), nonneg=True)
    rows, columns = cp.sum(p, 1), cp.sum(p, 0)
    sums = [rows == 1 if n <= m else rows <= 1, columns == 1 if m <= n else columns <= 1]
    barred = [p[i, j] == 0 for i, j in (scores == -math.inf).nonzero().tolist()]
    known = torch.where(scores == -math.inf, 0.0, scores)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p - known.numpy())), sums + barred)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says when it stops short of 1e-12; the test measures how short
        problem.solve(solver=cp.CLARABEL, **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12))
    return torch.from_numpy(p.value)


def matchings(n: int, m: int) -> Tensor:
    """All of them, ``[N, n, m]``."""
    if n > m:
        return matchings(m, n).mT
    eye = torch.eye(m, dtype=F64)
    return torch.stack([eye[list(columns)] for columns in itertools.permutations(range(m), n)])


def assert_optimal(scores: Tensor, p: Tensor, slack: float = 1e-12) -> None:
    """No matching has a larger product with the gradient than the projection itself: necessary and sufficient."""
    n, m = p.shape[1:]
    short, long = (p.sum(2), p.sum(1)) if n <= m else (p.sum(1), p.sum(2))
    assert (p >= 0).all() and (p[scores == -math.inf] == 0).all()
    assert (short - 1).abs().max() <= slack and (long - 1).max() <= slack
    gradient = torch.where(scores == -math.inf, -math.inf, scores - p)
    known = torch.where(scores == -math.inf, 0.0, gradient)
    gap = best(gradient, known) - (known * p).sum((1, 2))
    assert (gap <= slack * n * (1 + known.abs().amax((1, 2)))).all()


def best(scores: Tensor, known: Tensor) -> Tensor:
    """Largest product with a matching, by scipy."""
    from scipy.optimize import linear_sum_assignment

    totals = []
    for cost, value in zip(-scores.numpy(), known.numpy(), strict=True):
        i, j = linear_sum_assignment(cost)
        totals.append(value[i, j].sum())
    return torch.tensor(totals, dtype=F64)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_marginals_agree_with_a_convex_program(shape: tuple[int, int], scale: float):
    scores = draw(2, *shape, seed=sum(shape), scale=scale)
    p = sparsemap(scores, Matching())
    for s, q in zip(scores, p, strict=True):
        assert (q - program(s)).abs().max() <= 1e-6
    assert_optimal(scores, p)


@pytest.mark.parametrize("shape", [(4, 4), (3, 4), (4, 2)], ids=str)
def test_marginals_agree_with_the_active_set_over_all_matchings(shape: tuple[int, int]):
    every = matchings(*shape).flatten(1)

    def oracle(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
        return every[(scores @ every.T).argmax(1)], additional

    scores = draw(20, *shape, seed=3)
    found = search(oracle, scores.flatten(1), scores.new_zeros(20, 0), None, 1e-13, 500)
    marginals = (found.weights[:, None] @ found.unary)[:, 0].unflatten(1, shape)
    assert (sparsemap(scores, Matching()) - marginals).abs().max() <= 1e-12


INDEX = torch.arange(12, dtype=F64)
CASES = {
    "gaussian": draw(30, 12, 12),
    "wide": draw(30, 8, 12),
    "tall": draw(30, 12, 9),
    "nearly flat": draw(5, 12, 12, scale=1e-3),
    "flat": torch.zeros(2, 12, 12, dtype=F64),
    "flat and wide": torch.zeros(2, 5, 12, dtype=F64),
    "large": draw(30, 12, 12, scale=30.0),
    "very large": draw(30, 12, 12, scale=1e6),
    "very large and wide": draw(30, 11, 12, scale=1e6),
    "integers": draw(30, 12, 12, scale=3.0).round(),
    "integers, wide": draw(30, 9, 12, scale=3.0).round(),
    "rank one": 3 * draw(10, 12, 1) * draw(10, 1, 12, seed=1),
    "sums": 100 * (draw(10, 12, 1) + draw(10, 1, 12, seed=1)) + draw(10, 12, 12, seed=2),
    "band": -(INDEX[:, None] - INDEX).square() * torch.tensor([0.01, 0.1, 1.0], dtype=F64)[:, None, None],
    "equal rows": torch.cat([draw(10, 1, 12, scale=5.0).expand(10, 6, 12), draw(10, 6, 12, seed=1)], 1),
    "around a permutation": 5 * torch.eye(12, dtype=F64) + draw(30, 12, 12, scale=2.0),
    "heavy tails": draw(20, 12, 12) / draw(20, 12, 12, seed=1).abs(),
    "columns of two sizes": torch.cat([draw(10, 12, 6, scale=1e8), draw(10, 12, 6, seed=1)], 2),
    "triangular": draw(10, 12, 12).masked_fill(torch.ones(12, 12).triu(1).bool(), -math.inf),
    "almost triangular": draw(10, 12, 12).masked_fill(torch.ones(12, 12).triu(2).bool(), -math.inf),
    "forbidden": draw(20, 12, 12).masked_fill((draw(20, 12, 12, seed=9) < 0.3) & ~torch.eye(12).bool(), -math.inf),
    "forbidden and wide": draw(20, 9, 12).masked_fill(
        (draw(20, 9, 12, seed=9) < 0.3) & ~torch.eye(9, 12).bool(), -math.inf
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_marginals_are_optimal(case: str):
    scores = CASES[case]
    largest = scores[scores.isfinite()].abs().max().item()
    assert_optimal(scores, sparsemap(scores, Matching()), 1e-12 + 1e-15 * largest)


@pytest.mark.parametrize("case", CASES)
def test_few_steps_are_needed(case: str):
    scores = CASES[case] if CASES[case].shape[1] <= CASES[case].shape[2] else CASES[case].mT.contiguous()
    plan = matching(scores, None, None, 1e-13, 60)
    assert plan.residual.max() <= 1e-13 and plan.iterations.max() <= 40


@pytest.mark.parametrize("shape", [(5, 5), (3, 5), (5, 3)], ids=str)
@pytest.mark.parametrize("size", [1e15, 1e30, 1e300, 4e307])
def test_huge_scores_give_the_best_matching(shape: tuple[int, int], size: float):
    scores = draw(10, *shape, seed=5).clamp(-3, 3) / 3 * size
    p = sparsemap(scores, Matching())
    assert (p - Matching().maximize(scores, None)).abs().max() <= 1e-15
    tied = torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 0.0]], dtype=F64) * size
    expected = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=F64)
    assert (sparsemap(tied, Matching()) - expected).abs().max() <= 1e-15


def test_constants_of_rows_and_columns_change_nothing():
    scores = draw(10, 6, 6)
    shifted = scores + draw(10, 6, 1, seed=1) + draw(10, 1, 6, seed=2)
    assert (sparsemap(shifted, Matching()) - sparsemap(scores, Matching())).abs().max() <= 1e-12
    wide = draw(10, 4, 6)
    assert (sparsemap(wide + draw(10, 4, 1), Matching()) - sparsemap(wide, Matching())).abs().max() <= 1e-12


def test_transposed_scores_give_transposed_marginals():
    for shape in ((5, 5), (4, 6)):
        scores = draw(10, *shape)
        assert (sparsemap(scores.mT, Matching()).mT - sparsemap(scores, Matching())).abs().max() <= 1e-13


def test_one_row_is_sparsemax_and_one_entry_is_one():
    from omegamax import sparsemax

    row = draw(20, 1, 6)
    assert (sparsemap(row, Matching()) - sparsemax(row)).abs().max() <= 1e-15
    assert (sparsemap(row.mT, Matching()) - sparsemax(row).mT).abs().max() <= 1e-15
    assert (sparsemap(1e20 * draw(3, 1, 1), Matching()) == 1).all()


def generic(shape: tuple[int, int], seed: int = 0, scale: float = 1.0) -> Tensor:
    """Scores whose support, and full columns, do not change nearby."""
    for attempt in itertools.count(seed):
        scores = draw(*shape, seed=attempt, scale=scale)
        nudged = scores + 2e-3 * draw(8, *shape, seed=attempt + 1)
        p = sparsemap(torch.cat([scores[None], nudged]), Matching())
        full = torch.cat([p.sum(1), p.sum(2)], 1) > 1 - 1e-9
        if ((p > 0) == (p[0] > 0)).all() and (full == full[0]).all():
            return scores
    raise AssertionError


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1, 4)], ids=str)
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_first_derivative_matches_finite_differences(shape: tuple[int, int], scale: float):
    scores = generic(shape, 0, scale).requires_grad_()
    assert gradcheck(lambda s: sparsemap(s, Matching()), scores, atol=1e-8, check_forward_ad=True)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4)], ids=str)
def test_second_derivative_matches_finite_differences(shape: tuple[int, int]):
    scores = generic(shape, 100).requires_grad_()
    assert gradgradcheck(lambda s: sparsemap(s, Matching()), scores, atol=1e-8)


def test_jacobian_is_the_projection_onto_the_face():
    scores = generic((5, 5), 7)
    jacobian = jacrev(lambda s: sparsemap(s, Matching()))(scores).reshape(25, 25)
    assert (jacobian - jacobian.T).abs().max() <= 1e-13
    assert (jacobian @ jacobian - jacobian).abs().max() <= 1e-12
    assert (jacfwd(lambda s: sparsemap(s, Matching()))(scores).reshape(25, 25) - jacobian).abs().max() <= 1e-14
    p = sparsemap(scores, Matching())
    free = int((p > 0).sum())
    assert abs(jacobian.trace().item() - round(jacobian.trace().item())) <= 1e-12
    assert jacobian.trace() <= free - 5


def test_batches_of_any_shape_and_layout_agree():
    scores = draw(2, 3, 4, 5)
    p = sparsemap(scores, Matching())
    assert p.shape == scores.shape
    assert (sparsemap(scores[1, 2], Matching()) - p[1, 2]).abs().max() <= 1e-14
    assert (sparsemap(scores.mT.contiguous().mT, Matching()) - p).abs().max() <= 1e-14
    assert sparsemap(scores[:0], Matching()).shape == (0, 3, 4, 5)


def test_flat_and_tied_scores_have_finite_gradients():
    for scores in (torch.zeros(4, 4, dtype=F64), torch.eye(4, dtype=F64), draw(4, 4).round()):
        leaf = scores.requires_grad_()
        (grad,) = torch.autograd.grad(sparsemap(leaf, Matching()), leaf, draw(4, 4))
        assert grad.isfinite().all() and grad.sum(0).abs().max() <= 1e-12 and grad.sum(1).abs().max() <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lower_precision_is_one_rounding_of_the_exact_marginals(dtype: torch.dtype):
    scores = draw(10, 6, 6).to(dtype).requires_grad_()
    p = sparsemap(scores, Matching())
    assert torch.equal(p, sparsemap(scores.double(), Matching()).to(dtype))
    (grad,) = torch.autograd.grad(p.sum(), scores)
    assert grad.dtype == dtype


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_entry_spoils_its_own_matrix_only(bad: float):
    scores = draw(3, 4, 5)
    clean = sparsemap(scores, Matching())
    scores[1, 2, 3] = bad
    scores.requires_grad_()
    p, found = sparsemap(scores, Matching(), return_structures=True)
    assert p[1].isnan().all() and torch.equal(p[[0, 2]], clean[[0, 2]])
    assert found.probabilities[1].isnan().all() and (found.count > 0).tolist() == [True, False, True]
    (grad,) = torch.autograd.grad(p[[0, 2]].square().sum(), scores)
    assert grad[[0, 2]].isfinite().all()


def test_scores_that_leave_no_matching_are_refused():
    scores = draw(3, 4, 4)
    scores[1, :, 2] = -math.inf
    with pytest.raises(ValueError, match=r"sparsemap: .*scores leave no matching in row 1"):
        sparsemap(scores, Matching())
    scores = draw(3, 4)
    scores[:2, 1:] = -math.inf  # both rows want the one column that is left to them
    with pytest.raises(ValueError, match=r"scores leave no matching in row 0"):
        sparsemap(scores, Matching())
    with pytest.raises(ValueError, match=r"Matching\(\) need 2 trailing axes"):
        sparsemap(draw(4), Matching())
    with pytest.raises(ValueError, match=r"additional"):
        sparsemap(draw(4, 4), Matching(), draw(3))


def test_forbidden_entries_get_nothing_and_the_others_what_a_convex_program_says():
    scores = draw(6, 6, seed=2)
    scores[0, :3] = scores[4, 5] = scores[2:4, 1] = -math.inf
    scores.requires_grad_()
    p = sparsemap(scores, Matching())
    assert (p - program(scores.detach())).abs().max() <= 1e-6
    (grad,) = torch.autograd.grad(p, scores, draw(6, 6))
    assert (p[0, :3] == 0).all() and (grad[0, :3] == 0).all() and grad.isfinite().all()


def test_masked_rows_and_columns_are_absent():
    scores = draw(4, 6, 6)
    mask = torch.ones(4, 6, 6, dtype=torch.bool)
    mask[1, 4:] = mask[1, :, 4:] = False
    mask[2, [0, 3]] = False
    mask[2, :, [1, 5]] = False
    mask[3, 1, 2] = False
    p, found = sparsemap(scores, Matching(), return_structures=True, mask=mask)
    assert (p[~mask] == 0).all() and (found.structures[~mask[:, None].expand_as(found.structures)] == 0).all()
    assert (p[0] - sparsemap(scores[0], Matching())).abs().max() <= 1e-13
    assert (p[1, :4, :4] - sparsemap(scores[1, :4, :4], Matching())).abs().max() <= 1e-13
    rows, columns = torch.tensor([1, 2, 4, 5])[:, None], torch.tensor([0, 2, 3, 4])
    assert (p[2, rows, columns] - sparsemap(scores[2, rows, columns], Matching())).abs().max() <= 1e-13
    mixed = (found.probabilities[..., None, None] * found.structures).sum(1)
    assert (mixed - p).abs().max() <= 1e-13


def test_masked_parts_of_rectangles_are_absent():
    for turn in (False, True):
        scores = draw(3, 4, 7).mT if turn else draw(3, 4, 7)
        mask = torch.ones_like(scores, dtype=torch.bool)
        side, other = (mask.mT, scores.mT) if turn else (mask, scores)
        side[1, 3:] = side[1, :, 5:] = False
        side[2, :, 4:] = False
        p = sparsemap(scores, Matching(), mask=mask)
        p = p.mT if turn else p
        assert (p[1, :3, :5] - sparsemap(other[1, :3, :5], Matching())).abs().max() <= 1e-13
        assert (p[2, :, :4] - sparsemap(other[2, :, :4], Matching())).abs().max() <= 1e-13


def test_mask_that_leaves_unequal_sides_is_refused():
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[3:] = False
    with pytest.raises(ValueError, match=r"sparsemap: mask must take as many columns as rows .* 2 rows and 0 columns"):
        sparsemap(draw(5, 5), Matching(), mask=mask)
    with pytest.raises(ValueError, match=r"mask must take as many .* 0 rows and 3 columns"):
        sparsemap(draw(4, 6), Matching(), mask=torch.arange(6) < 3)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (8, 8), (1, 3)], ids=str)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_structures_are_matchings_that_reproduce_the_marginals(shape: tuple[int, int], scale: float):
    scores = draw(6, *shape, seed=4, scale=scale)
    p, found = sparsemap(scores, Matching(), return_structures=True)
    n, m = shape
    mixed = (found.probabilities[..., None, None] * found.structures).sum(1)
    assert (mixed - p).abs().max() <= 1e-13
    assert ((found.probabilities > 0).sum(1) == found.count).all()
    for row, count in zip(found.structures, found.count, strict=True):
        used = row[:count]
        assert ((used == 0) | (used == 1)).all() and (row[count:] == 0).all()
        assert (used.sum((1, 2)) == min(n, m)).all() and used.sum(1).max() <= 1 and used.sum(2).max() <= 1
        # Affinely independent: probabilities that are determined, and have derivatives.
        assert torch.linalg.matrix_rank((used - used[:1]).flatten(1)) == count - 1


def test_flat_scores_mix_as_few_matchings_as_there_are_rows():
    p, found = sparsemap(torch.zeros(6, 6, dtype=F64), Matching(), return_structures=True)
    assert (p == p[0, 0]).all() and found.count == 6 and (found.probabilities - 1 / 6).abs().max() <= 1e-15


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)], ids=str)
def test_gradients_pass_through_probabilities(shape: tuple[int, int]):
    scores = generic(shape, 20).requires_grad_()

    def probabilities(s: Tensor) -> Tensor:
        return sparsemap(s, Matching(), return_structures=True)[1].probabilities

    assert gradcheck(probabilities, scores, atol=1e-8)
    p, found = sparsemap(scores, Matching(), return_structures=True)
    mixed = (found.probabilities[:, None, None] * found.structures).sum(0)
    g = draw(*shape)
    through = [torch.autograd.grad(q, scores, g, retain_graph=True)[0] for q in (p, mixed)]
    assert (through[0] - through[1]).abs().max() <= 1e-12


def test_warm_start_finds_the_same_in_fewer_steps():
    for shape in ((10, 10), (7, 10), (10, 7)):
        scores = draw(20, *shape, scale=3.0)
        cold = Matching().solve(scores)
        near = scores + 1e-3 * draw(20, *shape, seed=1)
        warm = Matching().solve(near, start=cold.potentials)
        assert (warm.marginals - Matching().solve(near).marginals).abs().max() <= 1e-12
        again = Matching().solve(near, structures=True, start=warm.potentials).active
        assert again is not None and again.iterations.max() <= 1


def test_iteration_limit_warns_with_the_residual():
    scores = draw(4, 20, 20, scale=10.0)
    with pytest.warns(
        ConvergenceWarning, match=r"Matching\(\): \d of 4 problems stopped after 1 steps; .* by up to \d"
    ):
        p = sparsemap(scores, Matching(), max_iter=1)
    assert p.isfinite().all()


def test_reference_kernels_agree():
    scores = draw(5, 6, 6)
    with backend("reference"):
        p = sparsemap(scores, Matching())
    assert (p - sparsemap(scores, Matching())).abs().max() <= 1e-13


def test_loss_vanishes_at_the_margin_of_a_matching():
    target = torch.eye(5, dtype=F64)[torch.tensor([2, 0, 1, 4, 3])]
    assert sparsemap_loss(1.0 * target, target, Matching()) == 0
    scores = draw(5, 5).requires_grad_()
    loss = sparsemap_loss(scores, target, Matching())
    assert loss > 0
    (grad,) = torch.autograd.grad(loss, scores)
    assert (grad - (sparsemap(scores, Matching()) - target)).abs().max() <= 1e-13


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 3), (5, 8), (12, 12)], ids=str)
@pytest.mark.parametrize("kind", ["gaussian", "whole", "huge", "forbidden"])
def test_assignment_agrees_with_scipy_and_proves_itself(shape: tuple[int, int], kind: str):
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(sum(shape))
    scores = rng.normal(size=(16, *shape))
    if kind == "whole":
        scores = np.round(2 * scores)
    elif kind == "huge":
        scores = 1e30 * scores
    elif kind == "forbidden":
        scores[rng.random(scores.shape) < 0.5] = -np.inf
    found = assign(scores)
    place = np.arange(shape[0])
    for matrix, choice, rows, columns, feasible in zip(
        scores, found.choice, found.rows, found.columns, found.feasible, strict=True
    ):
        assert len(set(choice.tolist())) == shape[0]
        try:
            i, j = linear_sum_assignment(-matrix)
        except ValueError:
            assert not feasible
            continue
        size = 1 + np.abs(matrix[np.isfinite(matrix)]).max()
        assert feasible and abs(matrix[place, choice].sum() - matrix[i, j].sum()) <= 1e-14 * size
        slack = rows[:, None] + columns - matrix
        assert slack.min() >= -1e-13 * size and np.abs(slack[place, choice]).max() <= 1e-13 * size
        if shape[0] < shape[1]:
            assert columns.min() >= 0 and (np.delete(columns, choice) == 0).all()


def test_maximize_returns_the_best_matching_of_either_shape():
    for shape in ((4, 4), (3, 4), (4, 3)):
        scores = draw(10, *shape)
        chosen = Matching().maximize(scores, None)
        every = matchings(*shape)
        assert ((chosen * scores).sum((1, 2)) - torch.einsum("bij,kij->bk", scores, every).amax(1)).abs().max() <= 1e-14
        assert Matching().features(chosen) == (chosen, None)
        assert Matching().maximize(scores.float(), None).dtype == torch.float32
    for bad in (math.nan, math.inf, -math.inf):
        chosen = Matching().maximize(torch.full((1, 3, 3), bad), None)
        assert (chosen.sum(1) == 1).all() and (chosen.sum(2) == 1).all()


def test_decomposition_of_nothing_is_empty():
    choice, weights, count = decompose(np.full((2, 3, 3), np.nan))
    assert choice.shape == (2, 0, 3) and weights.shape == (2, 0) and (count == 0).all()
