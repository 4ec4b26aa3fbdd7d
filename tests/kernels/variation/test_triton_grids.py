"""Triton's kernels of images against certificates and plain torch in float64: on a GPU, or interpreted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

import omegamax
from kernels.variation.test_cpu import grid_edges, pictures, unproved
from omegamax.kernels import _dispatch, choice
from omegamax.kernels.variation import reference
from omegamax.kernels.variation.triton import launcher as grids

F64 = torch.float64
INF, NAN = math.inf, math.nan
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter computes with the infinities of absent cells in lanes that are dropped.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call has left to the host."""
    counts: list[int] = []
    take = grids.take_host

    def count(package: str, op: str):
        return lambda x, *rest: (counts.append(len(x)), take(package, op)(x, *rest))[1]

    monkeypatch.setattr(grids, "take_host", count)
    return counts


@pytest.fixture
def on_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take Triton's kernels wherever there are some."""
    monkeypatch.setitem(_dispatch.PREFERENCE, "cpu", ("triton", "reference"))
    _dispatch._find.cache_clear()
    yield
    monkeypatch.undo()
    _dispatch._find.cache_clear()


def images(height: int, width: int) -> Tensor:
    return torch.stack([*pictures(height, width).values()]).to(DEVICE)


@pytest.mark.parametrize("size", [(2, 2), (3, 11), (9, 8)], ids=str)
@pytest.mark.parametrize("strength", [0.03, 0.3, 1.0, 8.0])
def test_images_of_every_kind_are_optimal(size: tuple[int, int], strength: float, left: list[int]):
    x = images(*size)
    w = grids.tv_grid(x, strength)
    assert not left
    edges = grid_edges(*size)
    limits = torch.full((edges.shape[1],), strength, dtype=F64)
    for kind, given, found in zip(pictures(*size), x.cpu(), w.cpu(), strict=True):
        # The program sees the finite differences alone: what is far is far, and an offset is no matter.
        z, v = (given - given[0, 0]).flatten(), (found - given[0, 0]).flatten()
        assert unproved(z, v, edges, limits) <= 1e-9 * (1 + z.abs().max().item()), kind


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.7, 30.0])
def test_values_and_derivatives_are_those_of_plain_torch(strength: float, left: list[int]):
    x = images(7, 9)
    w, wanted = grids.tv_grid(x, strength), reference.tv_grid(x, strength)
    assert not left
    torch.testing.assert_close(w, wanted, rtol=1e-12, atol=1e-12)
    g = torch.randn_like(x)
    dx = grids.tv_grid_vjp(w, g, strength)
    torch.testing.assert_close(dx, reference.tv_grid_vjp(w, g, strength), rtol=1e-12, atol=1e-13)
    # The same regions: the derivative at the one result is that at the other.
    torch.testing.assert_close(dx, reference.tv_grid_vjp(wanted, g, strength), rtol=1e-12, atol=1e-13)
    slope = grids.tv_grid_slope(w, strength)
    torch.testing.assert_close(slope, reference.tv_grid_slope(wanted, strength), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", [(20, 20), (40, 30)], ids=str)
def test_larger_images_are_those_of_plain_torch(size: tuple[int, int], left: list[int]):
    x = torch.randn(1, *size, dtype=F64, device=DEVICE)
    torch.testing.assert_close(grids.tv_grid(x, 0.1), reference.tv_grid(x, 0.1), rtol=1e-12, atol=1e-12)
    ramp = torch.arange(float(size[0] * size[1]), dtype=F64, device=DEVICE).reshape(1, *size)
    torch.testing.assert_close(grids.tv_grid(ramp, 1e9), ramp.mean().expand(1, *size), rtol=1e-12, atol=0)
    assert not left


def test_regions_are_level_to_the_last_bit_and_single_precision_is_rounded_once():
    x = images(8, 9).float()
    w = grids.tv_grid(x, 0.4)
    assert w.dtype == torch.float32
    wanted = reference.tv_grid(x.double(), 0.4)
    torch.testing.assert_close(w.double(), wanted, rtol=6e-8, atol=1e-12)
    assert torch.equal(w[:, 1:] == w[:, :-1], wanted[:, 1:].float() == wanted[:, :-1].float())
    assert grids.tv_grid_vjp(w, x, 0.4).dtype == torch.float32


def test_a_strength_for_each_image_and_any_strides():
    x = torch.randn(5, 3, 6, dtype=F64, device=DEVICE).movedim(1, 0)
    strength = torch.tensor([0.0, 0.3, 2.0], dtype=F64, device=DEVICE).reshape(3, 1, 1)
    w = grids.tv_grid(x, strength)
    torch.testing.assert_close(w, reference.tv_grid(x, strength), rtol=1e-13, atol=1e-14)
    assert torch.equal(w[0], x[0])
    g = torch.randn(6, 3, 5, dtype=F64, device=DEVICE).movedim(0, -1).contiguous().mT
    found, wanted = (module.tv_grid_vjp(w, g, strength) for module in (grids, reference))
    torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
    shared = torch.tensor(0.3, dtype=F64, device=DEVICE)
    assert torch.equal(grids.tv_grid(x, shared)[1], w[1])


def test_images_that_are_not_sound_spoil_themselves_only():
    x = torch.randn(6, 4, 5, dtype=F64, device=DEVICE)
    x[0], x[1, 3, 1], x[2, 0, 0] = -INF, NAN, INF
    x[3, 1], x[4, ::2, ::2] = -INF, -INF
    w, wanted = grids.tv_grid(x, 0.4), reference.tv_grid(x, 0.4)
    assert (w[0] == -INF).all() and w[1:3].isnan().all()
    torch.testing.assert_close(w[3:], wanted[3:], rtol=1e-13, atol=1e-14)
    g = torch.randn_like(x)
    found = grids.tv_grid_vjp(w, g, 0.4)
    torch.testing.assert_close(found, reference.tv_grid_vjp(w, g, 0.4), rtol=1e-13, atol=1e-14)
    assert (found[x == -INF] == 0).all()
    g[4, 1, 1] = NAN
    spoilt = grids.tv_grid_vjp(wanted, g, 0.4).isnan()
    assert torch.equal(spoilt, reference.tv_grid_vjp(wanted, g, 0.4).isnan()) and not spoilt[[0, 3, 5]].any()
    strength = torch.tensor([0.4, NAN, -1.0, INF, 1e300, 5e-324], dtype=F64, device=DEVICE).reshape(6, 1, 1)
    sound = torch.randn(6, 4, 5, dtype=F64, device=DEVICE)
    w = grids.tv_grid(sound, strength)
    torch.testing.assert_close(w, reference.tv_grid(sound, strength), rtol=1e-13, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1)], ids=str)
