"""Variables of a factor graph, and what a graph does with edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from omegamax.structured import Budget, DependencyTree, Factor, FactorGraph, Pair, Sequence, Subsets, Xor, sparsemap
from structured.joint import solved
from structured.test_factor_graph import parser_graph

F64 = torch.float64
GRID = torch.arange(12.0).reshape(3, 4) / 12


@pytest.mark.parametrize(
    "key",
    [
        1,
        -1,
        (2, 3),
        slice(1, None),
        (slice(None), 2),
        (slice(None, None, -1), [0, 2]),
        (..., 0),
        (None, slice(1)),
        [0, 2],
        ([0, 1], [2, 3]),
        GRID.numpy() > 0.5,
        GRID > 0.5,
        torch.tensor([0, 2]),
        (torch.tensor(1), slice(None)),
        np.int64(2),
    ],
)
def test_variable_is_indexed_like_an_array(key):
    fg = FactorGraph()
    u = fg.variable_from(GRID)
    fg.solve()
    expected = GRID.numpy()[_for_numpy(key)]
    assert u[key].shape == expected.shape
    assert np.array_equal(u[key].value.numpy(), expected)
    assert np.array_equal((~u)[key].value.numpy(), 1 - expected)
    assert np.array_equal((~u[key]).value.numpy(), 1 - expected)


def _for_numpy(key):
    if isinstance(key, tuple):
        return tuple(map(_for_numpy, key))
    return key.numpy() if isinstance(key, torch.Tensor) else key


def test_variable_behaves_like_a_sequence():
    fg = FactorGraph()
    u = fg.variable_from(GRID)
    fg.solve()
    assert len(u) == 3 and [row.shape for row in u] == [(4,)] * 3
    assert torch.equal(u.T.value, GRID.T) and torch.equal(u.reshape(2, 6).value, GRID.reshape(2, 6))
    assert torch.equal((~~u).value, GRID)
    assert repr(~u[0]) == "Variable(shape=(4,), some negated)" and repr(u) == "Variable(shape=(3, 4))"
    with pytest.raises(IndexError, match=r"Variable of shape \(3, 4\): .*out of bounds"):
        u[3]
    with pytest.raises(TypeError, match="a single variable has no length"):
        len(u[0, 0])
    with pytest.raises(TypeError, match="no truth value"):
        bool(u)


def test_factor_made_with_variables_is_the_same_as_one_added_to_them():
    scores = torch.randn(4, 4, dtype=F64)
    values = []
    for bound in (True, False):
        fg = FactorGraph()
        u = fg.variable_from(scores)
        if bound:
            fg.add(DependencyTree(u, projective=True))
        else:
            fg.add(DependencyTree(projective=True), u)
        fg.solve()
        values.append(u.value)
    assert torch.equal(*values)
    with pytest.raises(TypeError, match=r"variables of DependencyTree\(\) are given twice"):
        fg.add(DependencyTree(u), u)
    with pytest.raises(TypeError, match=r"as in add\(DependencyTree\(u\)\), got none"):
        fg.add(DependencyTree())


@pytest.mark.parametrize("make", [DependencyTree, lambda *u: Subsets(*u, 2), lambda *u: Sequence(*u, transition=None)])
def test_factor_on_variables_is_the_factor_that_holds_them(make):
    scores = torch.randn(3, 3, dtype=F64)
    u = FactorGraph().variable_from(scores)
    held, bare = make(u), make()
    assert type(held) is type(bare) and held.variables is u and bare.variables is None
    assert repr(held) == repr(bare)
    with pytest.raises(ValueError, match=r"sparsemap: factor must hold no variables of a FactorGraph, got"):
        sparsemap(scores, held)
    marginals = held.solve(scores[None]).marginals if held.event_dims == 2 else held.solve(scores).marginals
    assert torch.equal(marginals.reshape(3, 3), sparsemap(scores, bare))


def test_value_comes_in_the_shape_and_dtype_of_its_scores():
    fg = FactorGraph()
    u = fg.variable_from(torch.randn(2, 5, 3, 4).half(), batch_dims=2)
    v = fg.variable_from(torch.randn(2, 5, dtype=F64), batch_dims=2)
    fg.add(Xor(u[0], v))
    report = fg.solve()
    assert u.value.shape == (2, 5, 3, 4) and u.value.dtype == torch.float16
    assert v.value.shape == (2, 5) and v.value.dtype == F64
    assert u[0, 1:3].value.shape == (2, 5, 2) and report.iterations.shape == (2, 5)


def test_float32_is_solved_in_double_precision():
    scores = torch.randn(5, 5)
    fg, u = parser_graph(scores, 2)
    fg.solve()
    wide, v = parser_graph(scores.double(), 2)
    wide.solve()
    assert torch.equal(u.value, v.value.float())


def test_scores_may_be_strided_and_batches_empty():
    scores = torch.randn(4, 4, 3, dtype=F64).permute(2, 1, 0)
    fg, u = parser_graph(scores, 2, batch_dims=1)
    fg.solve()
    same, v = parser_graph(scores.contiguous(), 2, batch_dims=1)
    same.solve()
    assert torch.equal(u.value, v.value)
    none, w = parser_graph(scores[:0], 2, batch_dims=1)
    assert none.solve().iterations.shape == (0,) and w.value.shape == (0, 4, 4)


def test_value_asks_for_solve_first_and_again_after_a_change():
    fg = FactorGraph()
    u = fg.variable_from(torch.zeros(3))
    with pytest.raises(RuntimeError, match="call solve"):
        _ = u.value
    fg.solve()
    assert u.value.shape == (3,)
    fg.add(Xor(u))
    with pytest.raises(RuntimeError, match="call solve"):
        _ = u.value
    fg.solve()
    fg.variable_from(torch.zeros(2))
    with pytest.raises(RuntimeError, match="call solve"):
        _ = u.value


def test_forbidden_variables_are_off_and_the_rest_as_if_they_were_absent():
    scores = torch.randn(6, 6, dtype=F64)
    scores[2, 3] = scores[4, :3] = scores[0, 5] = -math.inf
    for budget in (2, 6):
        fg, u = parser_graph(scores, budget)
        fg.solve()
        assert (u.value[scores == -math.inf] == 0).all()
        torch.testing.assert_close(u.value.sum(1), torch.ones(6, dtype=F64), atol=1e-12, rtol=0)
    torch.testing.assert_close(u.value, sparsemap(scores, DependencyTree()), atol=1e-12, rtol=0)
    kept = torch.tensor([0.5, 0.25, -math.inf], dtype=F64)
    value = solved(kept, lambda fg, u: [fg.add(Xor(u)), fg.add(Budget(u[1:], 1)), fg.add(Budget(~u[2:], 1))])
    torch.testing.assert_close(value, torch.tensor([0.625, 0.375, 0.0], dtype=F64), atol=1e-14, rtol=0)


def test_nan_and_infinity_spoil_their_own_example():
    scores = torch.randn(4, 5, 5, dtype=F64)
    scores[1, 2, 3], scores[2, 0, 0] = math.nan, math.inf
    fg, u = parser_graph(scores, 2, batch_dims=1)
    fg.solve()
    alone, v = parser_graph(scores[[0, 3]], 2, batch_dims=1)
    alone.solve()
    assert u.value[1:3].isnan().all()
    torch.testing.assert_close(u.value[[0, 3]], v.value, atol=1e-14, rtol=0)
    s = torch.tensor([0.0, math.nan, math.inf], dtype=F64)
    value = solved(torch.rand(3, 2, dtype=F64), lambda fg, u: fg.add(Pair(u[0], u[1], s)))
    assert value.isnan().any(1).tolist() == [False, True, True]


@pytest.mark.parametrize("size", [1, 2, 12])
def test_flat_scores(size: int):
    fg, u = parser_graph(torch.zeros(size, size, dtype=F64), 2)
    fg.solve()
    torch.testing.assert_close(u.value, torch.full_like(u.value, 1 / size), atol=1e-12, rtol=0)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_large_scores_leave_integral_marginals(scale: float):
    fg, u = parser_graph(scale * torch.randn(6, 6, dtype=F64), 3)
    report = fg.solve()
    assert report.infeasibility < 1e-9
    assert torch.equal(u.value.round(), u.value) == bool(report.integral)
    assert (u.value.sum(0) <= 3 + 1e-9).all()


def test_disjoint_factors_take_scores_of_any_size():
    z = torch.tensor([[1e30, -1e30, 1e29], [3e15, 3e15 + 0.5, 0.0]], dtype=F64)
    value = solved(z, lambda fg, u: [fg.add(Xor(u[:2])), fg.add(Subsets(1), u[2:])])
    torch.testing.assert_close(value, torch.tensor([[1.0, 0.0, 1.0], [0.25, 0.75, 1.0]], dtype=F64))


def test_scores_beyond_precision_end_with_a_warning_or_a_solution():
    fg, u = parser_graph(1e20 * torch.randn(4, 4, dtype=F64), 1)
    with pytest.warns(RuntimeWarning, match="factors disagree by up to"):
        fg.solve(max_iter=50)
    assert u.value.isfinite().all()


def test_contradictions_are_named():
    fg = FactorGraph()
    u = fg.variable_from(torch.zeros(2, 3), batch_dims=1)
    fg.add(Xor(u[0]))
    fg.add(Xor(~u[0]))
    fg.add(Budget(u, 3))
    with pytest.raises(
        ValueError, match=r"contradict each other in example \(0,\).* at odds are Xor on 1 .*, Xor on 1"
    ):
        fg.solve()


def test_contradictions_with_forbidden_variables_are_named():
    scores = torch.zeros(2, 4, 4)
    scores[1, 2] = -math.inf
    fg, _ = parser_graph(scores, 2, batch_dims=1)
    with pytest.raises(ValueError, match=r"in example \(1,\), given the variables that scores of -inf forbid"):
        fg.solve()


def test_budget_too_small_for_a_sequence_is_a_contradiction():
    fg = FactorGraph()
    u = fg.variable_from(torch.randn(5, 2))
    fg.add(Sequence(), u)
    fg.add(Budget(u, 4))
    with pytest.raises(ValueError, match=r"contradict each other.* at odds are .*Sequence\(\)"):
        fg.solve()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda fg, u: fg.variable_from([1.0]), TypeError, "scores must be a torch.Tensor, got list"),
        (lambda fg, u: fg.variable_from(torch.tensor([1])), TypeError, "floating-point tensor, got dtype torch.int64"),
        (
            lambda fg, u: fg.variable_from(torch.zeros(3), 2),
            ValueError,
            "batch_dims must be an integer from 0 to 1",
        ),
        (lambda fg, u: fg.variable_from(torch.zeros(3, 3), 1), ValueError, r"batch axes \(\) of the graph, got \(3,\)"),
        (lambda fg, u: fg.add(DependencyTree()), TypeError, r"as in add\(DependencyTree\(u\)\), got none"),
        (lambda fg, u: fg.add(DependencyTree(), torch.zeros(4, 4)), TypeError, "variables must be a Variable.* Tensor"),
        (lambda fg, u: fg.add(DependencyTree(), u[0]), ValueError, r"must have at least 2 axes.* got shape \(4,\)"),
        (lambda fg, u: fg.add(DependencyTree(), u[:3]), ValueError, r"must be square .* got shape \(3, 4\)"),
        (lambda fg, u: fg.add(Subsets(5), u[0]), ValueError, "k=5 is more than the 4 items"),
        (lambda fg, u: fg.add(Sequence(), u, torch.zeros(3)), ValueError, r"must be \[\*, 56\], got shape \(3,\)"),
        (lambda fg, u: fg.add(Sequence(), u, torch.zeros(2, 56)), ValueError, "do not broadcast"),
        (lambda fg, u: fg.add(Sequence(), u, [1.0]), TypeError, "additional must be a torch.Tensor, got list"),
        (lambda fg, u: fg.add(Xor(u), u), TypeError, "variables and additional belong to structured factors"),
        (lambda fg, u: fg.add(u), TypeError, "factor must be a logic factor or a structured Factor, got Variable"),
        (lambda fg, u: FactorGraph().add(Xor(u)), ValueError, "factor must be on variables of this graph"),
        (lambda fg, u: FactorGraph().add(Sequence(), u), ValueError, "variables must be of this graph"),
        (lambda fg, u: fg.solve(max_iter=0), ValueError, "max_iter must be an integer >= 1, got 0"),
        (lambda fg, u: fg.solve(tol=0.0), ValueError, r"tol must be a finite number > 0, got 0"),
        (lambda fg, u: fg.solve(tol=float("nan")), ValueError, "tol must be a finite number > 0, got nan"),
        (lambda fg, u: FactorGraph().solve(), ValueError, "the graph has no variables"),
    ],
)
def test_graph_refuses(act, error, message):
    fg = FactorGraph()
    u = fg.variable_from(torch.zeros(4, 4))
    with pytest.raises(error, match=message):
        act(fg, u)


def test_own_factor_that_promises_parts_must_give_them():
    class Silent(Factor):
        def maximize(self, scores, additional):
            return (scores > 0).to(scores)

        def features(self, structures):
            return structures, None

    fg = FactorGraph()
    u = fg.variable_from(torch.randn(3))
    fg.add(Silent(), u, additional=torch.zeros(2))
    with pytest.raises(ValueError, match=r"Silent.features: additional parts must be .* shape \(1, 2\), got NoneType"):
        fg.solve()


def test_graph_prints():
    fg, _ = parser_graph(torch.zeros(3, 3), 2)
    assert repr(fg) == "FactorGraph(9 variables, 4 factors)"
