"""Scalar functions against high-precision values, in particular where the textbook form cancels."""

from __future__ import annotations

import mpmath
import pytest
import torch

from omegamax._numerics import on_support, phi, psi, rho, tsallis_log_alpha

F64 = torch.float64
POINTS = [0.0, 1e-300, 1e-16, 1e-8, 1e-3, 0.1, 0.3, 0.4999, 0.5, 0.5001, 1.0, 3.0, 10.0, 40.0]
both_signs = pytest.mark.parametrize("y", [s * y for y in POINTS for s in (1, -1)])


def exact_phi(y: float) -> float:
    return float(mpmath.expm1(y) / mpmath.mpf(y)) if y else 1.0


def exact_psi(y: float) -> float:
    with mpmath.workdps(700):
        y = mpmath.mpf(y)
        return float((mpmath.exp(y) * (y - 1) + 1) / y**2) if y else 0.5


def exact_rho(y: float) -> float:
    with mpmath.workdps(1000):
        y = mpmath.mpf(y)
        return float((mpmath.exp(y) * ((y - 1) ** 2 + 1) - 2) / y**3) if y else 1 / 3


@both_signs
def test_phi_is_accurate_through_zero(y: float):
    assert phi(torch.tensor(y, dtype=F64)).item() == pytest.approx(exact_phi(y), rel=1e-15)


@both_signs
def test_psi_is_accurate_through_zero(y: float):
    assert psi(torch.tensor(y, dtype=F64)).item() == pytest.approx(exact_psi(y), rel=3e-15)


@both_signs
def test_rho_is_accurate_through_zero(y: float):
    assert rho(torch.tensor(y, dtype=F64)).item() == pytest.approx(exact_rho(y), rel=1e-14)


@pytest.mark.parametrize("f, exact", [(phi, exact_phi), (psi, exact_psi), (rho, exact_rho)], ids=["phi", "psi", "rho"])
def test_float32_is_accurate_through_zero(f, exact):
    for y in POINTS[2:]:
        for sign in (1, -1):
            assert f(torch.tensor(sign * y)).item() == pytest.approx(exact(sign * y), rel=5e-6)


@pytest.mark.parametrize("f", [phi, psi, rho])
def test_derivative_matches_finite_differences_on_both_branches(f):
    y = torch.tensor([-3.0, -0.6, -0.4, -1e-3, 1e-3, 0.2, 0.45, 0.7, 4.0], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(f, y)
    assert torch.autograd.gradgradcheck(f, y)


@pytest.mark.parametrize("f", [phi, psi, rho])
def test_derivative_is_finite_at_zero_and_far_out(f):
    y = torch.tensor([0.0, 0.5, -700.0], dtype=F64, requires_grad=True)
    f(y).sum().backward()
    assert y.grad.isfinite().all()


def test_support_hides_zeros_only():
    p = torch.tensor([0.0, 5e-324, 0.25, 1.0], dtype=F64)
    support, safe = on_support(p)
    assert support.tolist() == [False, True, True, True]
    assert safe.tolist() == [1.0, 5e-324, 0.25, 1.0]


@pytest.mark.parametrize("alpha", [0.2, 0.9, 1 - 1e-9, 1.0, 1 + 1e-12, 1.0005, 1.5, 2.0, 3.0])
def test_change_of_the_deformed_logarithm_matches_its_definition(alpha: float):
    p = torch.tensor([0.0, 1e-6, 0.01, 0.3, 0.9, 1.0], dtype=F64)
    found = tsallis_log_alpha(p, alpha)
    assert found[0] == 0
    with mpmath.workdps(60):
        for value, ours in zip(p[1:].tolist(), found[1:].tolist(), strict=True):
            log_p, h = mpmath.log(mpmath.mpf(value)), mpmath.mpf(10) ** -25

            def deformed(e, log_p=log_p):
                return mpmath.expm1(e * log_p) / e

            e = mpmath.mpf(alpha) - 1
            truth = -(deformed(e + h) - deformed(e - h)) / (2 * h)
            assert ours == pytest.approx(float(truth), rel=1e-13, abs=1e-300)