def test_images_of_one_line(size: tuple[int, int]):
    x = torch.randn(3, *size, dtype=F64, device=DEVICE)
    for strength in (0.3, torch.full((3, 1, 1), 0.3, dtype=F64, device=DEVICE)):
        w = grids.tv_grid(x, strength)
        torch.testing.assert_close(w, reference.tv_grid(x, strength), rtol=1e-13, atol=1e-14)
        found, wanted = (module.tv_grid_vjp(w, x, strength) for module in (grids, reference))
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (3, 1, 0), (0, 1, 1), (0, 4)], ids=str)
def test_no_images_and_images_of_nothing(shape: tuple[int, ...]):
    x = torch.zeros(shape, dtype=F64, device=DEVICE)
    for strength in (0.3, torch.full((*shape[:-2], 1, 1), 0.3, dtype=F64, device=DEVICE)):
        assert grids.tv_grid(x, strength).shape == grids.tv_grid_vjp(x, x, strength).shape == shape


def test_one_image_without_a_batch():
    x = torch.randn(4, 5, dtype=F64, device=DEVICE)
    assert torch.equal(grids.tv_grid(x, 0.3), grids.tv_grid(x[None], 0.3)[0])
    assert torch.equal(grids.tv_grid_vjp(x.round(), x, 0.3), grids.tv_grid_vjp(x[None].round(), x[None], 0.3)[0])


def test_the_largest_and_the_least_numbers_are_no_trouble(left: list[int]):
    x = torch.randn(2, 4, 5, dtype=F64, device=DEVICE)
    wanted = reference.tv_grid(x, 0.25)
    for factor in (2.0**1020, 2.0**-900):
        w = grids.tv_grid(x * factor, 0.25 * factor)
        torch.testing.assert_close(w / factor, wanted, rtol=1e-13, atol=1e-14)
    far = torch.where(x > 0.7, -1e9, x)
    torch.testing.assert_close(grids.tv_grid(far, 0.25), reference.tv_grid(far, 0.25), rtol=1e-14, atol=1e-14)
    # Ties, for single precision is coarse here, that no rounding of what neighbours pull may break.
    coarse = pictures(14, 14)["offset"][None].float().to(DEVICE)
    torch.testing.assert_close(grids.tv_grid(coarse, 0.067), reference.tv_grid(coarse, 0.067), rtol=6e-8, atol=0)
    absent = grids.tv_grid(torch.where(x > 0.7, -INF, x), 0.0)
    assert torch.equal(absent, torch.where(x > 0.7, -INF, x))
    assert not left


