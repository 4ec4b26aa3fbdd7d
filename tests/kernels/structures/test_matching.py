"""The compiled projection onto the assignment polytope: proved by its potentials, and like its plain twin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax.kernels import _dispatch, _library
from omegamax.kernels.structures import TOLERANCE, TransportPlan
from omegamax.kernels.structures import cpu as compiled
from omegamax.kernels.structures import reference as plain
from omegamax.structured import Budget, FactorGraph, Matching, StructuredOmega, sparsemap, sparsemap_loss

F64 = torch.float64
EPS = torch.finfo(F64).eps
SHAPES = [(1, 1), (1, 5), (2, 2), (3, 7), (6, 6), (9, 10), (20, 20), (33, 40)]
DISTRIBUTIONS = {
    "normal": lambda s: s,
    "flat": lambda s: 1e-3 * s,
    "equal": torch.zeros_like,
    "peaked": lambda s: 20 * s,
    "beyond the range": lambda s: 1e3 * s,
    "large": lambda s: 1e8 * s,
    "ties": lambda s: (2 * s).round() / 2,
    "equal rows": lambda s: s[:, :1].expand_as(s),
    "equal columns": lambda s: s[:, :, :1].expand_as(s),
    "heavy tails": lambda s: s / (s.roll(1, 0).abs() + 1e-3),
    "forbidden": lambda s: s.masked_fill((s > 0.8) & ~torch.eye(*s.shape[1:]).bool(), -math.inf),
    "sparse": lambda s: s.masked_fill((s > -0.5) & ~torch.eye(*s.shape[1:]).bool(), -math.inf),
}
KERNELS = pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])

pytestmark = pytest.mark.skipif(
    not _library.is_available("structures"), reason="omegamax was installed without compiled kernels"
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def project(kernels, scores: Tensor, rows: Tensor | None = None, columns: Tensor | None = None) -> TransportPlan:
    return kernels.matching(scores, rows, columns, TOLERANCE, 500)


def assert_proved(scores: Tensor, plan: TransportPlan) -> None:
    """Potentials and marginals satisfy the conditions of optimality, each to rounding: so these are the solution."""
    p, (n, m) = plan.marginals, scores.shape[1:]
    size = torch.where(scores.isfinite(), scores, 0.0).abs().amax((1, 2), keepdim=True)
    rounding = 8 * EPS * size + 32 * EPS
    assert ((p - (scores - plan.rows - plan.columns).clamp(min=0)).abs() <= rounding).all()
    assert (p.sum(2) - 1).abs().max() <= 4e-14 and (p.sum(1) - 1).max() <= 4e-14
    assert (plan.residual <= TOLERANCE).all()
    if n < m:
        assert (plan.columns >= -8 * EPS).all()
        assert ((p.sum(1) - 1)[plan.columns[:, 0] > rounding[:, 0].expand(-1, m)].abs() <= 4e-14).all()


@KERNELS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_potentials_prove_the_projection(kernels, distribution: str, shape: tuple[int, int]):
    scores = DISTRIBUTIONS[distribution](draw(12, *shape, seed=sum(shape)))
    plan = project(kernels, scores)
    assert_proved(scores, plan)
    assert plan.iterations.max() <= 40


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_compiled_and_plain_agree(distribution: str, shape: tuple[int, int]):
    scores = DISTRIBUTIONS[distribution](draw(12, *shape, seed=sum(shape)))
    found, wanted = project(compiled, scores), project(plain, scores)
    largest = scores[scores.isfinite()].abs().max()
    assert (found.marginals - wanted.marginals).abs().max() <= 1e-13 + 8 * EPS * largest
    g, full = draw(12, *shape, seed=1), torch.ones(12, 1, shape[1], dtype=torch.bool)
    for tight in (full, found.columns > 0, full & False):
        support = found.marginals > 0
        change = compiled.matching_vjp(g, support, tight)
        assert (change - plain.matching_vjp(g, support, tight)).abs().max() <= 1e-12
        assert (change[~support] == 0).all() and change.sum(2).abs().max() <= 1e-13
        assert change.sum(1)[tight[:, 0]].abs().max() <= 1e-12 if tight.any() else True


def test_projection_is_what_a_convex_program_says():
    import cvxpy as cp

    for n, m in ((4, 4), (3, 6), (7, 7)):
        scores = draw(1, n, m, seed=n)[0]
        p = cp.Variable((n, m), nonneg=True)
        sums = [cp.sum(p, 1) == 1, cp.sum(p, 0) == 1 if n == m else cp.sum(p, 0) <= 1]
        cp.Problem(cp.Minimize(cp.sum_squares(p - scores.numpy())), sums).solve(
            solver=cp.OSQP, eps_abs=1e-11, eps_rel=1e-11, max_iter=1_000_000, polishing=True
        )
        assert (project(compiled, scores[None]).marginals[0] - torch.from_numpy(p.value)).abs().max() <= 1e-9


@KERNELS
@pytest.mark.parametrize("shape", [(4, 4), (3, 5)], ids=str)
def test_matrices_without_a_matching_are_told(kernels, shape: tuple[int, int]):
    scores = draw(5, *shape)
    scores[1] = -math.inf
    scores[3, :2, 1:] = -math.inf  # both rows want the one column that is left to them
    plan = project(kernels, scores)
    lost = torch.tensor([False, True, False, True, False])
    assert torch.equal(plan.residual.isinf(), lost) and plan.marginals[lost].isnan().all()
    assert_proved(scores[~lost], TransportPlan(*(part[~lost] for part in plan)))
    assert (plan.iterations[lost] == 0).all()


@KERNELS
def test_start_at_the_solution_takes_no_steps(kernels):
    for shape in ((8, 8), (6, 9)):
        scores = 3 * draw(10, *shape)
        cold = project(kernels, scores)
        given = cold.rows.clone(), cold.columns.clone()
        warm = project(kernels, scores, *given)
        assert warm.iterations.max() == 0 and (warm.marginals - cold.marginals).abs().max() <= 1e-14
        assert torch.equal(given[0], cold.rows) and torch.equal(given[1], cold.columns)  # as they were
        far = project(kernels, scores, 5 * draw(10, shape[0], 1, seed=1), 5 * draw(10, 1, shape[1], seed=2))
        assert_proved(scores, far)
        assert (far.marginals - cold.marginals).abs().max() <= 1e-12


@KERNELS
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 4)], ids=str)
def test_start_anywhere_leads_to_the_solution(kernels, shape: tuple[int, int]):
    # Two rows that begin in the same column and swap it for the other one, again and again, gain next to nothing.
    for scale in (1e-3, 0.1, 1.0):
        scores = scale * draw(2000, *shape)
        plan = project(kernels, scores, draw(2000, shape[0], 1, seed=1), draw(2000, 1, shape[1], seed=2))
        assert_proved(scores, plan)
        assert plan.iterations.max() <= 12


@pytest.mark.parametrize("shape", [(300, 300), (200, 500)], ids=str)
def test_long_rows_keep_their_digits(shape: tuple[int, int]):
    for scores in (draw(1, *shape), 1e-4 * draw(1, *shape), torch.zeros(1, *shape, dtype=F64)):
        assert_proved(scores, project(compiled, scores))


def test_few_steps_leave_what_they_found():
    scores = 10 * draw(4, 20, 20)
    for kernels in (compiled, plain):
        plan = kernels.matching(scores, None, None, TOLERANCE, 1)
        assert plan.iterations.max() <= 2 and plan.residual.max() > 1e-3 and plan.marginals.isfinite().all()


def test_threads_change_nothing():
    scores, before = draw(37, 12, 12), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = project(compiled, scores)
        torch.set_num_threads(3)
        together = project(compiled, scores)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_memory_is_not_read_by_wrong_sizes():
    scores, support = draw(2, 3, 4), torch.ones(2, 3, 4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"no more rows than columns, got shape \(2, 4, 3\)"):
        project(compiled, scores.mT)
    with pytest.raises(ValueError, match=r"scores must be torch.float64 .* got torch.float32"):
        project(compiled, scores.float())
    with pytest.raises(ValueError, match=r"rows must be torch.float64 of shape \(2, 3, 1\), got .* \(2, 4, 1\)"):
        project(compiled, scores, draw(2, 4, 1), draw(2, 1, 4))
    with pytest.raises(ValueError, match=r"full must be torch.bool of shape \(2, 1, 4\)"):
        compiled.matching_vjp(scores, support, support)
    assert project(compiled, scores[:0]).marginals.shape == (0, 3, 4)
    assert torch.equal(
        project(compiled, draw(2, 4, 3).mT).marginals, project(compiled, draw(2, 4, 3).mT.contiguous()).marginals
    )


def test_derivatives_of_plain_tensors_are_those_inside_transforms():
    for shape in ((5, 5), (3, 6), (6, 4)):
        scores, g = draw(2, *shape).requires_grad_(), draw(2, *shape, seed=1)
        (grad,) = torch.autograd.grad(sparsemap(scores, Matching()), scores, g)
        _, vjp = torch.func.vjp(lambda s: sparsemap(s, Matching()), scores.detach())
        assert (torch.func.vmap(vjp)(g[None])[0][0] - grad).abs().max() <= 1e-13
        with omegamax.backend("reference"):
            p = sparsemap(scores, Matching())
        assert (torch.autograd.grad(p, scores, g)[0] - grad).abs().max() <= 1e-13


def test_matchings_run_on_the_host_where_that_alone_has_them(monkeypatch):
    """Without a GPU the copies are none, but all else is as there: which way is taken, and that gradients come back."""
    x, mask = draw(3, 4, 5).requires_grad_(), torch.ones(5, dtype=torch.bool)
    mask[4] = False

    def all_of_it() -> list[Tensor]:
        p, found = sparsemap(x, Matching(), return_structures=True, mask=mask)
        fg = FactorGraph()
        u = fg.variable_from(x, batch_dims=1)
        fg.add(Matching(), u)
        fg.add(Budget(u[:2, :2], 1))
        fg.solve()
        target = torch.eye(4, 5, dtype=F64).expand(3, 4, 5)
        loss = sparsemap_loss(x, target, Matching()) + StructuredOmega(Matching(), (4, 5)).conjugate(x.flatten(1)).sum()
        loss = loss + (p * draw(3, 4, 5, seed=1)).sum() + found.probabilities.square().sum() + u.value.cos().sum()
        return [p, u.value, loss, found.structures, found.count, *torch.autograd.grad(loss, x)]

    wanted = all_of_it()
    asked, brought = [], []
    monkeypatch.setattr(omegamax.kernels, "is_solved_on_host", lambda op, z: asked.append(op) or True)
    monkeypatch.setattr(_dispatch, "is_solved_on_host", lambda op, z: True)
    monkeypatch.setattr(_dispatch, "bring", lambda *given: brought.append(given) or list(given))
    for a, b in zip(all_of_it(), wanted, strict=True):
        assert torch.equal(a, b)
    assert set(asked) == {"matching"} and brought
