"""The contour integral: its torch version against mpmath, the compiled one against torch's."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor

from omegamax.kernels import _library
from omegamax.kernels.contour import cpu, reference

needs_native = pytest.mark.skipif(
    not _library.is_available("contour"), reason="omegamax was installed without compiled kernels"
)
VALUE = 0


def pairs(count: int, n: int) -> tuple[Tensor, ...]:
    """Supports of size one, functions from a thousandth to thirty times as wide, inside, at the edge and outside."""
    g = torch.Generator().manual_seed(n)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=g)

    M = 1 + 10 ** uniform(-1, 2, count, 1)
    spread = 10 ** uniform(-6, 3, count, 1, n)
    spread[::3] = spread[::3, :, :1]
    direction = torch.nn.functional.normalize(torch.randn(count, 1, n, dtype=torch.float64, generator=g), dim=-1)
    radius = torch.stack([uniform(*ends, count) for ends in ((0, 1), (0.9, 1.1), (0.999, 1.001), (1, 9))])
    kind = torch.arange(count) % len(radius)
    delta = direction * radius.gather(0, kind.unsqueeze(0)).reshape(count, 1, 1)
    h, B = torch.full_like(M, 0.5), torch.zeros_like(M)
    return M, h, B, torch.ones_like(delta), delta, spread


def on_the_line(M: float, spread: float, delta: float) -> float:
    """E[(1 - U^2)_+^(M - 1)] for a normal U, by quadrature in 30 digits."""
    with mpmath.workdps(30):
        s = mpmath.sqrt(spread)
        cuts = sorted({-1, 1, *(min(max(delta + k * s, -1), 1) for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12))})
        integral = mpmath.quad(lambda u: (1 - u * u) ** (M - 1) * mpmath.npdf(u, delta, s), cuts, maxdegree=8)
        return float(integral)


@pytest.mark.parametrize("fine, tolerance", [(True, 1e-12), (False, 1e-7)], ids=["fine", "coarse"])
def test_value_agrees_with_quadrature(fine: bool, tolerance: float):
    arguments = pairs(60, 1)
    values = reference.contour(*arguments, fine)[..., VALUE].flatten()
    M, delta, spread = arguments[0].flatten(), arguments[4].flatten(), arguments[5].flatten()
    for value, *pair in zip(values.tolist(), M.tolist(), spread.tolist(), delta.tolist(), strict=True):
        assert abs(value - on_the_line(*pair)) <= tolerance


@pytest.mark.parametrize("n", [1, 2, 3])
def test_saddle_point_is_found_at_the_edge(n: int):
    g = torch.Generator().manual_seed(0)
    a = 10 ** torch.empty(20_000, n, dtype=torch.float64).uniform_(-14, 8, generator=g)
    direction = torch.nn.functional.normalize(torch.randn(20_000, n, dtype=torch.float64, generator=g), dim=-1)
    gap = 10 ** torch.empty(20_000, 1, dtype=torch.float64).uniform_(-14, 0, generator=g)
    sign = torch.randint(2, (20_000, 1), generator=g) * 2 - 1
    b = direction.square() * (1 + sign * gap)
    M = 1 + 10 ** torch.empty(20_000, dtype=torch.float64).uniform_(-2, 3, generator=g)
    s = reference.find_saddle(M, a, b)
    w = 1 + 2 * a * s.unsqueeze(-1)
    slope = 1 - M / s - ((a + b / w) / w).sum(-1)
    curve = M / s.square() + ((2 * a + 4 * b / w) * (a / w.square())).sum(-1)
    assert (slope / curve.sqrt()).abs().max() < 1e-8  # in units of the bell's width


@needs_native
@pytest.mark.parametrize("fine", [True, False], ids=["fine", "coarse"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 16])
def test_compiled_forward_agrees(n: int, fine: bool):
    arguments = pairs(401, n)  # a last vector that is not full
    ours, theirs = cpu.contour(*arguments, fine), reference.contour(*arguments, fine)
    assert not ours.isnan().any()
    torch.testing.assert_close(ours[..., VALUE], theirs[..., VALUE], rtol=1e-10, atol=1e-14)


@needs_native
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_compiled_gradient_agrees(n: int):
    arguments = pairs(400, n)
    ours, theirs = cpu.contour(*arguments, True), reference.contour(*arguments, True)
    # Second moments of a narrow function are differences of numbers larger than they are by (1 / spread)^2.
    scale = theirs.abs().amax(-1, keepdim=True)
    assert ((ours - theirs).abs() <= 1e-8 * scale + 1e-14).all()


@needs_native
def test_shared_diagonals_and_spreads_are_those_of_each_pair():
    M, h, B, diagonal, _, spread = pairs(6, 2)
    delta = torch.randn(6, 5, 2, dtype=torch.float64)
    spread = spread[:5, 0]
    each = cpu.contour(M, h, B, diagonal.expand_as(delta), delta, spread.expand_as(delta), True)
    assert torch.equal(cpu.contour(M, h, B, diagonal, delta, spread, True), each)


@needs_native
def test_a_nan_spoils_its_own_pair_only():
    arguments = list(pairs(20, 2))
    clean = cpu.contour(*arguments, True)
    arguments[4] = arguments[4].clone()
    arguments[4][3] = math.nan
    spoiled = cpu.contour(*arguments, True)
    assert spoiled[3, 0, VALUE].isnan()
    others = torch.arange(20) != 3
    torch.testing.assert_close(spoiled[others], clean[others], rtol=1e-12, atol=0.0)


def test_more_dimensions_than_the_compiled_kernel_has_room_for():
    if _library.is_available("contour"):
        arguments = pairs(3, 17)
        assert torch.equal(cpu.contour(*arguments, True), reference.contour(*arguments, True))


def test_stirling_is_what_its_formula_leaves():
    for x in (0.1, 1.0, 11.999, 12.001, 50.0, 1e4, 1e8):
        with mpmath.workdps(40):
            exact = mpmath.loggamma(x) - (mpmath.mpf(x) - 0.5) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2
        ours = reference.stirling(torch.tensor(x, dtype=torch.float64)).item()
        assert math.isclose(ours, float(exact), rel_tol=1e-12, abs_tol=1e-14)
