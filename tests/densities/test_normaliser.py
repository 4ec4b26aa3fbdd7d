"""The scalar functions of alpha, against many digits of mpmath, near alpha = 1 above all."""

from __future__ import annotations

import mpmath
import pytest
import torch

from omegamax._numerics import gap, log_ratio, log_volume, log_volume_slope

F64 = torch.float64
NEAR = [sign * 1.3 * 10.0**-k for k in range(1, 13) for sign in (1, -1)]
FAR = [0.0999, 0.1001, -0.0999, -0.1001, 0.5, 1.0, 2.0, 9.0, 99.0, -0.24, -0.39, -0.5, -0.9, -1.3, -1.9, -1.95]
STEPS = NEAR + FAR
every_n = pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])


def exact(e: mpmath.mpf, n: int) -> mpmath.mpf:
    m, half = 1 / mpmath.mpf(e), mpmath.mpf(n) / 2
    if e > 0:
        return mpmath.loggamma(m + 1 + half) - mpmath.loggamma(m + 1) - half * mpmath.log(m)
    return mpmath.loggamma(-m) - mpmath.loggamma(-m - half) - half * mpmath.log(-m)


@every_n
def test_volume_and_its_slopes_to_the_last_digits(n: int):
    with mpmath.workdps(110):
        for e in (e for e in STEPS if e > -2 / n):
            h = abs(mpmath.mpf(e)) * mpmath.mpf("1e-15") * (1 + mpmath.mpf(e) * n / 2)
            value = exact(mpmath.mpf(e), n)
            slope = (exact(e + h, n) - exact(e - h, n)) / (2 * h)
            curvature = (exact(e + h, n) - 2 * value + exact(e - h, n)) / h**2
            assert abs(log_volume(e, n) / value - 1) <= 4e-14
            assert abs(log_volume_slope(e, n) / slope - 1) <= 4e-14
            t = torch.tensor(e, dtype=F64, requires_grad=True)
            first = torch.autograd.grad(log_volume(t, n), t, create_graph=True)[0]
            assert abs(log_volume(t, n).item() / value - 1) <= 4e-14
            assert abs(first.item() / slope - 1) <= 4e-14
            assert abs(torch.autograd.grad(first, t)[0].item() / curvature - 1) <= 1e-11
            assert abs(torch.autograd.grad(log_volume_slope(t, n), t)[0].item() / curvature - 1) <= 1e-11


@every_n
def test_at_alpha_one(n: int):
    t = torch.zeros((), dtype=F64, requires_grad=True)
    value = log_volume(t, n)
    first = torch.autograd.grad(value, t, create_graph=True)[0]
    assert value == 0 == log_volume(0.0, n)
    assert first.item() == pytest.approx(n * (n + 2) / 8, rel=1e-15)
    assert log_volume_slope(0.0, n) == pytest.approx(n * (n + 2) / 8, rel=1e-15)
    # The second Bernoulli term: -[B_3(1 + n/2) - B_3(1)] / 6, twice for the second derivative.
    x = 1 + n / 2
    assert torch.autograd.grad(first, t)[0].item() == pytest.approx(-(x**3 - 1.5 * x**2 + 0.5 * x) / 3, rel=1e-14)


def test_one_tensor_may_hold_every_kind():
    e = torch.tensor([*STEPS, 0.0], dtype=F64)
    e = e[e > -2 / 3]
    together = log_volume(e, 3)
    assert torch.equal(together, torch.stack([log_volume(x, 3) for x in e]))
    alone = torch.tensor([log_volume(x, 3) for x in e.tolist()], dtype=F64)
    assert torch.allclose(together, alone, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("function", "naive"),
    [(gap, lambda y: (y - mpmath.log1p(y)) / y**2), (log_ratio, lambda y: mpmath.log1p(y) / y)],
    ids=["gap", "log_ratio"],
)
def test_logarithms_without_cancellation(function, naive):
    with mpmath.workdps(60):
        for y in (1e-300, 1e-9, -1e-9, 0.01, -0.01, 0.2499, 0.2501, -0.2499, -0.2501, -0.9, -1 + 1e-9, 3.0, 1e10):
            h = abs(mpmath.mpf(y)) * mpmath.mpf("1e-12") if abs(y) < 0.9 else mpmath.mpf("1e-20")
            if abs(y) < 1e-100:
                h = mpmath.mpf("1e-12")
            t = torch.tensor(y, dtype=F64, requires_grad=True)
            value = function(t)
            first = torch.autograd.grad(value, t, create_graph=True)[0]
            second = torch.autograd.grad(first, t)[0]
            if abs(y) > 1e-100:
                assert abs(value.item() / naive(mpmath.mpf(y)) - 1) <= 2e-15
                slope = (naive(y + h) - naive(y - h)) / (2 * h)
                assert abs(first.item() / slope - 1) <= 1e-12
            assert second.isfinite()
    zero = torch.zeros((), dtype=F64, requires_grad=True)
    first = torch.autograd.grad(function(zero), zero, create_graph=True)[0]
    expected = (0.5, -1 / 3, 1 / 2) if function is gap else (1.0, -0.5, 2 / 3)
    assert (function(zero).item(), first.item()) == pytest.approx(expected[:2], rel=1e-15)
    assert torch.autograd.grad(first, zero)[0].item() == pytest.approx(expected[2], rel=1e-14)
