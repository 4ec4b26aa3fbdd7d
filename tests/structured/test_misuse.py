"""Arguments and factors that are wrong, or at the edge of what is right: a clear error, never a hang."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax import nn
from omegamax.structured import (
    ConvergenceWarning,
    DependencyTree,
    Factor,
    FactorGraph,
    Matching,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    Subsets,
    Xor,
    sparsemap,
    sparsemap_loss,
)
from structured.cases import COMPLETE, F64

FACTORS = [
    (Subsets(2), (5,)),
    (SequentialSubsets(2, 0.5), (5,)),
    (Sequence(transition=torch.eye(3)), (4, 3)),
    (Matching(), (3, 3)),
    (DependencyTree(), (4, 4)),
    (DependencyTree(projective=True), (4, 4)),
    (SpanningTree(COMPLETE), (10,)),
]
every_factor = pytest.mark.parametrize("factor, event", FACTORS, ids=lambda a: repr(a))
both_backends = pytest.mark.parametrize("backend", ["auto", "reference"])


@every_factor
def test_tolerance_and_limit_must_be_numbers_that_make_sense(factor: Factor, event: tuple[int, ...]):
    z = torch.randn(2, *event)
    for tol in (-1e-9, math.nan, math.inf, "tight"):
        error = TypeError if isinstance(tol, str) else ValueError
        with pytest.raises(error, match=r"sparsemap: tol must be a finite number >= 0, got"):
            sparsemap(z, factor, tol=tol)
    for limit in (1.5, math.nan, True, 0):
        error = TypeError if limit is True else ValueError
        with pytest.raises(error, match=r"sparsemap: max_iter must be an integer >= 1, got"):
            sparsemap(z, factor, max_iter=limit)


@every_factor
@both_backends
def test_no_tolerance_at_all_still_ends(factor: Factor, event: tuple[int, ...], backend: str):
    z = torch.randn(20, *event, dtype=F64)
    with omegamax.backend(backend):
        assert (sparsemap(z, factor, tol=0) - sparsemap(z, factor)).abs().max() <= 1e-12


@every_factor
@both_backends
def test_largest_floats_are_valid_scores(factor: Factor, event: tuple[int, ...], backend: str):
    # The least of them is a common stand-in for -inf in masks.
    z = torch.randn(20, *event, dtype=F64)
    with omegamax.backend(backend):
        best = sparsemap(1e6 * z, factor)
        barred = torch.where(best > 0, z, torch.finfo(F64).min)
        assert torch.equal(sparsemap(barred, factor), best)
        assert sparsemap(torch.finfo(F64).max * z.sign(), factor).isfinite().all()


@pytest.mark.parametrize("k", [1.5, math.nan, math.inf, "2", None, True])
def test_number_of_ones_must_be_an_integer(k):
    for make in (Subsets, SequentialSubsets, nn.SequentialKSubsets):
        error = ValueError if isinstance(k, float) else TypeError
        with pytest.raises(error, match=rf"{make.__name__}: k must be an integer >= 0, got"):
            make(k)
    with pytest.raises(TypeError, match=r"sequential_k_subsets: k must be an integer, got"):
        omegamax.sequential_k_subsets(torch.randn(4), k)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4), (4, 2)])
def test_matrix_without_a_score_has_no_matching(shape: tuple[int, int]):
    z = torch.randn(3, *shape)
    z[1] = -math.inf
    with pytest.raises(ValueError, match=r"sparsemap: Matching\(\): scores leave no matching in row 1"):
        sparsemap(z, Matching())


def test_likeliest_matching_comes_first():
    for shape in ((6, 6), (4, 7), (7, 4)):
        u, found = sparsemap(0.2 * torch.randn(10, *shape, dtype=F64), Matching(), return_structures=True)
        p = found.probabilities
        assert (p[:, 1:] <= p[:, :-1]).all() and torch.equal((p > 0).sum(-1), found.count)
        assert ((p[..., None, None] * found.structures).sum(1) - u).abs().max() <= 1e-14


class Faulty(Factor):
    """The best entry of a row, unless told to answer something else."""

    def __init__(self, answer):
        self.answer = answer

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        return scores.argmax(-1)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.answer(torch.nn.functional.one_hot(structures, 4))


@pytest.mark.parametrize(
    "answer, error, words",
    [
        (lambda y: y, TypeError, "must return a pair, parts and additional parts or None, got Tensor"),
        (lambda y: None, TypeError, "must return a pair.* got NoneType"),
        (lambda y: (y[:, :3], None), ValueError, r"parts must be a tensor of shape \(2, 4\), got shape \(2, 3\)"),
        (lambda y: (y[:1], None), ValueError, r"parts must be a tensor of shape \(2, 4\), got shape \(1, 4\)"),
        (lambda y: (y.tolist(), None), ValueError, r"parts must be a tensor of shape \(2, 4\), got list"),
        (lambda y: (y.numpy(), None), ValueError, r"parts must be a tensor of shape \(2, 4\), got ndarray"),
    ],
)
def test_features_of_the_wrong_form_are_refused(answer, error: type[Exception], words: str):
    with pytest.raises(error, match=rf"Faulty\.features: {words}"):
        sparsemap(torch.randn(2, 4), Faulty(answer))


def test_additional_features_of_the_wrong_form_are_refused():
    z, more = torch.randn(2, 4), torch.randn(3)
    for answer, given in ((lambda y: (y, None), "NoneType"), (lambda y: (y, y), r"shape \(2, 4\)")):
        with pytest.raises(ValueError, match=rf"features: additional parts must be .* shape \(2, 3\), got {given}"):
            sparsemap(z, Faulty(answer), more)


@both_backends
def test_start_of_another_batch_is_refused(backend: str):
    for factor, event in FACTORS[1:3] + FACTORS[4:]:
        z = torch.randn(4, *event, dtype=F64)
        with omegamax.backend(backend):
            start = factor.solve(z).active
            with pytest.raises(ValueError, match=r"active_set: start has structures of shape .* do not fit scores"):
                factor.solve(z[:3], start=start)


@every_factor
def test_loss_of_scores_with_a_nan_is_nan_in_its_own_row(factor: Factor, event: tuple[int, ...]):
    z = torch.randn(3, *event, dtype=F64)
    target = sparsemap(1e6 * z, factor)
    broken = z.clone()
    broken[1].view(-1)[0] = math.nan
    loss = sparsemap_loss(broken, target, factor, reduction="none")
    clean = sparsemap_loss(z, target, factor, reduction="none")
    assert loss[1].isnan() and torch.equal(loss[[0, 2]], clean[[0, 2]])


def test_forbidden_first_and_last_labels_stay_forbidden_in_shorter_sequences():
    barred = torch.tensor([0.0, -math.inf, 0.5], dtype=F64)
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]]).bool()[..., None]
    z = torch.randn(4, 4, 3, dtype=F64, requires_grad=True)
    factor = Sequence(barred, torch.randn(3, 3, dtype=F64), barred)
    u = sparsemap(z, factor, mask=mask)
    for row, (first, last) in zip(range(4), [(0, 2), (1, 3), (1, 2), (0, 3)], strict=True):
        alone = sparsemap(z[row, first : last + 1], factor)
        assert (u[row, first : last + 1] - alone).abs().max() <= 1e-14
        assert u[row, first, 1] == 0 and u[row, last, 1] == 0
    u.square().sum().backward()
    assert z.grad.isfinite().all()


def test_errors_name_what_was_wrong():
    edges = torch.tensor([[0, 1], [1, 2]])
    for nodes in (2.5, "three"):
        with pytest.raises((TypeError, ValueError), match=r"SpanningTree: nodes must be an integer, got"):
            SpanningTree(edges, nodes)
    with pytest.raises(TypeError, match=r"SequentialSubsets: transition must be a number or a tensor, got str"):
        SequentialSubsets(2, "often")
    apart = torch.full((3,), -math.inf)
    with pytest.raises(ValueError, match=r"sparsemap: .*scores and additional scores leave no structure in row 0"):
        sparsemap(torch.randn(4), SequentialSubsets(3), apart)


@pytest.mark.parametrize("grad", [False, True])
def test_warning_points_at_the_line_of_the_user(grad: bool):
    z = (0.2 * torch.randn(5, 6)).requires_grad_(grad)
    for solve in (
        lambda: sparsemap(z, SequentialSubsets(3, 0.5), max_iter=1),
        lambda: nn.SparseMAP(Limited(3, 0.5))(z),
        lambda: sparsemap(torch.randn(2, 20, 20), Matching(), max_iter=1),
        lambda: solve_graph(z, max_iter=1),
    ):
        with pytest.warns(ConvergenceWarning) as caught:
            solve()
        assert {w.filename for w in caught} == {__file__}


def solve_graph(scores: Tensor, max_iter: int):
    fg = FactorGraph()
    u = fg.variable_from(scores)
    for part in (*u, *u.T):
        fg.add(Xor(part[:5]))
    fg.solve(max_iter=max_iter)


class Limited(SequentialSubsets):
    """Stopped after one step, whoever asks."""

    def search(self, scores, additional, start, tol, max_iter):
        found = super().search(scores, additional, start, tol, 1)
        found.iterations[:] = max_iter
        return found
