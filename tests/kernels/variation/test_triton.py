"""Triton's kernels of chains and isotonic fits against plain torch in float64: on a GPU, or interpreted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels import choice
from omegamax.kernels.isotonic import reference as plain_isotonic
from omegamax.kernels.isotonic.triton import launcher as isotonic
from omegamax.kernels.triton import launch
from omegamax.kernels.variation import reference
from omegamax.kernels.variation.triton import launcher as chains

F64 = torch.float64
INF = math.inf
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = (1, 2, 37, 1000, 5000) if DEVICE == "cuda" else (1, 2, 37, 300)
# The interpreter computes with the infinities of absent entries in lanes that are dropped.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning")


def values(size: int) -> Tensor:
    """Noise, ties, a walk with a gap, a ramp, and noise of which a part is masked by large numbers."""
    x = torch.randn(5, size, dtype=F64, device=DEVICE)
    x[1] = x[1].round()
    x[2] = x[2].cumsum(-1)
    x[2, size // 3] = -INF
    x[3] = torch.linspace(0, 4, size)
    x[4, : size // 2] -= 1e9
    return x


@pytest.mark.parametrize("strength", [0.0, 0.2, 1.5, 40.0])
def test_chains_are_those_of_plain_torch(strength: float):
    for size in SIZES:
        x = values(size)
        w, wanted = chains.tv_chain(x, strength, -1), reference.tv_chain(x, strength, -1)
        torch.testing.assert_close(w, wanted, rtol=1e-12, atol=1e-12 * size)
        g = torch.randn_like(x)
        dx = chains.tv_chain_vjp(w, g, strength, -1)
        torch.testing.assert_close(dx, reference.tv_chain_vjp(w, g, strength, -1), rtol=1e-12, atol=1e-13)
        # The same pieces: the derivative at the one result is that at the other.
        torch.testing.assert_close(dx, reference.tv_chain_vjp(wanted, g, strength, -1), rtol=1e-12, atol=1e-13)


def test_pieces_are_equal_to_the_last_bit_and_single_precision_is_rounded_once():
    x = values(60).float()[:4]
    w = chains.tv_chain(x, 0.7, -1)
    assert w.dtype == torch.float32
    wanted = reference.tv_chain(x.double(), 0.7, -1)
    torch.testing.assert_close(w.double(), wanted, rtol=6e-8, atol=1e-12)
    assert torch.equal(w[:, 1:] == w[:, :-1], wanted[:, 1:] == wanted[:, :-1])


def test_a_strength_for_each_row_along_any_axis():
    x = torch.randn(2, 9, 3, dtype=F64, device=DEVICE)
    strength = torch.tensor([0.0, 0.3, 2.0], dtype=F64, device=DEVICE).reshape(1, 1, 3)
    w = chains.tv_chain(x, strength, 1)
    torch.testing.assert_close(w, reference.tv_chain(x, strength, 1), rtol=1e-13, atol=1e-14)
    g = torch.randn_like(x)
    for name in ("vjp", "slope"):
        rest = (w, g, strength, 1) if name == "vjp" else (w, strength, 1)
        found, wanted = (getattr(module, f"tv_chain_{name}")(*rest) for module in (chains, reference))
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)


def test_rows_that_are_not_sound_spoil_themselves_only():
    x = torch.randn(5, 7, dtype=F64, device=DEVICE)
    x[0], x[1, 3], x[2, 0] = -INF, math.nan, INF
    w = chains.tv_chain(x, 0.4, -1)
    assert (w[0] == -INF).all() and w[1:3].isnan().all()
    torch.testing.assert_close(w[3:], reference.tv_chain(x[3:], 0.4, -1), rtol=1e-13, atol=1e-14)
    w[3, 2:4] = -INF
    assert (chains.tv_chain_vjp(w[3:], torch.ones_like(w[3:]), 0.4, -1)[0, 2:4] == 0).all()
    assert chains.tv_chain(x[:0], 0.4, -1).shape == (0, 7)


def test_the_largest_numbers_and_strengths_are_no_trouble():
    x = torch.tensor([[1.0, -1.0, 0.5, 0.5]], dtype=F64, device=DEVICE) * 1.5e308
    for strength in (1e307, torch.finfo(F64).max):
        w = chains.tv_chain(x, strength, -1)
        torch.testing.assert_close(w, reference.tv_chain(x, strength, -1), rtol=1e-13, atol=0)


@pytest.mark.parametrize("strength", [0.0, 1e-300, 0.2, 1e12, 1e300])
def test_groups_that_are_far_apart_take_no_digits_from_each_other(strength: float):
    """In any order, upwards and downwards, with ties within and across groups, and entries that are absent."""
    for size in (4, 33, 300):
        level = torch.tensor([-1e9, -1e4, 0.0], dtype=F64, device=DEVICE)[torch.randint(3, (6, size), device=DEVICE)]
        x = level + torch.randn(6, size, dtype=F64, device=DEVICE)
        x[1], x[2] = x[1].sort().values, x[2].sort(descending=True).values
        x[3], x[4] = x[3].round(), level[4]
        x[5, torch.rand(size, device=DEVICE) < 0.3] = -INF
        for found, wanted in (
            (chains.tv_chain(x, strength, -1), reference.tv_chain(x, strength, -1)),
            (isotonic.oscar(x, strength, -1), plain_isotonic.oscar(x, strength, -1)),
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14 * size)
            assert [len(row.unique_consecutive()) for row in found] == [len(row.unique_consecutive()) for row in wanted]


@pytest.mark.parametrize("strength", [0.0, 0.05, 1.0])
def test_clusters_are_those_of_plain_torch(strength: float):
    for size in SIZES:
        x = values(size)
        u, wanted = isotonic.oscar(x, strength, -1), plain_isotonic.oscar(x, strength, -1)
        torch.testing.assert_close(u, wanted, rtol=1e-13, atol=1e-12 * size)
        # Values of a cluster are equal to the last bit, and there are as many of them.
        assert [len(row.unique()) for row in u] == [len(row.unique()) for row in wanted]


def test_few_programs_take_many_rows(monkeypatch):
    monkeypatch.setattr(launch, "MAX_SLOTS", 1)
    x = torch.randn(9, 40, dtype=F64, device=DEVICE)  # of which a program takes two at a time
    torch.testing.assert_close(chains.tv_chain(x, 0.3, -1), reference.tv_chain(x, 0.3, -1), rtol=1e-13, atol=1e-14)


def test_one_number_sends_strings_to_the_host(monkeypatch):
    rules = tuple(rule._replace(longest=0) if rule.longest == choice.STRING_ROW else rule for rule in choice.RULES)
    choice.choose.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(choice, "RULES", rules)
        patch.setattr(chains, "launch", None)
        patch.setattr(isotonic, "launch", None)
        x = torch.randn(3, 6, dtype=F64, device=DEVICE)
        wanted = reference.tv_chain(x, 0.3, -1)
        torch.testing.assert_close(chains.tv_chain(x, 0.3, -1), wanted, rtol=1e-13, atol=1e-14)
        found = chains.tv_chain_vjp(wanted, x, 0.3, -1)
        torch.testing.assert_close(found, reference.tv_chain_vjp(wanted, x, 0.3, -1), rtol=1e-13, atol=1e-14)
        assert torch.equal(isotonic.oscar(x, 0.3, -1), plain_isotonic.oscar(x, 0.3, -1))
    choice.choose.cache_clear()


def test_clusters_of_rows_along_another_axis():
    x = torch.randn(6, 40, dtype=F64, device=DEVICE).T  # sorted rows are as far apart in memory as these
    torch.testing.assert_close(isotonic.oscar(x, 0.05, 0), plain_isotonic.oscar(x, 0.05, 0), rtol=1e-13, atol=1e-12)
    torch.testing.assert_close(isotonic.oscar(x, 0.05, 1), plain_isotonic.oscar(x, 0.05, 1), rtol=1e-13, atol=1e-12)
