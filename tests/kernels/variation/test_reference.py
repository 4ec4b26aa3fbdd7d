"""Total variation in plain torch: certificates of optimality, groups by brute force, hostile rows."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from omegamax._warnings import ConvergenceWarning
from omegamax.kernels.variation import flow, reference
from omegamax.kernels.variation.graphs import ChainGraph, Graph, GridGraph, average

F64 = torch.float64
inf, nan = math.inf, math.nan


def edges_of(graph: Graph) -> Tensor:
    return torch.stack([graph.i, graph.j])


def some_graph(nodes: int, edges: int, seed: int) -> Tensor:
    pairs = torch.randint(0, nodes, (2, 3 * edges + 9), generator=torch.Generator().manual_seed(seed))
    return pairs[:, pairs[0] != pairs[1]][:, :edges]


def unrest(x: Tensor, w: Tensor, edges: Tensor, limits: Tensor) -> float:
    """How far the heights of the best flow that proves ``w`` stay from it, for one row; 0 where ``w`` is optimal.

    A linear program: flows within their limits, at them on edges whose ends differ.
    """
    i, j = edges.numpy()
    nodes, count = len(x), edges.shape[1]
    incidence = np.zeros((nodes, count))
    np.add.at(incidence, (i, np.arange(count)), 1)
    np.add.at(incidence, (j, np.arange(count)), -1)
    step, limits = (w[i] - w[j]).sign().numpy(), limits.numpy()
    low, high = np.where(step > 0, limits, -limits), np.where(step < 0, -limits, limits)
    goal, one = (x - w).numpy(), np.ones((nodes, 1))
    best = scipy.optimize.linprog(
        np.eye(count + 1)[-1],
        np.block([[incidence, -one], [-incidence, -one]]),
        np.concatenate([goal, -goal]),
        bounds=[*zip(low, high, strict=True), (0, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(np.abs(goal - incidence @ np.clip(best.x[:-1], low, high)).max())


@st.composite
def rows(draw, max_size: int = 12) -> Tensor:
    """Rows with many ties and close calls."""
    close = st.integers(-16, 16).map(lambda n: n / 8)
    anything = st.floats(-100, 100, width=32)
    return torch.tensor(
        draw(st.lists(close, min_size=1, max_size=max_size) | st.lists(anything, min_size=1)), dtype=F64
    )


strengths = st.sampled_from([0.0, 0.0625, 0.125, 0.3, 0.5, 1.0, 2.5, 10.0, 1e3])


def assert_taut(x: Tensor, w: Tensor, limits: Tensor) -> None:
    """The flow of a chain is what its values leave, so that optimality can be seen: within limits, at them downhill."""
    flow = (x - w).cumsum(-1)
    scale = 1e-14 * (1 + x.abs().max().item()) * len(x)
    assert flow[-1].abs() <= scale
    assert (flow[:-1].abs() <= limits + scale).all()
    step = w[:-1] - w[1:]
    assert ((flow[:-1] - limits * step.sign())[step != 0].abs() <= scale).all()


@given(x=rows(), strength=strengths)
def test_chain_is_optimal(x: Tensor, strength: float):
    w = reference.tv_chain(x, strength, 0)
    assert_taut(x, w, torch.full((len(x) - 1,), strength, dtype=F64))


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 3000])
@pytest.mark.parametrize("strength", [0.01, 0.3, 3.0, 100.0])
def test_chain_is_optimal_on_rows_of_every_kind(size: int, strength: float):
    t = torch.linspace(-1, 1, size, dtype=F64)
    kinds = [torch.randn(size, dtype=F64), t, t.abs(), (9 * t).sin(), (t > 0.3).double(), 2 * (-30 * (t + 1)).exp()]
    kinds += [torch.randn(size, dtype=F64).cumsum(0), torch.randn(size, dtype=F64).sign(), (t * size).round() % 2]
    x = torch.stack(kinds)
    for row, w in zip(x, reference.tv_chain(x, strength, -1), strict=True):
        assert_taut(row, w, torch.full((size - 1,), strength, dtype=F64))


def test_chain_whose_pieces_come_off_one_by_one_is_optimal():
    x = torch.tensor([4.0**n for n in range(40)], dtype=F64)
    assert_taut(x / 4.0**30, reference.tv_chain(x / 4.0**30, 1e-3, 0), torch.full((39,), 1e-3, dtype=F64))


@pytest.mark.parametrize("strength", [0.05, 0.5, 5.0])
def test_chain_grid_and_graph_agree_on_a_chain(strength: float):
    x = torch.cat([torch.randn(20, 30, dtype=F64), (3 * torch.randn(20, 30, dtype=F64)).round()])
    w = reference.tv_chain(x, strength, -1)
    edges = edges_of(ChainGraph(30, x.device))
    assert (reference.tv_graph(x, edges, torch.ones(29, dtype=F64), strength) - w).abs().max() <= 1e-12
    assert (reference.tv_grid(x[:, None], strength)[:, 0] - w).abs().max() <= 1e-12
    assert (reference.tv_grid(x[..., None], strength)[..., 0] - w).abs().max() <= 1e-12


@given(x=rows(12), strength=strengths, seed=st.integers(0, 999))
def test_graph_is_optimal(x: Tensor, strength: float, seed: int):
    edges = some_graph(len(x), 2 * len(x), seed) if len(x) > 1 else torch.empty(2, 0, dtype=torch.long)
    weights = torch.randint(0, 4, (edges.shape[1],), generator=torch.Generator().manual_seed(seed)).double() / 2
    w = reference.tv_graph(x, edges, weights, strength)
    assert unrest(x, w, edges, strength * weights) <= 1e-9 * (1 + x.abs().max())


@pytest.mark.parametrize("strength", [0.05, 0.25, 1.0, 30.0])
@pytest.mark.parametrize("kind", ["noise", "steps", "ties"])
def test_grid_is_optimal(strength: float, kind: str):
    x = torch.randn(3, 7, 6, dtype=F64)
    x = {"noise": x, "steps": (2 * x).round(), "ties": x.sign()}[kind]
    edges = edges_of(GridGraph(7, 6, x.device))
    limits = torch.full((edges.shape[1],), strength, dtype=F64)
    for row, w in zip(x, reference.tv_grid(x, strength), strict=True):
        assert unrest(row.flatten(), w.flatten(), edges, limits) <= 1e-9


@pytest.mark.parametrize("size", [(14, 14), (32, 24)])
@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_flow_of_a_large_grid_proves_its_values(size: tuple[int, int], strength: float):
    x = torch.rand(size[0] * size[1], 3, dtype=F64) - 0.5
    grid = GridGraph(*size, x.device)
    limits = torch.full((grid.i.numel(), 3), strength, dtype=F64)
    u, _ = flow.ascend(grid, x, limits)
    w = flow.solve("tv_prox_2d", grid, x, limits)
    assert (u.abs() <= limits).all()
    primal = (w - x).square().sum(0) / 2 + (limits * grid.difference(w).abs()).sum(0)
    dual = (x.square().sum(0) - (x - grid.divergence(u)).square().sum(0)) / 2
    assert (primal - dual).abs().max() <= 1e-12
    assert (w - x + grid.divergence(u)).abs().max() <= 1e-10


def brute_groups(w: Tensor, edges: Tensor, kept: Tensor) -> list[list[int]]:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(w)))
    graph.add_edges_from((int(i), int(j)) for i, j, k in zip(*edges, kept, strict=True) if k and w[i] == w[j])
    return [sorted(c) for c in nx.connected_components(graph)]


@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_vjp_is_the_mean_over_each_group(strength: float):
    edges = some_graph(15, 24, 3)
    weights = torch.rand(24, dtype=F64) * (torch.rand(24) > 0.2)
    x = torch.randn(6, 15, dtype=F64)
    x[0, 3] = x[1, 0] = x[1, 14] = -inf
    w = reference.tv_graph(x, edges, weights, strength)
    g = torch.randn(6, 15, dtype=F64)
    ours = reference.tv_graph_vjp(w, g, edges, weights, strength)
    slope = reference.tv_graph_slope(w, edges, weights, strength)
    for row in range(6):
        for group in brute_groups(w[row], edges, weights > 0):
            if w[row, group[0]] == -inf:
                assert (ours[row, group] == 0).all() and (slope[row, group] == 0).all()
                continue
            assert (ours[row, group] - g[row, group].mean()).abs().max() <= 1e-15
            boundary = sum(
                float(a) * (1 if i in group else -1) * float((w[row, i] - w[row, j]).sign())
                for i, j, a in zip(*edges.tolist(), weights, strict=True)
                if (i in group) != (j in group) and w[row, i] > -inf and w[row, j] > -inf
            )
            assert (slope[row, group] + boundary / len(group)).abs().max() <= 1e-14


def test_vjp_of_chains_and_grids_is_that_of_their_graphs():
    x = torch.randn(4, 5, 6, dtype=F64)
    x[0, 1, 2] = -inf
    g = torch.randn(4, 5, 6, dtype=F64)
    w = reference.tv_grid(x, 0.3)
    edges = edges_of(GridGraph(5, 6, x.device))
    flat = reference.tv_graph_vjp(w.flatten(1), g.flatten(1), edges, torch.ones(edges.shape[1]), 0.3)
    assert torch.equal(reference.tv_grid_vjp(w, g, 0.3), flat.reshape(g.shape))
    slope = reference.tv_graph_slope(w.flatten(1), edges, torch.ones(edges.shape[1], dtype=F64), 0.3)
    assert (reference.tv_grid_slope(w, 0.3) - slope.reshape(g.shape)).abs().max() <= 1e-15
    for dim, size in ((0, 4), (1, 5), (2, 6)):
        w = reference.tv_chain(x, 0.3, dim)
        edges, ones = edges_of(ChainGraph(size, x.device)), torch.ones(size - 1, dtype=F64)
        moved = [t.movedim(dim, -1) for t in (w, g)]
        along = reference.tv_graph_vjp(*moved, edges, ones, 0.3)
        assert (reference.tv_chain_vjp(w, g, 0.3, dim) - along.movedim(-1, dim)).abs().max() <= 1e-15
        slope = reference.tv_graph_slope(moved[0], edges, ones, 0.3)
        assert (reference.tv_chain_slope(w, 0.3, dim) - slope.movedim(-1, dim)).abs().max() <= 1e-15


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_slope_is_the_derivative_in_the_strength(dim: int):
    x, step = torch.randn(5, 6, 7, dtype=F64), 1e-6
    for solve, slope, rest in (
        (reference.tv_chain, reference.tv_chain_slope, (dim,)),
        (reference.tv_grid, reference.tv_grid_slope, ()),
    ):
        change = (solve(x, 0.4 + step, *rest) - solve(x, 0.4 - step, *rest)) / (2 * step)
        assert (slope(solve(x, 0.4, *rest), 0.4, *rest) - change).abs().max() <= 1e-8


def test_strength_zero_is_the_identity_also_at_ties():
    x = torch.tensor([[0.1, 0.1, 0.1, 0.7], [1 / 3, 1e30, 1e-30, 1e-30]], dtype=F64)
    g = torch.randn(2, 4, dtype=F64)
    zero = torch.tensor([[0.0], [0.5]], dtype=F64)
    assert torch.equal(reference.tv_chain(x, 0.0, -1), x) and torch.equal(reference.tv_grid(x, 0.0), x)
    assert torch.equal(reference.tv_chain_vjp(x, g, 0.0, -1), g) and torch.equal(reference.tv_grid_vjp(x, g, 0.0), g)
    assert torch.equal(reference.tv_chain(x, zero, -1)[0], x[0])
    assert torch.equal(reference.tv_chain_vjp(x, g, zero, -1)[0], g[0])


def test_each_row_has_its_own_strength():
    x, each = torch.randn(4, 3, 5, dtype=F64), torch.tensor([0.0, 0.1, 1.0, 10.0], dtype=F64)
    for row in range(4):
        s = each[row].item()
        assert torch.equal(reference.tv_grid(x, each.reshape(4, 1, 1))[row], reference.tv_grid(x[row], s))
        w = reference.tv_chain(x, each.reshape(4, 1, 1), 1)
        assert torch.equal(w[row], reference.tv_chain(x[row], s, 0))


def test_absent_entries_part_their_neighbours():
    x = torch.randn(9, dtype=F64)
    x[3] = x[4] = x[8] = -inf
    w = reference.tv_chain(x, 0.3, 0)
    for part in (slice(0, 3), slice(5, 8)):
        assert (w[part] - reference.tv_chain(x[part], 0.3, 0)).abs().max() <= 1e-15
    assert (w[[3, 4, 8]] == -inf).all()
    assert (reference.tv_grid(x.reshape(1, 9), 0.3)[0] - w)[w > -inf].abs().max() <= 1e-12


@pytest.mark.parametrize("strength", [0.1, 0.3, 0.5])
def test_groups_that_come_out_equal_are_one(strength: float):
    # Ties on the limit: rounding, which would put neighbours in either order, must not decide what is fused.
    x = torch.randn(8, 12, 12, dtype=F64).round()
    for w in (reference.tv_grid(x, strength), reference.tv_chain(x, strength, 2)):
        steps = w.diff(dim=2)
        assert (steps == 0).any() and ((steps == 0) | (steps.abs() > 1e-9)).all()
    steps = reference.tv_grid(x, strength).diff(dim=1)
    assert ((steps == 0) | (steps.abs() > 1e-9)).all()


@pytest.mark.parametrize("bad", [nan, inf])
def test_bad_entry_spoils_its_own_row_only(bad: float):
    clean = torch.randn(3, 4, 5, dtype=F64)
    x = clean.clone()
    x[1, 2, 3], x[1, 0, 0] = bad, -inf
    for solve in (reference.tv_grid, lambda x, s: reference.tv_chain(x.flatten(1), s, 1).reshape(x.shape)):
        w = solve(x, 0.3)
        assert w[1].isnan().all() and torch.equal(w[[0, 2]], solve(clean, 0.3)[[0, 2]])


def test_strength_that_is_not_one_gives_nan():
    x = torch.randn(3, 5, dtype=F64)
    w = reference.tv_chain(x, torch.tensor([[0.5], [-1.0], [nan]], dtype=F64), -1)
    assert w[0].isfinite().all() and w[1:].isnan().all()


@pytest.mark.parametrize("far", [1e9, 1e30, 3e38, -1e9, -1e30])
def test_far_entries_leave_the_others_exact(far: float):
    x = torch.randn(6, 6, dtype=F64)
    x[2, 3] = x[2, 4] = far
    for solve, near in ((reference.tv_grid, 100.0), (lambda x, s: reference.tv_chain(x, s, 1), 100.0)):
        twin = x.clone()
        twin[2, 3] = twin[2, 4] = math.copysign(near, far)
        others = twin.abs() < 50
        assert (solve(x, 0.2)[others] - solve(twin, 0.2)[others]).abs().max() <= 1e-13


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_result_follows_the_scale(scale: float):
    x = torch.randn(4, 5, 6, dtype=F64)
    for strength in (0.1, 1.0):
        w = reference.tv_grid(x, strength)
        assert (reference.tv_grid(scale * x, scale * strength) / scale - w).abs().max() <= 1e-14
        w = reference.tv_chain(x, strength, 1)
        assert (reference.tv_chain(scale * x, scale * strength, 1) / scale - w).abs().max() <= 1e-14


def test_largest_floats_do_not_overflow():
    x = torch.tensor([1.7e308, -1.7e308, 1e308], dtype=F64)
    assert (reference.tv_chain(x, 1e308, 0) / 1e308 - torch.tensor([0.7, 0.15, 0.15], dtype=F64)).abs().max() <= 1e-15
    assert torch.equal(reference.tv_chain(x, 1.0, 0), x)
    assert reference.tv_chain(x, 1.7e308, 0).unique().numel() == 1


@pytest.mark.parametrize("level", [0.0, 1 / 3, -1e30, 1e300, 5e-324])
def test_flat_rows_stay_as_they_are(level: float):
    x = torch.full((3, 4, 5), level, dtype=F64)
    assert torch.equal(reference.tv_chain(x, 0.7, -1), x) and torch.equal(reference.tv_grid(x, 0.7), x)


def test_float32_is_a_rounding_of_float64():
    x = torch.randn(5, 6, 7)
    assert torch.equal(reference.tv_grid(x, 0.25), reference.tv_grid(x.double(), 0.25).float())
    assert torch.equal(reference.tv_chain(x, 0.25, 1), reference.tv_chain(x.double(), 0.25, 1).float())


def test_result_does_not_depend_on_the_rest_of_the_batch():
    x = torch.randn(16, 9, 9, dtype=F64)
    each = torch.logspace(-2, 1, 16, dtype=F64).reshape(16, 1, 1)
    whole = reference.tv_grid(x, each)
    for row in range(16):
        assert (reference.tv_grid(x[row], each[row].item()) - whole[row]).abs().max() <= 1e-14


def test_exhausted_steps_are_reported_with_the_gap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flow, "MAX_STEPS", 50)
    x = torch.randn(1, 400, dtype=F64)
    told = r"tv_prox_2d: stopped after 50 steps with a relative duality gap of \d\.\de"
    with pytest.warns(ConvergenceWarning, match=told):
        reference.tv_grid(x, 100.0)


def test_rows_that_need_all_steps_are_returned_beside_those_that_do_not(monkeypatch: pytest.MonkeyPatch):
    x = torch.cat([torch.zeros(7, 1, 60, dtype=F64), torch.randn(1, 1, 60, dtype=F64)])
    exact = reference.tv_grid(x, 20.0)
    monkeypatch.setattr(flow, "MAX_STEPS", 100)
    monkeypatch.setattr(flow, "GAP", inf)
    assert (reference.tv_grid(x, 20.0) - exact).abs().max() <= 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_the_joined_edges(seed: int):
    generator = torch.Generator().manual_seed(seed)
    edges = some_graph(40, 60, seed)
    joined = torch.rand(60, 8, generator=generator) < 0.6
    label = Graph(40, edges).components(joined)
    for row in range(8):
        groups = brute_groups(torch.zeros(40), edges, joined[:, row])
        assert all((label[g, row] == g[0]).all() for g in groups)


def test_components_of_a_snake_are_found():
    order = torch.randperm(500)
    graph = Graph(500, torch.stack([order[:-1], order[1:]]))
    assert (graph.components(torch.ones(499, 1, dtype=torch.bool)) == 0).all()


@pytest.mark.parametrize(
    "graph", [ChainGraph(12, torch.device("cpu")), GridGraph(3, 4, torch.device("cpu"))], ids=["chain", "grid"]
)
def test_slices_do_what_indices_do(graph: Graph):
    plain = Graph(graph.nodes, edges_of(graph))
    v, u = torch.randn(12, 5, dtype=F64), torch.randn(graph.i.numel(), 5, dtype=F64)
    assert torch.equal(graph.difference(v), plain.difference(v))
    assert (graph.divergence(u) - plain.divergence(u)).abs().max() <= 1e-15
    joined = u > 0
    assert (average(v, graph.components(joined)) - average(v, plain.components(joined))).abs().max() <= 1e-15
    # The divergence is the transpose of the difference.
    assert ((graph.difference(v) * u).sum() - (v * graph.divergence(u)).sum()).abs() <= 1e-13
