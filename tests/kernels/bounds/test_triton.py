"""Triton's kernels of maps with bounds against plain torch in float64: on a GPU, or interpreted on small rows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from kernels.conftest import choose_as_if_long
from omegamax.kernels import tiles
from omegamax.kernels.bounds import jacobians, reference
from omegamax.kernels.bounds.triton import launcher as bounds

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = (1, 2, 3, 17, 64, 1000, 4096, 30000) if DEVICE == "cuda" else (1, 3, 17)
# The interpreter multiplies infinities in lanes that are dropped.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(invalid value|overflow|divide by zero|All-NaN slice) encountered:RuntimeWarning"
)
INF = math.inf


def scores(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def edge_case_rows(size: int) -> Tensor:
    """Ordinary scores, spread ones, ties, absent entries, large offsets, and one score beyond all others."""
    z = scores(6, size) * torch.tensor([1.0, 30.0, 1.0, 1.0, 1.0, 1.0], device=DEVICE)[:, None]
    z[2] = z[2].round()
    z[3, : size // 2] = -INF
    z[4] += 3000
    z[5, size - 1] = 1e30
    return z


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_subsets(share: float):
    for size in SIZES:
        z = edge_case_rows(size)
        for k in {share * size, float(round(share * size))}:
            p = bounds.k_subsets(z, k, 1)
            torch.testing.assert_close(p.double(), reference.k_subsets(z.double(), k), rtol=0, atol=4e-7)


def test_a_budget_for_each_row():
    z = scores(2, 4, 9)
    k = torch.tensor([0.5, 1.0, 3.0, 8.5], device=DEVICE).reshape(1, 4, 1)
    p = bounds.k_subsets(z, k, 2)
    torch.testing.assert_close(p.double(), reference.k_subsets(z.double(), k), rtol=0, atol=4e-7)


def test_rows_of_equal_and_of_huge_scores():
    z = torch.zeros(4, 12, device=DEVICE)
    z[1] = 1e30
    z[2, :5] = 4e6 + torch.arange(5, device=DEVICE) * 0.5
    z[3, ::2] = -1e30
    for k in (0.25, 3.0, 7.5):
        p = bounds.k_subsets(z, k, 1)
        torch.testing.assert_close(p.double(), reference.k_subsets(z.double(), k), rtol=0, atol=4e-7)


@pytest.mark.parametrize("k", [0.0, 1.0, 2.5, 15.0, 16.0])
def test_subsets_of_the_largest_and_the_smallest_floats(k: float):
    largest = torch.finfo(torch.float32).max
    z = torch.randn(4, 16, device=DEVICE)
    z[0, ::2], z[1, 3], z[2, 5], z[3] = -largest, largest, -largest, -largest
    z[1, 4] = -largest
    for budget in (k, torch.full((4, 1), k, device=DEVICE)):
        p = bounds.k_subsets(z, budget, 1)
        torch.testing.assert_close(p.double(), reference.k_subsets(z.double(), k), rtol=0, atol=4e-7)


@pytest.mark.parametrize("size", [16, 197] if DEVICE == "cpu" else [16, 197, 5000])
def test_entry_between_its_bounds_is_found_where_scores_are_further_apart(size: int):
    z = 1e30 * torch.randn(3, size, device=DEVICE)
    lower, upper = 0.3 / size, 10 / size
    p = bounds.box_simplex(z, lower, upper, 1.0, 1)
    wanted = reference.box_simplex(z.double(), lower, upper, 1.0)
    torch.testing.assert_close(p.double(), wanted, rtol=0, atol=4e-7)
    assert bool(((wanted > 1.001 * lower) & (wanted < 0.999 * upper)).any(-1).all())


@pytest.mark.parametrize("name", ["k_subsets", "box_simplex", "capped_softmax"])
def test_edge_case_rows(name: str):
    z = scores(4, 9)
    z[0], z[1, 4], z[2, 0] = -INF, math.nan, INF
    one = torch.ones(1, 1, device=DEVICE)
    given = {"k_subsets": (2.0,), "box_simplex": (0 * one, one, one), "capped_softmax": (one,)}[name]
    p = getattr(bounds, name)(z, *given, 1)
    assert torch.equal(p[0], torch.zeros_like(p[0]))
    assert bool(p[1:3].isnan().all())
    wide = (a.double() if isinstance(a, Tensor) else a for a in given)
    torch.testing.assert_close(p[3:].double(), getattr(reference, name)(z[3:].double(), *wide), rtol=0, atol=4e-7)


@pytest.mark.parametrize("bound", ["one", "each", "row", "entry", "none"])
def test_box(bound: str):
    for size in SIZES:
        z = edge_case_rows(size)
        shape = {"one": (1, 1), "each": (6, size), "row": (6, 1), "entry": (1, size), "none": (1, 1)}[bound]
        upper = 2 / size + torch.rand(shape, device=DEVICE)
        lower = torch.rand(shape, device=DEVICE) / (4 * size)
        if bound == "none":
            upper, lower = torch.full(shape, INF, device=DEVICE), torch.zeros(shape, device=DEVICE)
        total = torch.ones(1, 1, dtype=torch.float64, device=DEVICE)
        p = bounds.box_simplex(z, lower, upper, total, 1)
        wanted = reference.box_simplex(z.double(), lower, upper.clamp(max=1e9), total)
        # Sums of 30000 bounds in float32, of which what is wrong may meet one free entry.
        torch.testing.assert_close(p.double(), wanted, rtol=0, atol=4e-7 if size < 10000 else 2e-6)


@pytest.mark.parametrize("lower", [0.0, 0.25])
@pytest.mark.parametrize("upper", [1.0, 2.0, 9.0, INF])
def test_box_between_two_scalars(lower: float, upper: float):
    for size in SIZES:
        z = edge_case_rows(size)
        low, high = lower / size, upper / size
        p = bounds.box_simplex(z, low, high, 1.0, 1)
        # As the kernel has them, in float32.
        exact = (torch.tensor(a, device=DEVICE).double().clamp(max=1.0) for a in (low, high))
        wanted = reference.box_simplex(z.double(), *exact, 1.0)
        torch.testing.assert_close(p.double(), wanted, rtol=0, atol=4e-7)


def test_numbers_are_tensors_of_one():
    z = edge_case_rows(17)
    for a, b in ((0.0, 0.25), (0.01, 0.3)):
        given = (torch.full((1, 1), x, device=DEVICE) for x in (a, b, 1.0))
        torch.testing.assert_close(
            bounds.box_simplex(z, a, b, 1.0, 1), bounds.box_simplex(z, *given, 1), rtol=0, atol=2e-7
        )
        one = torch.full((1, 1), b, device=DEVICE)
        by_number, by_tensor = bounds.capped_softmax(z, b, 1), bounds.capped_softmax(z, one, 1)
        torch.testing.assert_close(by_number, by_tensor, rtol=0, atol=1e-7)


@pytest.mark.parametrize("room", [1.0, 1.5, 4.0, 1e9])
def test_capped_softmax(room: float):
    for size in SIZES:
        z = edge_case_rows(size)
        upper = torch.rand(6, size, device=DEVICE)
        upper = room * upper / torch.where(z > -INF, upper, 0.0).sum(1, keepdim=True)
        p = bounds.capped_softmax(z, upper, 1)
        torch.testing.assert_close(p.double(), reference.capped_softmax(z.double(), upper), rtol=0, atol=6e-7)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_axis(dim: int):
    z = scores(3, 4, 5)
    upper, one = torch.rand(3, 4, 5, device=DEVICE) + 0.5, torch.ones(1, 1, 1, device=DEVICE)
    for name, given in (("k_subsets", (1.5,)), ("box_simplex", (0 * one, upper, one)), ("capped_softmax", (upper,))):
        p = getattr(bounds, name)(z, *given, dim)
        assert p.is_contiguous()
        moved = (a.movedim(dim, -1) if isinstance(a, Tensor) else a for a in (z.double(), *given))
        wanted = getattr(reference, name)(*moved).movedim(-1, dim)
        torch.testing.assert_close(p.double(), wanted, rtol=0, atol=4e-7)


def test_gradient_at_the_same_probabilities():
    for size in SIZES:
        p = bounds.k_subsets(scores(3, size), size / 3, 1)
        g = torch.randn_like(p)
        g[0][(p[0] == 0) | (p[0] == 1)] = INF  # not looked at
        dz = bounds.k_subsets_vjp(p, g, 1)
        wanted = jacobians.k_subsets_vjp(p.double(), g.nan_to_num(posinf=0.0).double(), 1)
        torch.testing.assert_close(dz.double(), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["numbers", "tensors", "mixed"])
def test_gradients_of_box_and_ceilings(kind: str):
    for size in SIZES:
        lower, upper = 0.25 / size, 2.0 / size
        if kind != "numbers":
            upper = upper + torch.rand(3, size, device=DEVICE)
        if kind == "tensors":
            lower = torch.rand(1, size, device=DEVICE) / (4 * size)
        low, high = (a.double() if isinstance(a, Tensor) else torch.tensor(a).double() for a in (lower, upper))
        z, g = scores(3, size), scores(3, size)
        p = bounds.box_simplex(z, lower, upper, 1.0, 1)
        dz = bounds.box_simplex_vjp(p, g, lower, upper, 1)
        wanted = jacobians.box_simplex_vjp(p.double(), g.double(), low, high, 1)
        torch.testing.assert_close(dz.double(), wanted, rtol=0, atol=1e-6)
        p = bounds.capped_softmax(z, upper, 1)
        dz = bounds.capped_softmax_vjp(p, g, upper, 1)
        wanted = jacobians.capped_softmax_vjp(p.double(), g.double(), high, 1)
        torch.testing.assert_close(dz.double(), wanted, rtol=0, atol=4e-7)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 0.3), (0.02, 0.3003), (0.02001, 0.25)])
def test_half_precision_rounds_nothing_else_to_a_bound(lower: float, upper: float):
    """Ten entries with one close to the ceiling and one to the floor, on either side of what float16 can hold."""
    shift = torch.linspace(-2e-4, 2e-4, 17, device=DEVICE)[:, None]
    for place in (upper, lower):
        # Free entries share 1 - 2 upper - 5 lower, one of them near the bound in question.
        rest = (1 - 2 * upper - 5 * lower - place - shift) / 2
        z = torch.cat([place + shift, rest.expand(-1, 2), rest.new_tensor([1.0, 1.0] + [-1.0] * 5).expand(17, 7)], 1)
        for given in ((lower, upper), tuple(torch.full((1, 10), a, device=DEVICE) for a in (lower, upper))):
            p = bounds.box_simplex(z, *given, 1.0, 1)
            assert (p.sum(1) - 1).abs().max() <= 1e-6
            z16 = z.half()
            p, half = bounds.box_simplex(z16.float(), *given, 1.0, 1), bounds.box_simplex(z16, *given, 1.0, 1)
            g = torch.randn_like(p)
            dz = bounds.box_simplex_vjp(p, g, *given, 1)
            torch.testing.assert_close(bounds.box_simplex_vjp(half, g, *given, 1).float(), dz, rtol=2e-3, atol=2e-3)
            assert (half.float() - p).abs().max() <= 2.5e-4  # float16 has 2.4e-4 to the next number
            ceiling = given[1]
            p, half = bounds.capped_softmax(z16.float(), ceiling, 1), bounds.capped_softmax(z16, ceiling, 1)
            free = p != torch.as_tensor(ceiling, device=DEVICE)
            assert torch.equal(free, half != torch.as_tensor(ceiling, device=DEVICE).half())


@pytest.fixture
def long_rows(monkeypatch, run_time_loops):
    """Rows of more than 8 entries count as long, and are read 8 at a time."""
    if DEVICE == "cpu":
        monkeypatch.setattr(bounds, "choose", choose_as_if_long)
        monkeypatch.setattr(bounds, "LONG_BLOCK", tiles.Tile(1, 8, 1))
        monkeypatch.setattr(bounds, "candidate_blocks", lambda size, power: tiles.Blocks(1, 8, 1))
        monkeypatch.setattr(bounds, "MAX_CANDIDATES", {False: 8})  # four groups


LONG = 70001 if DEVICE == "cuda" else 14


@pytest.mark.parametrize("k", [0.0, 2.5, LONG - 1.0])
def test_subsets_of_long_rows(long_rows, k: float):
    """Those whose candidates are listed, and those that are read again at each step."""
    z = scores(6, LONG)
    z[0, 3:] -= 100  # one group has all
    z[1] *= 30
    z[2, LONG - 1] = 1e30
    z[3], z[4, 3], z[5, 0] = -INF, math.nan, INF
    p = bounds.k_subsets(z, torch.full((6, 1), k, device=DEVICE) if k == 2.5 else k, 1)
    assert p[4:].isnan().all() and not p[3].any()
    torch.testing.assert_close(p[:3].double(), reference.k_subsets(z[:3].double(), k), rtol=0, atol=4e-7)
    g = torch.randn_like(p[:3])
    wanted = jacobians.k_subsets_vjp(p[:3].double(), g.double(), 1)
    torch.testing.assert_close(bounds.k_subsets_vjp(p[:3], g, 1).double(), wanted, rtol=1e-5, atol=1e-6)


def test_long_rows_between_numbers(long_rows):
    low, high = 0.14 / LONG, 3.1 / LONG
    z = scores(2, LONG).half()
    z[1, :3] = -INF
    p, wanted = bounds.box_simplex(z, low, high, 1.0, 1), reference.box_simplex(z.double(), low, high, 1.0)
    # One rounding to either side, of numbers that may be subnormal: the bits count the numbers of the format.
    assert (p.view(torch.int16) - wanted.half().view(torch.int16)).abs().max() <= 1
    for bound in (low, high):
        assert torch.equal(p == torch.tensor(bound, device=DEVICE).half(), wanted == bound)


def test_long_rows_by_plain_torch(monkeypatch):
    z, g = scores(4, 20).half(), scores(4, 20).half()
    for low, high in ((0.0, 0.2), (0.01, 0.3)):
        low, high = torch.full((1, 20), low, device=DEVICE), torch.full((1, 20), high, device=DEVICE)
        p = bounds.box_simplex(z, low, high, 1.0, 1)
        monkeypatch.setattr(bounds, "choose", choose_as_if_long)
        torch.testing.assert_close(bounds.box_simplex(z, low, high, 1.0, 1), p, rtol=0, atol=3e-4)
        dz = bounds.box_simplex_vjp(p, g, low, high, 1)
        monkeypatch.undo()
        torch.testing.assert_close(dz, bounds.box_simplex_vjp(p, g, low, high, 1), rtol=1e-3, atol=1e-3)


def test_half_precision_is_one_rounding_of_float32():
    z = scores(4, 33).half()
    p = bounds.k_subsets(z, 5.0, 1)
    assert torch.equal(p, bounds.k_subsets(z.float(), 5.0, 1).half())
    g = torch.randn_like(z)
    assert torch.equal(bounds.k_subsets_vjp(p, g, 1), bounds.k_subsets_vjp(p.float(), g.float(), 1).half())


def test_no_rows():
    assert bounds.k_subsets(scores(0, 5), 2.0, 1).shape == (0, 5)
    assert bounds.k_subsets_vjp(scores(0, 5), scores(0, 5), 1).shape == (0, 5)