def test_regions_may_wind_through_the_whole_image():
    """From one end of a snake to the other a label goes against the order of the cells, in every second row."""
    w = torch.ones(2, 15, 9, dtype=F64, device=DEVICE)
    w[0, 1::4, :-1] = w[0, 3::4, 1:] = 0
    w[1] = w[0].flip(0, 1)
    g = torch.randn_like(w)
    found = grids.tv_grid_vjp(w, g, 1.0)
    torch.testing.assert_close(found, reference.tv_grid_vjp(w, g, 1.0), rtol=1e-13, atol=1e-14)
    assert all(len(found[i][w[i] == 1].unique()) == 1 for i in range(2))


def test_images_that_need_more_sweeps_are_left_to_the_host(monkeypatch, left: list[int]):
    x = torch.randn(5, 6, 6, dtype=F64).to(DEVICE)  # the same draws on every device
    x[1], x[3] = 2.0, x[3] * 1e6  # solved at once
    strengths = torch.full((5, 1, 1), 0.5, dtype=F64, device=DEVICE)
    wanted = reference.tv_grid(x, 0.5)
    monkeypatch.setattr(grids, "MAX_SWEEPS", 8)
    for strength in (0.5, strengths):
        torch.testing.assert_close(grids.tv_grid(x, strength), wanted, rtol=1e-12, atol=1e-12)
    assert left == [3, 3]


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
def test_what_is_not_left_to_the_host_is_right_however_few_sweeps_there_are(strength: float, monkeypatch):
    noise = torch.randn(6, 7, 6, dtype=F64, device=DEVICE)
    x = torch.cat([images(7, 6), noise, noise.round()])
    wanted = reference.tv_grid(x, strength)
    monkeypatch.setattr(grids, "take_host", lambda package, op: lambda x, strength: torch.full_like(x, NAN))
    proved = []
    for sweeps in (8, 16, 24, 48, 96):
        monkeypatch.setattr(grids, "MAX_SWEEPS", sweeps)
        w = grids.tv_grid(x, strength)
        done = ~w.isnan().any((1, 2))
        torch.testing.assert_close(w[done], wanted[done], rtol=1e-12, atol=1e-12)
        proved.append(int(done.sum()))
    assert proved[0] < proved[-1] and proved[-1] >= 20


def test_one_number_sends_images_to_the_host(monkeypatch, left: list[int]):
    rules = tuple(rule._replace(longest=19) if rule.longest == choice.IMAGE_CELLS else rule for rule in choice.RULES)
    choice.choose.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(choice, "RULES", rules)
        patch.setattr(grids, "launch_kept", None)
        x = torch.randn(3, 4, 5, dtype=F64, device=DEVICE)
        w = grids.tv_grid(x, 0.3)
        torch.testing.assert_close(w, reference.tv_grid(x, 0.3), rtol=1e-12, atol=1e-12)
        found = grids.tv_grid_vjp(w, x, 0.3)
        torch.testing.assert_close(found, reference.tv_grid_vjp(w, x, 0.3), rtol=1e-13, atol=1e-14)
    choice.choose.cache_clear()
    assert left == [3, 3]


def test_the_map_and_its_gradients_are_those_of_plain_torch(on_triton):
    z = torch.randn(2, 5, 6, dtype=F64, device=DEVICE)
    mask = torch.rand(2, 5, 6, device=DEVICE) > 0.2
    g = torch.randn_like(z)

    def both_ways() -> list[Tensor]:
        x = z.clone().requires_grad_()
        strength = torch.tensor(0.2, dtype=F64, device=DEVICE, requires_grad=True)
        p = omegamax.tvmax(x, strength, mask=mask)
        return [p, *torch.autograd.grad(p, (x, strength), g)]

    found = both_ways()
    with omegamax.backend("reference"):
        wanted = both_ways()
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
