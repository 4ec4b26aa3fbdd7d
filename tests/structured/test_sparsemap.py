"""SparseMAP against the quadratic program over the list of all structures."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax import kernels
from omegamax.structured import (
    ConvergenceWarning,
    DependencyTree,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    Structures,
    Subsets,
    sparsemap,
)
from structured import listing
from structured.cases import CASES, COMPLETE, F64, Case, every_case, some_cases

both_backends = pytest.mark.parametrize("backend", ["reference", "auto"])


def shortfall(case: Case, scores: Tensor, additional: Tensor | None, u: Tensor, found: Structures) -> Tensor:
    """What the best of all structures would gain over the mixture, relative to the scores: zero at the optimum only."""
    slope = case.linear(scores - u, additional)
    at = ((scores - u) * u).flatten(1).sum(-1)
    if additional is not None:
        at = at + (found.additional_marginals * additional).sum(-1)
    return (slope.max(-1).values - at) / (1 + scores.flatten(1).abs().amax(-1))


@every_case
@both_backends
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_marginals_agree_with_a_convex_solver(case: Case, backend: str, scale: float):
    scores, additional = case.draw(3, scale, seed=int(10 * scale))
    with kernels.backend(backend):
        u = sparsemap(scores, case.factor, additional)
    for row, linear in zip(u, case.linear(scores, additional), strict=True):
        assert (row - listing.program(case.structures, linear)).abs().max() <= 1e-9


@every_case
@both_backends
@pytest.mark.parametrize("kind", ["small", "normal", "ties", "flat", "mixed", "1e6"])
def test_no_structure_is_better_than_the_mixture(case: Case, backend: str, kind: str):
    scores, additional = case.draw(25, seed=2)
    if kind == "small":
        scores, additional = 1e-3 * scores, None if additional is None else 1e-3 * additional
    elif kind == "ties":
        scores, additional = scores.round() / 2, None if additional is None else additional.round() / 2
    elif kind == "flat":
        scores, additional = torch.full_like(scores, 3.25), None if additional is None else 0 * additional
    elif kind == "mixed":
        scores = scores * 10.0 ** torch.randint(-6, 7, scores.shape)
    elif kind == "1e6":
        scores, additional = 1e6 * scores, None if additional is None else 1e6 * additional
    with kernels.backend(backend):
        u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    assert shortfall(case, scores, additional, u, found).max() <= 1e-14
    assert (u >= 0).all() and (u <= 1).all()


@every_case
@both_backends
def test_distribution_has_the_marginals(case: Case, backend: str):
    scores, additional = case.draw(20, seed=4)
    with kernels.backend(backend):
        u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    p = found.probabilities
    assert (p >= 0).all() and (p.sum(-1) - 1).abs().max() <= 1e-14
    assert torch.equal((p > 0).sum(-1), found.count)
    assert (p[:, 1:] <= p[:, :-1]).all()
    flat = found.structures.flatten(2)
    assert ((p[:, None] @ flat)[:, 0] - u.flatten(1)).abs().max() <= 1e-14
    used = p > 0
    listed = (flat[:, :, None] == case.structures.flatten(1)).all(-1).any(-1)
    assert listed[used].all() and (flat[~used] == 0).all()
    if additional is not None:
        assert torch.equal(found.additional[used], case.factor.additional_features(found.structures[used]))
        mixed = (p[:, None] @ found.additional)[:, 0]
        assert torch.allclose(mixed, found.additional_marginals, rtol=0, atol=1e-14)
    # No two of a row are the same, and none is a mixture of the others.
    for row, count in zip(flat, found.count.tolist(), strict=True):
        apart = row[1:count] - row[0]
        assert count == 1 or torch.linalg.matrix_rank(apart) == count - 1


@some_cases
def test_any_leading_axes_will_do(case: Case):
    scores, additional = case.draw(6)
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    more = None if additional is None else additional.reshape(2, 1, 3, -1)
    folded, again = sparsemap(scores.reshape(2, 1, 3, *case.event), case.factor, more, return_structures=True)
    assert torch.equal(folded.reshape(u.shape), u)
    assert again.structures.shape == (2, 1, 3, *found.structures.shape[1:])
    assert again.probabilities.shape == (2, 1, 3, found.probabilities.shape[1]) and again.count.shape == (2, 1, 3)
    single = sparsemap(scores[0], case.factor, None if additional is None else additional[0])
    assert single.shape == case.event and (single - u[0]).abs().max() <= 1e-14
    empty = sparsemap(scores[:0], case.factor, None if additional is None else additional[:0])
    assert empty.shape == (0, *case.event)


@some_cases
def test_float32_and_half_are_computed_in_float64(case: Case):
    scores, additional = case.draw(10)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        low, more = scores.to(dtype), None if additional is None else additional.to(dtype)
        u = sparsemap(low, case.factor, more)
        exact = sparsemap(low.double(), case.factor, None if more is None else more.double())
        assert u.dtype == dtype and torch.equal(u, exact.to(dtype))


@some_cases
@both_backends
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_scores_spoil_their_own_problem(case: Case, backend: str, bad: float):
    scores, additional = case.draw(4)
    broken = scores.clone()
    broken.flatten(1)[2, 1] = bad
    broken.requires_grad_()
    with kernels.backend(backend):
        clean = sparsemap(scores, case.factor, additional)
        u, found = sparsemap(broken, case.factor, additional, return_structures=True)
    others = [0, 1, 3]
    assert u[2].isnan().all() and found.probabilities[2].isnan().all() and found.count[2] == 0
    assert (u[others] - clean[others]).abs().max() <= 1e-14
    u[others].square().sum().backward()
    assert broken.grad.isfinite().all() and (broken.grad[2] == 0).all()
    if additional is not None:
        additional = additional.clone()
        additional[1, 0] = bad
        assert sparsemap(scores, case.factor, additional)[1].isnan().all()


@some_cases
@both_backends
def test_forbidden_parts_get_nothing_and_leave_the_rest_exact(case: Case, backend: str):
    scores, additional = case.draw(30, seed=5)
    barred = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.15
    allowed = ~((case.structures > 0) & barred[:, None]).flatten(2).any(-1)
    kept = allowed.any(-1)
    scores, barred, allowed = scores[kept], barred[kept], allowed[kept]
    additional = None if additional is None else additional[kept]
    with kernels.backend(backend):
        u = sparsemap(scores.masked_fill(barred, -math.inf), case.factor, additional)
        v = sparsemap(scores, case.factor, additional, mask=~barred) if case.name != "DependencyTree" else u
    assert (u[barred] == 0).all() and torch.equal(u, v)
    linear = case.linear(scores, additional)
    for row in range(3):
        some = allowed[row]
        assert (u[row] - listing.program(case.structures[some], linear[row][some])).abs().max() <= 1e-9


@some_cases
@both_backends
def test_scores_without_a_structure_are_refused(case: Case, backend: str):
    scores, additional = case.draw(3)
    scores[1] = -math.inf
    if isinstance(case.factor, Subsets):
        assert (sparsemap(scores, case.factor)[1] == 0).all()  # at most k: the empty set is left
        return
    with kernels.backend(backend), pytest.raises(ValueError, match=r"sparsemap: .*(k=|scores)"):
        sparsemap(scores, case.factor, additional)


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("at_most", [False, True])
def test_subsets_equal_the_map(k: int, at_most: bool):
    z = 2 * torch.randn(50, 8, dtype=F64)
    g = torch.randn(50, 8, dtype=F64)
    ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
    u, p = sparsemap(ours, Subsets(k, at_most)), omegamax.k_subsets(theirs, k, at_most=at_most)
    assert (u - p).abs().max() <= 1e-12
    u.backward(g)
    p.backward(g)
    assert (ours.grad - theirs.grad).abs().max() <= 1e-12
    found = sparsemap(z, Subsets(k, at_most), return_structures=True)[1]
    assert ((found.probabilities[:, None] @ found.structures)[:, 0] - p).abs().max() <= 1e-12


def test_sequential_subsets_equal_the_map():
    z, t = torch.randn(20, 9, dtype=F64), torch.randn(20, 8, dtype=F64)
    for at_most in (False, True):
        expected = omegamax.sequential_k_subsets(z, 3, t, at_most=at_most)
        assert (sparsemap(z, SequentialSubsets(3, t, at_most)) - expected).abs().max() <= 1e-14
        assert (sparsemap(z, SequentialSubsets(3, 7.0, at_most), t) - expected).abs().max() <= 1e-14
    flat = sparsemap(z, SequentialSubsets(3))
    assert (flat - omegamax.k_subsets(z, 3)).abs().max() <= 1e-12


@every_case
def test_two_states_are_a_quadratic_program_of_their_own(case: Case):
    # Both states of every part regularised: 1/2 u^2 + 1/2 (1 - u)^2.
    scores, additional = case.draw(2, 2.0)
    u = sparsemap(scores, case.factor, additional, two_state=True)
    both = torch.stack([case.structures, 1 - case.structures], -1)
    for row, linear in zip(u, case.linear(scores, additional), strict=True):
        assert (row - listing.program(both, linear)[..., 0]).abs().max() <= 1e-9
    if len(case.structures.flatten(1).sum(-1).unique()) == 1:
        half = sparsemap(scores / 2, case.factor, None if additional is None else additional / 2)
        assert (u - half).abs().max() <= 1e-12


@some_cases
@both_backends
def test_iteration_limit_warns_with_the_residual(case: Case, backend: str):
    scores, additional = case.draw(10, 0.2)
    with (
        kernels.backend(backend),
        pytest.warns(ConvergenceWarning, match=r"sparsemap: \d+ of 10 .* 2 iterations.* gain"),
    ):
        u, found = sparsemap(scores, case.factor, additional, return_structures=True, max_iter=2)
    assert (found.probabilities.sum(-1) - 1).abs().max() <= 1e-14 and u.isfinite().all()
    with pytest.raises(ValueError, match="sparsemap: max_iter must be an integer >= 1, got 0"):
        sparsemap(scores, case.factor, additional, max_iter=0)


LARGER = [
    ("subsets", SequentialSubsets(5, 0.5), (8, 50)),
    (
        "sequence",
        Sequence(transition=torch.randn(4, 4, dtype=F64, generator=torch.Generator().manual_seed(1))),
        (4, 15, 4),
    ),
    ("tree", DependencyTree(), (3, 12, 12)),
    ("projective tree", DependencyTree(True), (2, 10, 10)),
    ("spanning tree", SpanningTree(COMPLETE), (6, 10)),
]


@pytest.mark.parametrize("name, factor, shape", LARGER, ids=[c[0] for c in LARGER])
@pytest.mark.parametrize("kind", ["normal", "ties", "flat", "1e6", "1e30"])
def test_compiled_and_plain_search_agree(name: str, factor, shape: tuple[int, ...], kind: str):
    scores = torch.randn(shape, dtype=F64)
    scores = {"ties": scores.round(), "flat": 0 * scores, "1e6": 1e6 * scores, "1e30": 1e30 * scores}.get(kind, scores)
    marginals = []
    for backend in ("reference", "auto"):
        with kernels.backend(backend):
            marginals.append(sparsemap(scores, factor))
    assert (marginals[0] - marginals[1]).abs().max() <= (1e-9 if kind == "1e6" else 1e-12)


def test_arguments_of_the_wrong_kind_are_refused():
    z = torch.randn(2, 5)
    with pytest.raises(TypeError, match="sparsemap: factor must be a Factor, got str"):
        sparsemap(z, "k_subsets")
    with pytest.raises(TypeError, match=r"sparsemap: scores must be a floating-point tensor, got dtype torch.int64"):
        sparsemap(torch.ones(2, 5, dtype=torch.int64), Subsets(2))
    with pytest.raises(TypeError, match="sparsemap: additional must be a floating-point tensor"):
        sparsemap(z, SequentialSubsets(2), torch.ones(2, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"sparsemap: additional scores for .* must be \[\*, 4\], got shape \(2, 5\)"):
        sparsemap(z, SequentialSubsets(2), torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"sparsemap: additional scores for Subsets\(k=2\) must be \[\*, 0\]"):
        sparsemap(z, Subsets(2), torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"sparsemap: additional scores of shape \(3, 4\) do not broadcast"):
        sparsemap(z, SequentialSubsets(2), torch.ones(3, 4))
    with pytest.raises(ValueError, match=r"sparsemap: k=6 is more than the 5 items"):
        sparsemap(z, Subsets(6))
    with pytest.raises(ValueError, match=r"sparsemap: .*k=2 is more than the 1 items that scores leave"):
        sparsemap(torch.tensor([1.0, -math.inf, -math.inf]), SequentialSubsets(2))
    with pytest.raises(ValueError, match=r"sparsemap: scores for Subsets\(k=0\) need 1 trailing axes"):
        sparsemap(torch.empty(3, 0), Subsets(0))
    with pytest.raises(ValueError, match=r"sparsemap: scores .* need 2 trailing axes"):
        sparsemap(torch.empty(3), Sequence())
    with pytest.raises(TypeError, match="sparsemap: mask must be a bool tensor"):
        sparsemap(z, Subsets(2), mask=torch.ones(5))


def test_cases_cover_every_factor():
    kinds = {type(case.factor) for case in CASES}
    assert kinds == {Subsets, SequentialSubsets, Sequence, DependencyTree, SpanningTree}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@pytest.mark.parametrize("name", ["SequentialSubsets", "DependencyTree"])
def test_compiled_code_leaves_its_graph_for_the_search(name: str):
    case = next(c for c in CASES if c.name == name)
    scores, additional = case.draw(3)
    torch._dynamo.reset()

    def f(scores: Tensor) -> Tensor:
        return 2 * sparsemap(scores + 1, case.factor, additional) - 1

    results = []
    for run in (torch.compile(f, backend="aot_eager"), f):
        leaf = scores.clone().requires_grad_()
        u = run(leaf)
        u.square().sum().backward()
        results.append((u.detach(), leaf.grad))
    torch._dynamo.reset()
    for ours, eager in zip(*results, strict=True):
        assert (ours - eager).abs().max() <= 1e-13
