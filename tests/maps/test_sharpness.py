"""The scale that makes one map as sharp as another: against scipy's root finder, by hand, and at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import brentq

import omegamax
from omegamax import Bounded, Fused, KSubsets, TotalVariation2d, Tsallis, match_sharpness

MAPS = {
    "sparsemax": "sparsemax",
    "entmax15": "entmax15",
    "entmax": Tsallis(1.25),
    "normmax": "normmax",
    "fusedmax": Fused("sparsemax", 0.3),
    "oscarmax": "oscarmax",
}


def scores(*shape, spread=6.0, seed=0):
    return spread * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mean_of(measure, p):
    """The measure row by row, written out."""
    rows = [[x / sum(row) for x in row] for row in p.tolist()]
    if measure == "maximum":
        return math.fsum(max(row) for row in rows) / len(rows)
    return math.fsum(-x * math.log(x) for row in rows for x in row if x > 0) / len(rows)


@pytest.mark.parametrize("measure", ["entropy", "maximum"])
@pytest.mark.parametrize("name", MAPS)
def test_scale_is_the_root_that_scipy_finds(name, measure):
    z, omega = scores(30, 12), omegamax.get(MAPS[name])
    wanted = mean_of(measure, z.softmax(-1))
    root = brentq(lambda t: mean_of(measure, omega.argmax(math.exp(t) * z)) - wanted, -12, 12, xtol=1e-15, rtol=1e-15)
    s = match_sharpness(z, omega, measure=measure)
    assert s == pytest.approx(math.exp(root), rel=1e-9)
    assert mean_of(measure, omega.argmax(s * z)) == pytest.approx(wanted, rel=1e-12)


def test_two_scores_by_hand():
    """Sparsemax of a difference d is (1 + s d) / 2, softmax sigmoid(d): the same numbers, and so the same entropy."""
    d = 1.7
    s = match_sharpness(torch.tensor([[d, 0.0]], dtype=torch.float64), "sparsemax")
    assert s == pytest.approx((2 / (1 + math.exp(-d)) - 1) / d, rel=1e-12)


def test_same_map_needs_no_scale():
    z = scores(8, 5)
    assert match_sharpness(z, "softmax") == 1.0
    assert match_sharpness(z, "sparsemax", "sparsemax") == 1.0


def test_scale_goes_back_and_forth():
    """To sparsemax and back to softmax, with what was matched as the reference."""
    z = scores(20, 9)
    s = match_sharpness(z, "sparsemax")
    back = match_sharpness(z, "softmax", lambda x: omegamax.sparsemax(s * x))
    assert back == pytest.approx(1.0, rel=1e-9)


def test_image_is_normalised_over_both_axes():
    z = scores(20, 4, 5)
    omega = TotalVariation2d("sparsemax", 0.2)
    s = match_sharpness(z, omega, dim=(-2, -1))
    wanted = mean_of("entropy", z.flatten(1).softmax(-1))
    assert mean_of("entropy", omega.argmax(s * z).flatten(1)) == pytest.approx(wanted, rel=1e-12)
    flat = TotalVariation2d("sparsemax", 0.2, shape=(4, 5))
    assert match_sharpness(z.flatten(1), flat) == pytest.approx(s, rel=1e-12)


def test_several_axes_of_any_map_are_one_row():
    z = scores(3, 4, 5)
    assert match_sharpness(z, "sparsemax", dim=(0, 2)) == pytest.approx(
        match_sharpness(z.transpose(0, 1).reshape(4, 15), "sparsemax"), rel=1e-12
    )
    assert match_sharpness(z, "sparsemax", dim=1) == pytest.approx(match_sharpness(z.mT, "sparsemax"), rel=1e-12)


def test_subsets_are_compared_with_probabilities_under_the_same_bound():
    z = scores(30, 12)
    with pytest.raises(ValueError, match="no scale of the scores makes transform as sharp as the reference"):
        match_sharpness(z, KSubsets(4))
    s = match_sharpness(z, KSubsets(4), Bounded("softmax", 0.25))
    wanted = mean_of("entropy", omegamax.constrained_softmax(z, 0.25))
    assert mean_of("entropy", omegamax.k_subsets(s * z, 4)) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="as even as the reference"):
        match_sharpness(torch.tensor([[0.0, 0.0, 1.0]]), lambda p: p / p.sum(), torch.ones(1, 3))


def test_masked_entries_and_lost_rows_do_not_count():
    z = scores(6, 8)
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) > 0.3
    s = match_sharpness(z, "sparsemax", mask=mask)
    assert s == match_sharpness(z.masked_fill(~mask, -math.inf), "sparsemax")
    more = torch.cat([z.masked_fill(~mask, -math.inf), torch.full((1, 8), -math.inf), torch.full((1, 8), math.nan)])
    assert match_sharpness(more, "sparsemax") == pytest.approx(s, rel=1e-12)
    with pytest.raises(ValueError, match="z must have a row of finite scores, got none in shape"):
        match_sharpness(torch.full((2, 3), math.nan), "sparsemax")


def test_nothing_to_choose_between_leaves_the_scores():
    assert match_sharpness(torch.randn(5, 1), "sparsemax") == 1.0
    assert match_sharpness(torch.zeros(5, 4), "sparsemax") == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_is_computed_in_double(dtype):
    z = scores(10, 6).to(dtype)
    assert match_sharpness(z, "sparsemax") == match_sharpness(z.double(), "sparsemax")


def test_bad_arguments_are_named():
    z = torch.randn(2, 3)
    with pytest.raises(ValueError, match="match_sharpness: measure must be one of 'entropy', 'maximum', got 'width'"):
        match_sharpness(z, "sparsemax", measure="width")
    with pytest.raises(TypeError, match=r"match_sharpness: z must be a floating-point tensor, got dtype torch\.int64"):
        match_sharpness(torch.ones(2, 3, dtype=torch.long), "sparsemax")
    with pytest.raises(ValueError, match=r"reference must be a map, or probabilities shaped like z, got .*\(2, 2\)"):
        match_sharpness(z, "sparsemax", torch.rand(2, 2))
    with pytest.raises(ValueError, match="reference must give finite probabilities that do not sum to 0"):
        match_sharpness(z, "sparsemax", torch.zeros(2, 3))
    with pytest.raises(TypeError, match="transform must be a map's name, an Omega or a function, got int"):
        match_sharpness(z, 3)
    with pytest.raises(ValueError, match=r"transform must give probabilities of shape \(2, 3\), got shape \(2,\)"):
        match_sharpness(z, lambda x: x.sum(-1))
    with pytest.raises(IndexError, match="dim=2 is out of range"):
        match_sharpness(z, "sparsemax", dim=2)
