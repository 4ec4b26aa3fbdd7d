"""The compiled search for SparseMAP's structures: exact against lists of all of them, and like its plain twin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from structured.listing import dependency_trees, sequences, spanning_trees, subsets
from torch import Tensor

from omegamax.kernels import _library
from omegamax.kernels.structures import ActiveSet
from omegamax.kernels.structures import cpu as compiled
from omegamax.kernels.structures import reference as plain

F64 = torch.float64
TOL = 1e-13

pytestmark = pytest.mark.skipif(
    not _library.is_available("structures"), reason="omegamax was installed without compiled kernels"
)


def complete(nodes: int) -> Tensor:
    return torch.tensor(list(itertools.combinations(range(nodes), 2))).T.contiguous()


def pairs(unary: Tensor) -> Tensor:
    return unary[:, 1:] * unary[:, :-1]


def transitions(unary: Tensor) -> Tensor:
    inner = (unary[:, :-1, :, None] * unary[:, 1:, None]).flatten(1)
    return torch.cat([unary[:, 0], inner, unary[:, -1]], -1)


@dataclass(frozen=True)
class Family:
    """A kind of structure, with the list of all of a small size: ``M [S, n]`` and ``N [S, m]``."""

    kind: str
    sizes: tuple[int, ...]
    listed: Callable[[], Tensor]
    parts: Callable[[Tensor], Tensor] = lambda unary: unary.new_zeros(len(unary), 0)
    graph: Tensor | None = None

    def all(self) -> tuple[Tensor, Tensor]:
        unary = self.listed()
        return unary.flatten(1), self.parts(unary)

    def draw(self, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(seed)
        unary, parts = self.all()
        return tuple(torch.randn(rows, a.shape[1], dtype=F64, generator=g) for a in (unary, parts))  # type: ignore

    def search(
        self, scores: Tensor, additional: Tensor, start: ActiveSet | None = None, tol: float = TOL, max_iter: int = 5000
    ) -> compiled.PackedSet:
        return compiled.active_set(scores, additional, self.kind, self.sizes, self.graph, start, tol, max_iter)

    def __repr__(self) -> str:
        return f"{self.kind}{self.sizes}"


FAMILIES = [
    Family("k_subsets", (6, 3, 0), lambda: subsets(6, 3)),
    Family("k_subsets", (5, 2, 1), lambda: subsets(5, 2, at_most=True)),
    Family("sequential_k_subsets", (7, 3, 0), lambda: subsets(7, 3), pairs),
    Family("sequential_k_subsets", (6, 3, 1), lambda: subsets(6, 3, at_most=True), pairs),
    Family("sequence", (4, 3), lambda: sequences(4, 3), transitions),
    Family("sequence", (1, 4), lambda: sequences(1, 4), transitions),
    Family("arborescence", (4, 0), lambda: dependency_trees(4)),
    Family("arborescence", (4, 1), lambda: dependency_trees(4, single_root=True)),
    Family("projective", (4, 0), lambda: dependency_trees(4, projective=True)),
    Family("projective", (4, 1), lambda: dependency_trees(4, projective=True, single_root=True)),
    Family("spanning_tree", (5,), lambda: spanning_trees(complete(5), 5), graph=complete(5)),
]


def at_most(family: Family) -> bool:
    """Whether the structures differ in how many parts they have."""
    return family.kind.endswith("k_subsets") and bool(family.sizes[2])


every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)

# Two nodes joined twice, a triangle, and a node that hangs on by one edge.
MULTIGRAPH = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 1, 2, 3, 3, 4]])


def rational(values: Tensor) -> list[Fraction]:
    return [Fraction(v) for v in values.tolist()]


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss and Jordan, exactly."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(r for r in range(i, len(rows)) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(len(rows)):
            if r != i and rows[r][i]:
                rows[r] = [v - rows[r][i] * w for v, w in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def certified(family: Family, scores: Tensor, additional: Tensor, found: compiled.PackedSet, row: int) -> Tensor:
    """The marginals of a row in exact arithmetic, from the structures found for it, once these are known to be right.

    The best weights of these structures without regard to sign are positive, and no structure of all gains at them.
    """
    unary, parts = family.all()
    held, held_parts = (a[row, : found.count[row]] for a in (found.unary, found.additional))
    for structure, part in zip(held, held_parts, strict=True):
        (place,) = (unary == structure).all(-1).nonzero()[:, 0]
        assert torch.equal(parts[place], part)
    finite = scores[row].where(scores[row] > -math.inf, 0.0)
    eta, bonus = rational(finite), [sum(rational(v), Fraction()) for v in parts * additional[row]]
    mine = [sum(rational(v), Fraction()) for v in held_parts * additional[row]]
    ones = [v.nonzero()[:, 0].tolist() for v in held]
    gram = [[Fraction(len(set(a) & set(b))) for b in ones] for a in ones]
    right = [sum((eta[i] for i in a), c) for a, c in zip(ones, mine, strict=True)]
    # [M^T M, 1; 1, 0] [xi; tau] = [M^T eta + c; 1]
    bordered = [*([*row, Fraction(1)] for row in gram), [Fraction(1)] * len(gram) + [Fraction(0)]]
    *weights, level = solved(bordered, [*right, Fraction(1)])
    u = [sum((w for w, a in zip(weights, ones, strict=True) if i in a), Fraction()) for i in range(len(eta))]
    scale = 1 + max(abs(eta[i]) for a in ones for i in a) if any(ones) else 1
    assert min(weights) > -1e-12 * scale
    for structure, extra in zip(unary, bonus, strict=True):
        chosen = structure.nonzero()[:, 0].tolist()
        if all(scores[row, i] > -math.inf for i in chosen):
            assert sum((eta[i] - u[i] for i in chosen), extra) - level <= 1e-12 * scale
    return torch.tensor([float(v) for v in u], dtype=F64)


def agree(family: Family, scores: Tensor, additional: Tensor, found: compiled.PackedSet, bound: float) -> None:
    for row in range(len(scores)):
        exact = certified(family, scores, additional, found, row)
        assert (found.marginals[row] - exact).abs().max() <= bound
        mixed = found.weights[row] @ found.additional[row]
        assert torch.allclose(found.additional_marginals[row], mixed, rtol=0, atol=1e-15)
    assert torch.allclose(found.weights.sum(-1), torch.ones(len(scores), dtype=F64), rtol=0, atol=1e-14)
    assert (found.weights[found.weights != 0] > 0).all()


# ---- exactness


@every_family
@pytest.mark.parametrize("scale", [1e-8, 0.1, 1.0, 10.0])
def test_marginals_are_those_of_exact_arithmetic(family: Family, scale: float):
    scores, additional = (scale * a for a in family.draw(4))
    agree(family, scores, additional, family.search(scores, additional), 1e-13 * (1 + scale))


@every_family
def test_ties_are_shared_exactly(family: Family):
    scores, additional = ((2 * a).round() / 2 for a in family.draw(6, seed=1))
    agree(family, scores, additional, family.search(scores, additional), 1e-13)


@every_family
def test_flat_scores_give_the_point_of_least_norm(family: Family):
    scores, additional = (torch.zeros_like(a) for a in family.draw(1))
    agree(family, scores, additional, family.search(scores, additional), 1e-14)


@every_family
def test_magnitudes_may_be_mixed(family: Family):
    scores, additional = family.draw(6, seed=2)
    g = torch.Generator().manual_seed(3)
    scores, additional = (
        a * 10 ** torch.empty(a.shape, dtype=F64).uniform_(-8, 6, generator=g) for a in (scores, additional)
    )
    found = family.search(scores, additional)
    scale = 1 + max(scores.abs().max(), additional.abs().max() if additional.numel() else 0)
    agree(family, scores, additional, found, 1e-15 * float(scale))


@pytest.mark.parametrize("family", [f for f in FAMILIES if not at_most(f)], ids=repr)
def test_scores_that_lie_high_lose_nothing_where_structures_have_equally_many(family: Family):
    scores, additional = family.draw(4, seed=4)
    scores = (scores * 2**20).round() / 2**20  # so that the sum below is exact
    high, low = family.search(scores + 2**30, additional), family.search(scores, additional)
    assert torch.allclose(high.marginals, low.marginals, rtol=0, atol=1e-13)


@pytest.mark.parametrize("family", [f for f in FAMILIES if "sequen" in f.kind], ids=repr)
@pytest.mark.parametrize("small", [0.0, 1e-6, 1e-2])
def test_additional_scores_decide_where_unary_ones_hardly_do(family: Family, small: float):
    scores, additional = family.draw(4, seed=5)
    agree(family, small * scores, additional, family.search(small * scores, additional), 1e-12)


@every_family
def test_best_structure_is_all_where_scores_are_large(family: Family):
    scores, additional = (1e4 * a for a in family.draw(40, seed=6))
    found = family.search(scores, additional)
    unary, parts = family.all()
    total = scores @ unary.mT + additional @ parts.mT
    assert (found.count == 1).all()
    assert torch.equal(found.marginals, unary[total.argmax(-1)])
    assert torch.equal(found.additional_marginals, parts[total.argmax(-1)])


@pytest.mark.parametrize("single_root", [0, 1])
@pytest.mark.parametrize("kind", ["arborescence", "projective"])
def test_trees_of_five_words_beat_all_others(kind: str, single_root: int):
    unary = dependency_trees(5, projective=kind == "projective", single_root=bool(single_root)).flatten(1)
    scores = 1e5 * torch.randn(200, 25, dtype=F64)
    family = Family(kind, (5, single_root), lambda: unary)
    found = family.search(scores, scores.new_zeros(200, 0))
    assert torch.equal(found.marginals, unary[(scores @ unary.mT).argmax(-1)])


def test_parallel_edges_are_edges_of_their_own():
    unary = spanning_trees(MULTIGRAPH, 5)
    family = Family("spanning_tree", (5,), lambda: unary, graph=MULTIGRAPH)
    scores = torch.randn(6, 6, dtype=F64)
    agree(family, scores, scores.new_zeros(6, 0), family.search(scores, scores.new_zeros(6, 0)), 1e-13)


# ---- the twin


LARGER = [
    Family("k_subsets", (30, 7, 0), lambda: torch.zeros(0, 30)),
    Family("sequential_k_subsets", (30, 4, 0), lambda: torch.zeros(0, 30), pairs),
    Family("sequential_k_subsets", (30, 6, 1), lambda: torch.zeros(0, 30), pairs),
    Family("sequence", (8, 5), lambda: torch.zeros(0, 8, 5), transitions),
    Family("arborescence", (9, 0), lambda: torch.zeros(0, 9, 9)),
    Family("arborescence", (9, 1), lambda: torch.zeros(0, 9, 9)),
    Family("projective", (9, 0), lambda: torch.zeros(0, 9, 9)),
    Family("projective", (9, 1), lambda: torch.zeros(0, 9, 9)),
    Family("spanning_tree", (9,), lambda: torch.zeros(0, 36), graph=complete(9)),
]
every_larger_family = pytest.mark.parametrize("family", LARGER, ids=repr)


@every_larger_family
def test_marginals_are_those_of_the_plain_search(family: Family):
    scores, additional = family.draw(5, seed=7)
    found = family.search(scores, additional)
    twin = plain.active_set(scores, additional, family.kind, family.sizes, family.graph, None, TOL, 5000)
    assert torch.allclose(found.marginals, (twin.weights[:, None] @ twin.unary)[:, 0], rtol=0, atol=1e-11)
    value = [
        (a.weights[:, None] @ (a.additional @ additional[..., None]))[:, 0, 0] for a in (found, twin)
    ]  # the marginals of additional parts need not be unique, their score is
    assert torch.allclose(*value, rtol=0, atol=1e-11)


@every_larger_family
def test_structures_are_affinely_independent(family: Family):
    found = family.search(*family.draw(5, seed=8))
    for row, count in enumerate(found.count.tolist()):
        differences = found.unary[row, 1:count] - found.unary[row, :1]
        assert torch.linalg.matrix_rank(differences) == count - 1


# ---- threads and starts


@every_larger_family
def test_result_does_not_depend_on_the_number_of_threads(family: Family, two_threads):
    scores, additional = family.draw(17, seed=9)
    both = family.search(scores, additional)
    torch.set_num_threads(1)
    one = family.search(scores, additional)
    for a, b in zip(fields(both), fields(one), strict=True):
        assert torch.equal(a, b)
    # Nor on what the thread did before.
    assert torch.equal(family.search(scores[5:6], additional[5:6]).marginals[0], one.marginals[5])


def fields(found: ActiveSet) -> tuple[Tensor, ...]:
    return found.unary, found.additional, found.weights, found.count, found.iterations, found.residual


@every_larger_family
def test_start_saves_iterations_and_leads_to_the_same(family: Family):
    scores, additional = family.draw(12, seed=10)
    before = family.search(scores, additional)
    again = family.search(scores, additional, before)
    assert (again.iterations == 1).all()
    near = scores + 1e-3 * family.draw(12, seed=11)[0]
    cold, warm = family.search(near, additional), family.search(near, additional, before)
    assert warm.iterations.sum() < 0.6 * cold.iterations.sum()
    assert torch.allclose(cold.marginals, warm.marginals, rtol=0, atol=1e-12)
    # The same from tensors of 0 and 1, such as the plain search returns.
    loose = family.search(near, additional, ActiveSet(*fields(before)))
    assert torch.equal(loose.marginals, warm.marginals) and torch.equal(loose.iterations, warm.iterations)


@every_family
def test_start_that_is_no_structure_is_passed_over(family: Family):
    scores, additional = family.draw(5, seed=12)
    before = family.search(scores, additional)
    g = torch.Generator().manual_seed(0)
    nonsense = torch.randint(0, 2, before.unary.shape, generator=g).to(F64)
    false = ActiveSet(nonsense, *fields(before)[1:])
    assert torch.allclose(family.search(scores, additional, false).marginals, before.marginals, rtol=0, atol=1e-13)


@every_family
def test_start_gives_up_what_is_forbidden_now(family: Family):
    scores, additional = family.draw(8, seed=13)
    before = family.search(0.1 * scores, 0.1 * additional)
    scores[:, 1] = -math.inf
    found = family.search(scores, additional, before)
    cold = family.search(scores, additional)
    feasible = cold.count > 0
    assert torch.equal(found.count > 0, feasible)
    assert torch.allclose(found.marginals[feasible], cold.marginals[feasible], rtol=0, atol=1e-13)


def test_start_of_another_shape_is_refused():
    family = FAMILIES[0]
    before = family.search(*family.draw(3))
    with pytest.raises(ValueError, match="start"):
        family.search(*family.draw(4), before)


# ---- edge cases


@every_family
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_scores_spoil_their_own_row(family: Family, bad: float):
    scores, additional = family.draw(3, seed=14)
    whole = family.search(scores, additional)
    scores[1, 0] = bad
    found = family.search(scores, additional)
    assert found.residual[1].isnan() and found.count[1] == 0 and found.marginals[1].isnan().all()
    assert (found.weights[1] == 0).all() and (found.unary[1] == 0).all()
    for row in (0, 2):
        assert torch.equal(found.marginals[row], whole.marginals[row])
    if additional.numel():
        scores, additional = family.draw(1)
        additional[0, -1] = bad
        assert family.search(scores, additional).marginals.isnan().all()


@every_family
def test_forbidden_parts_are_absent(family: Family):
    scores, additional = family.draw(20, seed=15)
    g = torch.Generator().manual_seed(1)
    scores[torch.rand(scores.shape, generator=g) < 0.2] = -math.inf
    additional[torch.rand(additional.shape, generator=g) < 0.2] = -math.inf
    found = family.search(scores, additional)
    unary, parts = family.all()
    allowed = ~((unary > 0) & (scores == -math.inf)[:, None]).any(-1)
    allowed &= ~((parts > 0) & (additional == -math.inf)[:, None]).any(-1)
    assert torch.equal(found.count > 0, allowed.any(-1))
    assert (found.residual[found.count == 0] == math.inf).all()
    assert (found.marginals[scores == -math.inf] == 0).all()
    for row in (found.count > 0).nonzero()[:, 0].tolist():
        left, left_parts = unary[allowed[row]], parts[allowed[row]]
        rest = Family(family.kind, family.sizes, lambda u=left: u, lambda _, v=left_parts: v)  # type: ignore[misc]
        exact = certified(rest, scores, additional.clamp(min=-1e300), found, row)
        assert (found.marginals[row] - exact).abs().max() <= 1e-13


@pytest.mark.parametrize(
    "kind, sizes, n, graph",
    [
        ("k_subsets", (3, 4, 0), 3, None),
        ("sequential_k_subsets", (3, 4, 0), 3, None),
        ("spanning_tree", (4,), 2, torch.tensor([[0, 2], [1, 3]])),
        ("arborescence", (2, 1), 4, None),
        ("projective", (2, 1), 4, None),
    ],
)
def test_no_structure_at_all_is_reported(kind: str, sizes: tuple[int, ...], n: int, graph: Tensor | None):
    scores = torch.zeros(2, n, dtype=F64)
    if n == 4:  # each word may only be below the root, which takes one
        scores.view(2, 2, 2)[:, [0, 1], [1, 0]] = -math.inf
    found = compiled.active_set(scores, scores.new_zeros(2, 0), kind, sizes, graph, None, TOL, 100)
    assert (found.residual == math.inf).all() and (found.count == 0).all() and (found.iterations == 0).all()
    assert found.unary.shape == (2, 0, n) and (found.marginals == 0).all()


@pytest.mark.parametrize(
    "kind, sizes, n, expected",
    [
        ("k_subsets", (3, 0, 0), 3, [0, 0, 0]),
        ("k_subsets", (3, 3, 0), 3, [1, 1, 1]),
        ("k_subsets", (3, 9, 1), 3, [0, 1, 1]),
        ("sequential_k_subsets", (3, 0, 1), 3, [0, 0, 0]),
        ("sequential_k_subsets", (3, 9, 1), 3, [0, 1, 1]),
        ("sequence", (3, 1), 3, [1, 1, 1]),
        ("arborescence", (1, 1), 1, [1]),
        ("projective", (1, 0), 1, [1]),
        ("spanning_tree", (1,), 0, []),
        ("spanning_tree", (2,), 3, [0, 0, 1]),
    ],
)
def test_smallest_sizes(kind: str, sizes: tuple[int, ...], n: int, expected: list[int]):
    scores = torch.tensor([[-1.0, 2.0, 4.0]], dtype=F64)[:, :n]
    graph = torch.tensor([[0, 0, 1], [1, 1, 0]])[:, :n] if kind == "spanning_tree" else None
    found = compiled.active_set(scores, scores.new_zeros(1, 0), kind, sizes, graph, None, TOL, 100)
    assert found.marginals[0].tolist() == expected


@every_family
def test_empty_batch_is_empty(family: Family):
    found = family.search(*family.draw(0))
    assert found.weights.shape == (0, 0) and found.marginals.shape == family.draw(0)[0].shape


@every_family
@pytest.mark.parametrize("size", [1e15, 1e30, 1e300, torch.finfo(F64).max])
def test_huge_scores_end_and_stay_in_range(family: Family, size: float):
    scores, additional = (size * a.sign() for a in family.draw(4, seed=16))
    found = family.search(scores, additional)
    assert (found.iterations < 5000).all() and (found.count > 0).all()
    assert ((found.marginals >= 0) & (found.marginals <= 1)).all()


@pytest.mark.parametrize("family", [f for f in FAMILIES if not at_most(f)], ids=repr)
def test_huge_ties_are_shared(family: Family):
    scores, additional = (torch.zeros_like(a) for a in family.draw(1))
    level = family.search(scores + 1e30, additional).marginals
    assert torch.allclose(level, family.search(scores, additional).marginals, rtol=0, atol=1e-13)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.kind != "sequential_k_subsets"], ids=repr)
def test_a_part_forced_by_a_huge_score_leaves_the_rest_exact(family: Family):
    scores, additional = family.draw(6, seed=17)
    scores[:, 0] = 1e9
    unary, parts = family.all()
    rest = Family(family.kind, family.sizes, lambda: unary[unary[:, 0] > 0], lambda u: parts[unary[:, 0] > 0])
    found = family.search(scores, additional)
    scores[:, 0] = 0.0
    for row in range(6):
        exact = certified(rest, scores, additional, found, row)
        assert (found.marginals[row] - exact).abs().max() <= 1e-13


@every_family
def test_iteration_limit_is_kept_and_reported(family: Family):
    scores, additional = (0.05 * a for a in family.draw(4, seed=18))
    whole = family.search(scores, additional)
    found = family.search(scores, additional, max_iter=2)
    cut = whole.iterations > 2
    assert cut.any() and (found.iterations[cut] == 2).all() and (found.residual[cut] > 0).all()
    assert (whole.iterations < 5000).all() and (whole.residual < 1e-12).all()


def test_strides_and_negated_views_make_no_difference():
    family = FAMILIES[4]
    scores, additional = family.draw(4)
    strided = scores.repeat_interleave(2, -1)[:, ::2], additional.mT.contiguous().mT
    assert torch.equal(family.search(*strided).marginals, family.search(scores, additional).marginals)


def test_sizes_that_do_not_fit_are_refused():
    scores, none = torch.zeros(2, 6, dtype=F64), torch.zeros(2, 0, dtype=F64)
    for kind, sizes, graph in [
        ("k_subsets", (5, 2, 0), None),
        ("sequence", (4, 2), None),
        ("arborescence", (3, 0), None),
        ("spanning_tree", (3,), torch.zeros(2, 5, dtype=torch.int64)),
        ("spanning_tree", (3,), torch.full((2, 6), 3)),
        ("spanning_tree", (3,), None),
    ]:
        with pytest.raises(ValueError, match=kind):
            compiled.active_set(scores, none, kind, sizes, graph, None, TOL, 10)
    with pytest.raises(ValueError, match="sequential_k_subsets"):
        compiled.active_set(
            scores, torch.zeros(2, 4, dtype=F64), "sequential_k_subsets", (6, 2, 0), None, None, TOL, 10
        )
    with pytest.raises(ValueError, match="nothing"):
        compiled.active_set(scores, none, "nothing", (6,), None, None, TOL, 10)
    with pytest.raises(ValueError, match="float64"):
        compiled.active_set(scores.float(), none, "k_subsets", (6, 2, 0), None, None, TOL, 10)


# ---- packed structures


@every_family
def test_packed_structures_compute_what_tensors_of_0_and_1_do(family: Family):
    scores, additional = family.draw(5, seed=19)
    scores[2] = math.nan
    found = family.search(0.3 * scores, 0.3 * additional)
    scores[2] = 0.0
    dense = found.unary @ scores[..., None] + found.additional @ additional[..., None]
    assert torch.allclose(found.totals(scores, additional), dense[..., 0], rtol=0, atol=1e-13)
    weights = torch.randn_like(found.weights)
    for mixed, parts in zip(found.mixture(weights), (found.unary, found.additional), strict=True):
        assert torch.allclose(mixed, (weights[:, None] @ parts)[:, 0], rtol=0, atol=1e-13)
    assert torch.equal(found.overlaps, found.unary @ found.unary.mT)


def test_packed_structures_are_differentiable_twice_and_in_both_modes():
    family = FAMILIES[5]
    found = family.search(*(0.3 * a for a in family.draw(2)))
    scores, additional = (a.requires_grad_() for a in family.draw(2, seed=20))
    weights = torch.randn_like(found.weights).requires_grad_()

    def square(scores: Tensor, additional: Tensor, weights: Tensor) -> Tensor:
        unary, parts = found.mixture(weights * found.totals(scores, additional))
        return torch.cat([unary, parts], -1)

    inputs = (scores, additional, weights)
    assert torch.autograd.gradcheck(square, inputs, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(square, inputs)


def test_additional_scores_of_zero_may_be_left_out():
    family = FAMILIES[4]
    scores, additional = family.draw(4)
    without = family.search(scores, scores.new_zeros(4, 0))
    assert without.additional.shape == (4, without.weights.shape[1], 0)
    zero = family.search(scores, torch.zeros_like(additional))
    assert torch.allclose(without.marginals, zero.marginals, rtol=0, atol=1e-14)
