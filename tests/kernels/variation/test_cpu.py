"""Compiled total variation: certificates of optimality, groups and derivatives against plain torch, hostile rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omegamax._warnings import ConvergenceWarning
from omegamax.kernels import _library
from omegamax.kernels.variation import cpu as native
from omegamax.kernels.variation import reference as plain
from omegamax.kernels.variation.graphs import GridGraph

pytestmark = pytest.mark.skipif(
    not _library.is_available("variation"), reason="omegamax was installed without compiled kernels"
)

F64 = torch.float64
inf, nan = math.inf, math.nan


def grid_edges(height: int, width: int) -> Tensor:
    grid = GridGraph(height, width, torch.device("cpu"))
    return torch.stack([grid.i, grid.j])


def unproved(x: Tensor, w: Tensor, edges: Tensor, limits: Tensor) -> float:
    """How far the best flow stays from proving ``w``, for one row: a linear program.

    A flow within its limits, at them on edges whose ends differ, proves ``w`` if it takes ``x`` there.
    """
    (i, j), limits = edges.numpy(), limits.numpy()
    count, nodes = len(i), len(x)
    ones = np.ones(count)
    incidence = scipy.sparse.csr_matrix(
        (np.concatenate([ones, -ones]), (np.concatenate([i, j]), np.tile(np.arange(count), 2))), (nodes, count)
    )
    step = (w[i] - w[j]).sign().numpy()
    low, high = np.where(step > 0, limits, -limits), np.where(step < 0, -limits, limits)
    goal, one = (x - w).numpy(), np.ones((nodes, 1))
    best = scipy.optimize.linprog(
        np.append(np.zeros(count), 1.0),
        scipy.sparse.bmat([[incidence, -one], [-incidence, -one]]),
        np.concatenate([goal, -goal]),
        bounds=[*zip(low, high, strict=True), (0, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(np.abs(goal - incidence @ np.clip(best.x[:-1], low, high)).max())


def assert_taut(x: Tensor, w: Tensor, strength: float) -> None:
    """On a chain the flow is what the values leave: within limits, at them downhill."""
    flow = (x - w).cumsum(-1)
    close = 1e-14 * (1 + x.abs().max().item()) * len(x)
    assert flow[-1].abs() <= close
    assert (flow[:-1].abs() <= strength + close).all()
    step = w[:-1] - w[1:]
    assert ((flow[:-1] - strength * step.sign())[step != 0].abs() <= close).all()


def pictures(height: int, width: int, seed: int = 0) -> dict[str, Tensor]:
    """Images of every kind, one of each."""
    noise = torch.randn(height, width, dtype=F64, generator=torch.Generator().manual_seed(seed))
    y, x = torch.meshgrid(torch.arange(height, dtype=F64), torch.arange(width, dtype=F64), indexing="ij")
    return {
        "noise": noise,
        "integers": (2 * noise).round(),
        "signs": noise.sign(),
        "flat": torch.full_like(noise, 0.1),
        "ramp": x + y,
        "checks": (x + y) % 2,
        "steps": (x // 3 + y // 4) % 3 + 0.1 * noise,
        "smooth": noise.cumsum(0).cumsum(1) / 4,
        "spike": 100 * ((x == width // 2) & (y == height // 2)).double(),
        "far": torch.where(noise > 1.5, 1e9, noise),
        "offset": noise + 1e6,
    }


# ---- optimality ----


@given(
    height=st.integers(2, 5),
    width=st.integers(2, 5),
    data=st.data(),
    strength=st.sampled_from([0.0625, 0.125, 0.25, 0.3, 0.5, 1.0, 2.5, 100.0]),
)
def test_grid_with_ties_is_optimal(height: int, width: int, data: st.DataObject, strength: float):
    eighths = st.integers(-16, 16).map(lambda n: n / 8)
    x = torch.tensor(data.draw(st.lists(eighths, min_size=height * width, max_size=height * width)), dtype=F64)
    w = native.tv_grid(x.reshape(1, height, width), strength).flatten()
    edges = grid_edges(height, width)
    assert unproved(x, w, edges, torch.full((edges.shape[1],), strength, dtype=F64)) <= 1e-9


@pytest.mark.parametrize("size", [(2, 2), (3, 20), (20, 3), (9, 9), (8, 17), (14, 14), (17, 8)], ids=str)
@pytest.mark.parametrize("strength", [0.03, 0.3, 1.0, 8.0])
def test_grids_of_every_kind_are_optimal(size: tuple[int, int], strength: float):
    edges = grid_edges(*size)
    limits = torch.full((edges.shape[1],), strength, dtype=F64)
    for kind, x in pictures(*size).items():
        w = native.tv_grid(x[None], strength)[0]
        # The program sees the finite differences alone: what is far is far, and an offset is no matter.
        x, w = x - x[0, 0], w - x[0, 0]
        assert unproved(x.flatten(), w.flatten(), edges, limits) <= 1e-9 * (1 + x.abs().max().item()), kind


@pytest.mark.parametrize("strength", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_large_grids_agree_with_plain_torch(strength: float):
    x = torch.stack([torch.randn(40, 30, dtype=F64), (3 * torch.randn(40, 30, dtype=F64)).round()])
    assert (native.tv_grid(x, strength) - plain.tv_grid(x, strength)).abs().max() <= 1e-12


@settings(max_examples=100)
@given(nodes=st.integers(1, 12), seed=st.integers(0, 10_000), strength=st.sampled_from([0.1, 0.25, 1.0, 3.0, 50.0]))
def test_graph_is_optimal(nodes: int, seed: int, strength: float):
    generator = torch.Generator().manual_seed(seed)
    # Edges twice or to themselves, weights of zero, nodes with no edge: all of them turn up.
    edges = torch.randint(0, nodes, (2, 2 * nodes), generator=generator)
    weights = torch.randint(0, 4, (2 * nodes,), generator=generator).double() / 2
    x = torch.randn(nodes, dtype=F64, generator=generator)
    x = x if seed % 2 else (2 * x).round() / 2
    w = native.tv_graph(x[None], edges, weights, strength)[0]
    assert unproved(x, w, edges, strength * weights) <= 1e-9


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("kind", ["star", "tree", "complete", "cycle", "sparse", "dense"])
def test_graphs_of_every_kind_agree_with_plain_torch(kind: str, strength: float):
    n = 60
    i = torch.arange(n)
    edges = {
        "star": torch.stack([torch.zeros(n - 1, dtype=torch.long), i[1:]]),
        "tree": torch.stack([i[1:], (torch.rand(n - 1) * i[1:]).long()]),
        "complete": torch.combinations(i).T,
        "cycle": torch.stack([i, (i + 1) % n]),
        "sparse": torch.randint(n, (2, n)),
        "dense": torch.randint(n, (2, 10 * n)),
    }[kind]
    x, weights = torch.randn(5, n, dtype=F64), torch.rand(edges.shape[1], dtype=F64)
    w = native.tv_graph(x, edges, weights, strength)
    assert (w - plain.tv_graph(x, edges, weights, strength)).abs().max() <= 1e-12


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10, 100, 3000])
@pytest.mark.parametrize("strength", [1e-20, 0.01, 0.3, 3.0, 100.0])
def test_chains_of_every_kind_are_optimal(size: int, strength: float):
    t = torch.linspace(-1, 1, size, dtype=F64)
    kinds = [torch.randn(size, dtype=F64), t, t.abs(), (9 * t).sin(), (t > 0.3).double(), 2 * (-30 * (t + 1)).exp()]
    kinds += [torch.randn(size, dtype=F64).cumsum(0), torch.randn(size, dtype=F64).sign(), (t * size).round() % 2]
    x = torch.stack(kinds)
    for row, w in zip(x, native.tv_chain(x, strength, -1), strict=True):
        assert_taut(row, w, strength)


def test_chain_takes_linear_time():
    # Slopes on which a scan that starts over at every jump would take an hour.
    x = torch.arange(400_000, dtype=F64) / 1000
    x = torch.stack([x, -x, x.sqrt(), (x - 200).abs(), x.square()])
    for row, w in zip(x, native.tv_chain(x, 1e4, -1), strict=True):
        assert (w.diff().sign() * row.diff().sign() >= 0).all()
        assert abs((w - row).sum().item()) <= 1e-13 * row.abs().sum().item()


@pytest.mark.parametrize("strength", [0.1, 0.3, 0.5])
def test_groups_that_come_out_equal_are_one(strength: float):
    x = torch.randn(8, 12, 12, dtype=F64).round()
    grid, *chains = native.tv_grid(x, strength), native.tv_chain(x, strength, 1), native.tv_chain(x, strength, 2)
    for steps in (grid.diff(dim=1), grid.diff(dim=2), chains[0].diff(dim=1), chains[1].diff(dim=2)):
        assert (steps == 0).any() and ((steps == 0) | (steps.abs() > 1e-9)).all()


# ---- rows, axes, strengths, threads ----


def test_a_row_does_not_depend_on_the_others():
    x = torch.cat([torch.randn(7, 33, dtype=F64), torch.randn(6, 33, dtype=F64).round()])
    x[3, 5] = -inf
    for strength in (1e-20, 0.2, 2.0):
        whole = native.tv_chain(x, strength, -1)
        assert all(torch.equal(native.tv_chain(row, strength, 0), w) for row, w in zip(x, whole, strict=True))
        images = x.reshape(13, 3, 11)
        grids = native.tv_grid(images, strength)
        assert all(torch.equal(native.tv_grid(row, strength), w) for row, w in zip(images, grids, strict=True))


def test_number_of_threads_changes_nothing():
    x, edges = torch.randn(200, 12, 13), grid_edges(12, 13)
    weights = torch.rand(edges.shape[1], dtype=F64)
    g = torch.randn_like(x)

    def everything() -> list[Tensor]:
        chain, grid = native.tv_chain(x, 0.3, 1), native.tv_grid(x, 0.3)
        graph = native.tv_graph(x.flatten(1), edges, weights, 0.3)
        means = native.tv_chain_vjp(chain, g, 0.3, 1), native.tv_grid_vjp(grid, g, 0.3)
        return [chain, grid, graph, *means, native.tv_graph_vjp(graph, g.flatten(1), edges, weights, 0.3)]

    before = torch.get_num_threads()
    try:
        results = [torch.set_num_threads(n) or everything() for n in (1, 2, 5)]
    finally:
        torch.set_num_threads(before)
    for others in results[1:]:
        assert all(map(torch.equal, results[0], others))


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -3])
def test_chains_run_along_any_axis(dim: int):
    x, g = torch.randn(3, 5, 6, 19, dtype=F64), torch.randn(3, 5, 6, 19, dtype=F64)
    each = torch.rand(3, 5, 6, 19, dtype=F64).narrow(dim, 0, 1)
    w = native.tv_chain(x, each, dim)
    last = native.tv_chain(x.movedim(dim, -1), each.movedim(dim, -1), -1).movedim(-1, dim)
    assert torch.equal(w, last)
    assert (native.tv_chain_vjp(w, g, each, dim) - plain.tv_chain_vjp(w, g, each, dim)).abs().max() <= 1e-15
    assert (native.tv_chain_slope(w, each, dim) - plain.tv_chain_slope(w, each, dim)).abs().max() <= 1e-15


def test_views_are_read_as_they_are():
    x = torch.randn(9, 8, 7, dtype=F64)
    for view in (x.transpose(0, 2), x[::2, 1:], x.flip(1), torch._neg_view(x), x[:, :1].expand(9, 8, 7)):
        assert torch.equal(native.tv_grid(view, 0.3), native.tv_grid(view.clone(), 0.3))
        assert torch.equal(native.tv_chain(view, 0.3, 1), native.tv_chain(view.clone(), 0.3, 1))


def test_each_row_has_its_own_strength():
    x, edges = torch.randn(6, 4, 5, dtype=F64), grid_edges(4, 5)
    each, ones = torch.tensor([0.0, 1e-3, 0.1, 1.0, 10.0, inf], dtype=F64), torch.ones(edges.shape[1], dtype=F64)
    grid = native.tv_grid(x, each.reshape(6, 1, 1))
    graph = native.tv_graph(x.flatten(1), edges, ones, each.reshape(6, 1))
    for row, strength in enumerate(each.tolist()):
        assert torch.equal(grid[row], native.tv_grid(x[row], strength))
        assert (graph[row] - grid[row].flatten()).abs().max() <= 1e-14


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_empty_batches_and_empty_rows(shape: tuple[int, ...]):
    x = torch.empty(shape)
    assert native.tv_grid(x, 0.5).shape == native.tv_grid_vjp(x, x, 0.5).shape == shape
    assert native.tv_chain(x, 0.5, 1).shape == native.tv_chain_slope(x, 0.5, 1).shape == shape
    no_edges = torch.empty(2, 0, dtype=torch.long)
    assert native.tv_graph(x, no_edges, torch.empty(0), 0.5).shape == shape


def test_float32_is_a_rounding_of_float64():
    x = torch.randn(9, 13, 14)
    assert torch.equal(native.tv_grid(x, 0.25), native.tv_grid(x.double(), 0.25).float())
    assert torch.equal(native.tv_chain(x, 0.25, 1), native.tv_chain(x.double(), 0.25, 1).float())


# ---- derivatives ----


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.4, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_derivatives_agree_with_plain_torch(strength: float, dtype: torch.dtype):
    x, g = torch.randn(6, 9, 10, dtype=dtype), torch.randn(6, 9, 10, dtype=dtype)
    x[1:3] = x[1:3].round()
    x[0, 1, 2] = x[0, 8, 9] = x[3, 0, 0] = -inf
    close = 8 * torch.finfo(dtype).eps
    w = native.tv_grid(x, strength)
    assert (native.tv_grid_vjp(w, g, strength) - plain.tv_grid_vjp(w, g, strength)).abs().max() <= close
    assert (native.tv_grid_slope(w, strength) - plain.tv_grid_slope(w, strength)).abs().max() <= close
    w = native.tv_chain(x, strength, 1)
    assert (native.tv_chain_vjp(w, g, strength, 1) - plain.tv_chain_vjp(w, g, strength, 1)).abs().max() <= close
    assert (native.tv_chain_slope(w, strength, 1) - plain.tv_chain_slope(w, strength, 1)).abs().max() <= close
    edges = torch.randint(90, (2, 200))
    weights = torch.rand(200, dtype=dtype) * (torch.rand(200) > 0.2)
    w = native.tv_graph(x.flatten(1), edges, weights, strength)
    ours = native.tv_graph_vjp(w, g.flatten(1), edges, weights, strength)
    assert (ours - plain.tv_graph_vjp(w, g.flatten(1), edges, weights, strength)).abs().max() <= close
    slope = native.tv_graph_slope(w, edges, weights, strength)
    assert (slope - plain.tv_graph_slope(w, edges, weights, strength)).abs().max() <= 8 * close


def test_slope_is_the_derivative_in_the_strength():
    x, step = torch.randn(4, 14, 14, dtype=F64), 1e-7
    change = (native.tv_grid(x, 0.4 + step) - native.tv_grid(x, 0.4 - step)) / (2 * step)
    assert (native.tv_grid_slope(native.tv_grid(x, 0.4), 0.4) - change).abs().max() <= 1e-7


def test_credit_of_a_snake_is_shared():
    # Regions that meet late: a spiral of equal values, walls between its arms.
    w = torch.zeros(41, 41, dtype=F64)
    y, x, dy, dx = 0, 0, 0, 1
    w[0, 0] = 1
    for _ in range(3 * 41):
        while 0 <= y + dy < 41 and 0 <= x + dx < 41 and w[y + dy, x + dx] == 0:
            ahead = y + 2 * dy, x + 2 * dx
            if 0 <= ahead[0] < 41 and 0 <= ahead[1] < 41 and w[ahead] == 1:
                break
            y, x = y + dy, x + dx
            w[y, x] = 1
        dy, dx = dx, -dy
    g = torch.randn(1, 41, 41, dtype=F64)
    ours = native.tv_grid_vjp(w[None], g, 1.0)
    assert w.sum() > 800 and (ours[0][w == 1] - g[0][w == 1].mean()).abs().max() <= 1e-14


# ---- hostile rows ----


def test_absent_entries_take_their_edges_with_them():
    x = torch.randn(20, 8, 9, dtype=F64)
    x[torch.rand(20, 8, 9) < 0.3] = -inf
    w = native.tv_grid(x, 0.3)
    edges = grid_edges(8, 9)
    for image, ours in zip(x.flatten(1), w.flatten(1), strict=True):
        there = image > -inf
        number = there.cumsum(0) - 1
        kept = number[edges[:, there[edges].all(0)]]
        alone = native.tv_graph(image[there][None], kept, torch.ones(kept.shape[1], dtype=F64), 0.3)[0]
        assert (ours[there] - alone).abs().max() <= 1e-14 and (ours[~there] == -inf).all()
    assert (native.tv_grid_vjp(w, torch.ones_like(w), 0.3) == (x > -inf)).all()
    rows = native.tv_chain(x, 0.3, -1)
    assert (rows - native.tv_grid(x.reshape(160, 1, 9), 0.3).reshape(x.shape))[x > -inf].abs().max() == 0


@pytest.mark.parametrize("bad", [nan, inf])
def test_bad_entry_spoils_its_own_row_only(bad: float):
    clean = torch.randn(5, 4, 5)
    x = clean.clone()
    x[1, 2, 3], x[1, 0, 0] = bad, -inf
    others, edges = [0, 2, 3, 4], grid_edges(4, 5)
    for solve in (
        lambda x: native.tv_grid(x, 0.3),
        lambda x: native.tv_chain(x.flatten(1), 0.3, 1).reshape(x.shape),
        lambda x: native.tv_graph(x.flatten(1), edges, torch.ones(edges.shape[1]), 0.3).reshape(x.shape),
    ):
        w = solve(x)
        assert w[1].isnan().all() and torch.equal(w[others], solve(clean)[others])


def test_strength_that_is_not_one_gives_nan():
    x = torch.randn(5, 3, 5, dtype=F64)
    strength = torch.tensor([0.5, -1.0, nan, 0.2, 0.1], dtype=F64).reshape(5, 1, 1)
    for w in (native.tv_chain(x, strength, -1), native.tv_grid(x, strength)):
        assert w[[0, 3, 4]].isfinite().all() and w[1:3].isnan().all()


def test_strength_zero_is_the_identity_also_at_ties():
    x = torch.tensor([[0.1, 0.1, 0.1, 0.7], [1 / 3, 1e30, -inf, 1e-30]], dtype=F64)
    g, edges = torch.randn(2, 4, dtype=F64), torch.tensor([[0, 1], [1, 2]])
    assert torch.equal(native.tv_chain(x, 0.0, -1), x) and torch.equal(native.tv_grid(x, 0.0), x)
    assert torch.equal(native.tv_graph(x, edges, torch.ones(2), 0.0), x)
    assert torch.equal(native.tv_grid_vjp(x, g, 0.0)[0], g[0])
    assert torch.equal(native.tv_chain_vjp(x, g, 0.0, -1), torch.where(x > -inf, g, 0.0))


@pytest.mark.parametrize("strength", [1e5, 1e17, 1e300, 1.7e308, inf])
def test_any_great_strength_gives_the_mean(strength: float):
    x = torch.randn(6, 14, 15, dtype=F64)
    w = native.tv_grid(x, strength)
    assert (w - x.mean((1, 2), keepdim=True)).abs().max() <= 1e-15
    assert all(image.unique().numel() == 1 for image in w)
    w = native.tv_chain(x, strength, 1)
    assert (w - x.mean(1, keepdim=True)).abs().max() <= 1e-15


def test_infinite_weights_tie_their_ends_and_no_more():
    edges, weights = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), torch.tensor([inf, 0.5, inf, 0.0, 1e300])
    x = torch.tensor([[1.0, 3.0, 0.0, 1.0, -2.0, 5.0]], dtype=F64)
    w = native.tv_graph(x, edges, weights, 1.0)
    assert (w - torch.tensor([[1.75, 1.75, 0.75, 0.75, 1.5, 1.5]], dtype=F64)).abs().max() <= 1e-15
    w = native.tv_graph(x, edges, weights, inf)  # the edge of weight 0 is none
    assert (w - torch.tensor([[1.25, 1.25, 1.25, 1.25, 1.5, 1.5]], dtype=F64)).abs().max() <= 1e-15


@pytest.mark.parametrize("strength", [1e-300, 1e-17])
def test_next_to_no_strength_leaves_the_scores(strength: float):
    x = torch.cat([torch.randn(5, 14, 15, dtype=F64), torch.randn(5, 14, 15, dtype=F64).round()])
    for w in (native.tv_grid(x, strength), native.tv_chain(x, strength, 1)):
        assert (w - x).abs().max() <= 1e-15


@pytest.mark.parametrize("far", [1e9, 1e30, 3e38, -1e9, -1e30])
def test_far_entries_leave_the_others_exact(far: float):
    x = torch.randn(12, 13, dtype=F64)
    for share in (0.02, 0.8):  # some far, or most, as where scores are masked by subtraction
        away = torch.rand(12, 13) < share
        twin = torch.where(away, math.copysign(100.0, far), x)
        for solve in (lambda x: native.tv_grid(x, 0.2), lambda x: native.tv_chain(x, 0.2, 1)):
            w = solve(torch.where(away, far, x))
            assert (w - solve(twin))[~away].abs().max() <= 1e-13


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_result_follows_the_scale(scale: float):
    x = torch.randn(5, 9, 10, dtype=F64)
    for strength in (0.1, 1.0):
        for solve in (native.tv_grid, lambda x, s: native.tv_chain(x, s, 1)):
            assert (solve(scale * x, scale * strength) / scale - solve(x, strength)).abs().max() <= 1e-14


def test_largest_floats_do_not_overflow():
    x = torch.tensor([1.7e308, -1.7e308, 1e308], dtype=F64)
    edges, ones = torch.tensor([[0, 1], [1, 2]]), torch.ones(2)
    for solve in (
        lambda s: native.tv_chain(x, s, 0),
        lambda s: native.tv_chain(x.expand(4, 3), s, 1)[2],
        lambda s: native.tv_graph(x[None], edges, ones, s)[0],
    ):
        assert (solve(1e308) / 1e308 - torch.tensor([0.7, 0.15, 0.15], dtype=F64)).abs().max() <= 1e-15
        assert torch.equal(solve(1.0), x)
        assert solve(1.7e308).unique().numel() == 1


@pytest.mark.parametrize("level", [0.0, 1 / 3, -1e30, 1e300, 5e-324])
def test_flat_rows_stay_as_they_are(level: float):
    x = torch.full((5, 14, 15), level, dtype=F64)
    for strength in (1e-3, 0.7, 1e9):
        assert torch.equal(native.tv_chain(x, strength, -1), x) and torch.equal(native.tv_grid(x, strength), x)


def test_offset_takes_away_its_own_digits_only():
    x = (torch.randn(4, 20, 21, dtype=F64) * 2**20).round() / 2**20  # so that adding 2^30 is exact
    for solve in (lambda x: native.tv_grid(x, 0.5), lambda x: native.tv_chain(x, 0.5, 1)):
        assert (solve(x + 2**30) - 2**30 - solve(x)).abs().max() <= 2.0**-21


# ---- what the library says ----


def test_reached_limit_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native, "_entry", lambda *_: lambda *_: 3e-5)
    with pytest.warns(ConvergenceWarning, match=r"tv_prox_2d: a limit on the work was met; .* by up to 3\.0e-05"):
        native.tv_grid(torch.randn(1, 4, 4), 0.5)


def test_lack_of_memory_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native, "_entry", lambda *_: lambda *_: -1.0)
    with pytest.raises(MemoryError, match=r"tv_prox_2d: no memory for \(1, 4, 4\)"):
        native.tv_grid_vjp(torch.randn(1, 4, 4), torch.randn(1, 4, 4), 0.5)
