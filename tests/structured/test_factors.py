"""What each factor takes, refuses and does with absent parts; and a factor of one's own."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from omegamax.structured import DependencyTree, Factor, Sequence, SequentialSubsets, SpanningTree, Subsets, sparsemap
from structured import listing
from structured.cases import F64


class Knapsack(Factor):
    """Subsets of items whose weights do not exceed a capacity, by trying all of them."""

    def __init__(self, weights: list[int], capacity: int):
        every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=len(weights))), dtype=F64)
        self.sets = every[every @ torch.tensor(weights, dtype=F64) <= capacity]

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        total = torch.where(scores == -math.inf, -1e18, scores) @ self.sets.T
        if additional is not None:
            total = total + additional @ self.pairs(self.sets).T
        return self.sets[total.argmax(-1)]

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return structures, self.pairs(structures)

    def pairs(self, sets: Tensor) -> Tensor:
        """Which of the first three items come together."""
        return torch.stack([sets[:, 0] * sets[:, 1], sets[:, 1] * sets[:, 2], sets[:, 0] * sets[:, 2]], -1)


class TopOfEach(Factor):
    """One column of every row, given as indices; two axes make one problem, and nothing else is defined."""

    event_dims = 2

    def maximize(self, scores, additional):
        return scores.argmax(-1)

    def features(self, structures):
        return torch.nn.functional.one_hot(structures, 3), None


def test_own_factor_agrees_with_a_convex_solver():
    knapsack = Knapsack([3, 1, 2, 2, 1], capacity=4)
    scores, extra = torch.randn(6, 5, dtype=F64), torch.randn(6, 3, dtype=F64)
    u, found = sparsemap(scores, knapsack, extra, return_structures=True)
    linear = scores @ knapsack.sets.T + extra @ knapsack.pairs(knapsack.sets).T
    for row in range(6):
        assert (u[row] - listing.program(knapsack.sets, linear[row])).abs().max() <= 1e-9
    assert (found.structures @ torch.tensor([3.0, 1, 2, 2, 1], dtype=F64) <= 4).all()
    plain = sparsemap(scores, knapsack)
    for row in range(6):
        assert (plain[row] - listing.program(knapsack.sets, scores[row] @ knapsack.sets.T)).abs().max() <= 1e-9


def test_own_factor_is_differentiable():
    knapsack = Knapsack([3, 1, 2, 2, 1], capacity=4)
    scores = torch.tensor([[0.9, 0.45, 0.62, 0.31, 0.27]], dtype=F64, requires_grad=True)
    extra = torch.tensor([[0.2, -0.35, 0.1]], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, e: sparsemap(s, knapsack, e), (scores, extra), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda s, e: sparsemap(s, knapsack, e), (scores, extra))


def test_own_factor_with_integer_features_on_two_axes():
    scores = torch.randn(4, 2, 5, 3)
    u = sparsemap(scores, TopOfEach())
    from omegamax import sparsemax

    assert u.shape == scores.shape and (u - sparsemax(scores)).abs().max() <= 1e-6


def test_own_factor_that_ignores_what_is_forbidden_is_found_out():
    scores = torch.zeros(1, 2, 3, dtype=F64)
    scores[0, 0] = -math.inf
    with pytest.raises(ValueError, match=r"sparsemap: TopOfEach\(\): scores leave no structure in row 0"):
        sparsemap(scores, TopOfEach())


def test_own_factor_must_name_its_additional_parts():
    with pytest.raises(ValueError, match=r"TopOfEach\.features: additional parts .* shape \(2, 4\), got NoneType"):
        sparsemap(torch.randn(2, 2, 3), TopOfEach(), torch.randn(2, 4))


def test_real_valued_features_are_allowed():
    # A factor without 0/1 parts: points of a polygon, onto which SparseMAP projects.
    corners = torch.tensor([[0.0, 0.0], [2.0, 0.3], [1.5, 1.7], [-0.4, 1.1]], dtype=F64)

    class Polygon(Factor):
        def maximize(self, scores, additional):
            return corners[(scores @ corners.T).argmax(-1)]

        def features(self, structures):
            return structures, None

    scores = 3 * torch.randn(30, 2, dtype=F64)
    u = sparsemap(scores, Polygon())
    for row in range(5):
        assert (u[row] - listing.program(corners, corners @ scores[row])).abs().max() <= 1e-9
    inside = torch.tensor([[0.9, 0.8]], dtype=F64)
    assert (sparsemap(inside, Polygon()) - inside).abs().max() <= 1e-14


@pytest.mark.parametrize("factor", [Subsets, SequentialSubsets])
def test_subset_size_must_be_an_integer(factor):
    with pytest.raises(ValueError, match=rf"{factor.__name__}: k must be an integer >= 0, got 1.5"):
        factor(1.5)
    with pytest.raises(ValueError, match=rf"{factor.__name__}: k must be an integer >= 0, got -1"):
        factor(-1)
    assert sparsemap(torch.tensor([1.0, 2.0]), factor(5, at_most=True)).tolist() == [1.0, 1.0]


def test_transition_must_fit():
    with pytest.raises(ValueError, match=r"transition must broadcast to \(2, 4\) .* got shape \(3,\)"):
        sparsemap(torch.randn(2, 5), SequentialSubsets(2, torch.ones(3)))


def test_sequence_scores_may_differ_by_row_and_by_position():
    scores = torch.randn(3, 4, 2, dtype=F64)
    start, transition, end = (torch.randn(*s, dtype=F64) for s in ((3, 2), (3, 3, 2, 2), (2,)))
    u = sparsemap(scores, Sequence(start, transition, end))
    for row in range(3):
        alone = sparsemap(scores[row], Sequence(start[row], transition[row], end))
        assert (u[row] - alone).abs().max() <= 1e-14
    structures = listing.sequences(4, 2)
    labels = structures.argmax(-1)
    total = (structures * scores[0]).sum((-2, -1)) + start[0][labels[:, 0]] + end[labels[:, -1]]
    for i in range(3):
        total = total + transition[0, i][labels[:, i], labels[:, i + 1]]
    assert (u[0] - listing.program(structures, total)).abs().max() <= 1e-9
    shared = sparsemap(scores, Sequence(transition=transition[0, 0]))
    spread = sparsemap(scores, Sequence(transition=transition[:1, :1].expand(3, 3, 2, 2)))
    assert (shared - spread).abs().max() <= 1e-14


def test_sequence_refuses_scores_that_do_not_fit():
    scores = torch.randn(2, 4, 3)
    with pytest.raises(ValueError, match=r"Sequence: start must broadcast to \(2, 3\)"):
        sparsemap(scores, Sequence(start=torch.ones(4)))
    with pytest.raises(ValueError, match=r"Sequence: transition must be \[3, 3\] or \[\*, 3, 3, 3\]"):
        sparsemap(scores, Sequence(transition=torch.ones(2, 3, 3)))
    with pytest.raises(TypeError, match=r"Sequence: end must be a torch\.Tensor, got list"):
        Sequence(end=[0.0, 1.0])


@pytest.mark.parametrize("where", ["end", "start", "middle"])
def test_absent_positions_are_as_good_as_deleted(where: str):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 6, 3, dtype=F64, generator=generator)
    factor = Sequence(*(torch.randn(*s, dtype=F64, generator=generator) for s in ((3,), (3, 3), (3,))))
    keep = {"end": [0, 1, 2, 3], "start": [2, 3, 4, 5], "middle": [0, 1, 4, 5]}[where]
    mask = torch.zeros(6, 1, dtype=torch.bool)
    mask[keep] = True
    whole = scores.clone().requires_grad_()
    u, found = sparsemap(whole, factor, mask=mask, return_structures=True)
    gone = [i for i in range(6) if i not in keep]
    assert (u[:, gone] == 0).all() and (found.structures[:, :, gone] == 0).all()
    if where == "middle":  # in two parts that do not touch
        ends, starts = Sequence(factor.start, factor.transition), Sequence(None, factor.transition, factor.end)
        expected = torch.cat([sparsemap(scores[:, :2], ends), sparsemap(scores[:, 4:], starts)], 1)
    else:
        expected = sparsemap(scores[:, keep], factor)
    assert (u[:, keep] - expected).abs().max() <= 1e-12
    u.square().sum().backward()
    assert (whole.grad[:, gone] == 0).all() and whole.grad.isfinite().all()


def test_ragged_sequences_share_a_batch():
    scores = torch.randn(3, 5, 2, dtype=F64)
    factor = Sequence(transition=torch.randn(2, 2, dtype=F64), end=torch.randn(2, dtype=F64))
    lengths = torch.tensor([5, 2, 1])
    mask = (torch.arange(5) < lengths[:, None])[..., None]
    u = sparsemap(scores, factor, mask=mask)
    for row, length in enumerate(lengths.tolist()):
        assert (u[row, :length] - sparsemap(scores[row, :length], factor)).abs().max() <= 1e-13


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
def test_absent_words_are_as_good_as_deleted(projective: bool, single_root: bool):
    scores = torch.randn(6, 5, 5, dtype=F64)
    factor = DependencyTree(projective, single_root)
    for keep in ([0, 1, 2], [2, 3, 4], [0, 2, 3], [1, 3], [4]):
        mask = torch.zeros(5, 1, dtype=torch.bool)
        mask[keep] = True
        u = sparsemap(scores, factor, mask=mask)
        part = u[:, keep][:, :, keep]
        assert (part - sparsemap(scores[:, keep][:, :, keep], factor)).abs().max() <= 1e-12
        assert (u.sum((-2, -1)) - len(keep)).abs().max() <= 1e-12
    with pytest.raises(ValueError, match="sparsemap: mask leaves no word"):
        sparsemap(scores, factor, mask=torch.zeros(5, 5, dtype=torch.bool))


def test_dependency_scores_must_be_square():
    with pytest.raises(ValueError, match=r"sparsemap: scores of a DependencyTree must be square .* \(2, 3, 4\)"):
        sparsemap(torch.randn(2, 3, 4), DependencyTree())


def test_every_word_has_one_head():
    u = sparsemap(0.5 * torch.randn(8, 7, 7, dtype=F64), DependencyTree(single_root=True))
    assert (u.sum(-1) - 1).abs().max() <= 1e-13
    assert (u.diagonal(dim1=-2, dim2=-1).sum(-1) - 1).abs().max() <= 1e-13


@pytest.mark.parametrize(
    "edges, nodes, words",
    [
        ([[0, 1], [1, 1]], None, "edges must not join a node to itself, got edge 1"),
        ([[0, 2], [1, 3]], None, "edges must connect all 4 nodes, got 2 separate parts"),
        ([[0, 1], [1, 2]], 4, "edges must connect all 4 nodes, got 2 separate parts"),
        ([[0, 1], [1, 3]], 3, r"edges must lie in \[0, 3\), got from 0 to 3"),
        ([[0, -1], [1, 0]], 3, r"edges must lie in \[0, 3\), got from -1 to 1"),
    ],
)
def test_spanning_tree_refuses_what_is_no_connected_graph(edges: list, nodes: int | None, words: str):
    with pytest.raises(ValueError, match=f"SpanningTree: {words}"):
        SpanningTree(torch.tensor(edges), nodes)


def test_spanning_tree_refuses_edges_of_the_wrong_kind():
    with pytest.raises(TypeError, match=r"SpanningTree: edges must be an integer tensor .* torch.float32"):
        SpanningTree(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"SpanningTree: edges must be \[2, E\], got shape \(3, 2\)"):
        SpanningTree(torch.zeros(3, 2, dtype=torch.int64))
    triangle = SpanningTree(torch.tensor([[0, 1, 2], [1, 2, 0]]))
    with pytest.raises(ValueError, match=r"sparsemap: scores of this SpanningTree must be \[\*, 3\]"):
        sparsemap(torch.randn(2, 4), triangle)
    barred = torch.tensor([[0.0, -math.inf, -math.inf]])
    with pytest.raises(ValueError, match=r"sparsemap: .*scores leave no structure in row 0"):
        sparsemap(barred, triangle)


def test_tree_graph_has_one_spanning_tree():
    path = SpanningTree(torch.tensor([[0, 1], [1, 2]]))
    assert torch.equal(sparsemap(torch.randn(3, 2), path), torch.ones(3, 2))


def test_factors_say_what_they_are():
    for text, factor in {
        "Subsets(k=2)": Subsets(2),
        "SequentialSubsets(k=2, transition=0.5, at_most=True)": SequentialSubsets(2, 0.5, True),
        "Sequence(transition=(3, 3))": Sequence(transition=torch.zeros(3, 3)),
        "DependencyTree(projective=True)": DependencyTree(True),
        "SpanningTree(1 edges, 2 nodes)": SpanningTree(torch.tensor([[0], [1]])),
    }.items():
        assert repr(factor) == text
