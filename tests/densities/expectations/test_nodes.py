"""Gaussian rules for radii against exact moments, scipy and mpmath, with their derivatives in the exponents."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.special import roots_genlaguerre, roots_jacobi
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.densities.expectations._nodes import gauss_jacobi, gauss_laguerre, gauss_tsallis, radial_nodes
from omegamax.densities.expectations._sphere import sphere_nodes

F64 = torch.float64


def wide(*values: float) -> list[Tensor]:
    return [torch.tensor(v, dtype=F64) for v in values]


def moment(a: float, e: float, rate: float, k: int) -> mp.mpf:
    """Of x^k under x^a (1 - e x)^(rate/e), with 40 digits: a Beta or a Gamma moment."""
    with mp.workdps(40):
        a, e, rate = mp.mpf(a), mp.mpf(e), mp.mpf(rate)
        if e == 0:
            return mp.rf(a + 1, k) / rate**k
        return mp.rf(a + 1, k) / mp.rf(a + rate / e + 2, k) / e**k


def polished(order: int, a: float, b: float, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Zeros of Jacobi's polynomial on [-1, 1] next to ``nodes``, and normalised weights, with 40 digits."""
    with mp.workdps(40):
        a, b = mp.mpf(a), mp.mpf(b)
        zeros = [mp.findroot(lambda x: mp.jacobi(order, a, b, x), mp.mpf(x)) for x in nodes]
        slopes = [(order + a + b + 1) / 2 * mp.jacobi(order - 1, a + 1, b + 1, x) for x in zeros]
        weights = [1 / ((1 - x**2) * s**2) for x, s in zip(zeros, slopes, strict=True)]
        return np.array(zeros, dtype=float), np.array([w / mp.fsum(weights) for w in weights], dtype=float)


@pytest.mark.parametrize("order", [1, 2, 7, 32, 64])
@pytest.mark.parametrize("a, b", [(0.0, 0.0), (-0.5, -0.5), (0.5, 2.0), (20.0, 1.0)])
def test_jacobi_is_scipys(order: int, a: float, b: float):
    nodes, weights = gauss_jacobi(order, a, b)
    expected, masses = roots_jacobi(order, a, b)
    assert np.abs(nodes.numpy() - expected).max() <= 1e-14
    assert np.abs(weights.numpy() - masses / masses.sum()).max() <= 1e-13


@pytest.mark.parametrize("order", [2, 16, 64])
@pytest.mark.parametrize("a", [-0.5, 0.0, 1.5])
def test_laguerre_is_scipys(order: int, a: float):
    nodes, weights = gauss_laguerre(order, a)
    expected, masses = roots_genlaguerre(order, a)
    assert np.abs(nodes.numpy() / expected - 1).max() <= 1e-12
    assert np.abs(nodes.numpy() - expected).max() <= 1e-14 * expected.max()
    assert np.abs(weights.numpy() - masses / masses.sum()).max() <= 1e-13


@pytest.mark.parametrize("a, b", [(-0.9, -0.9), (3.0, -0.5), (100.0, 0.0)])
def test_jacobi_with_40_digits_where_scipy_has_fewer(a: float, b: float):
    nodes, weights = gauss_jacobi(16, a, b)
    expected, masses = polished(16, a, b, nodes.numpy())
    assert np.abs(nodes.numpy() - expected).max() <= 1e-14
    assert np.abs(weights.numpy() - masses).max() <= 1e-13


@pytest.mark.parametrize("a", [-0.5, 0.0, 2.5])
@pytest.mark.parametrize("e", [-1e-4, -1e-12, 0.0, 1e-12, 1e-3, 0.1, 1.0, 7.0])
def test_rule_is_exact_up_to_its_degree(a: float, e: float):
    nodes, weights = gauss_tsallis(8, a, e)
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    for k in range(16):
        assert float((weights * nodes**k).sum()) == pytest.approx(float(moment(a, e, 1.0, k)), rel=1e-12)


@pytest.mark.parametrize("e", [-1e-3, 0.0, 1e-6, 0.5, 2.0])
def test_derivatives_of_moments_in_the_parameters(e: float):
    a, slope, rate = wide(0.5, e, 1.2)
    for t in (a, slope, rate):
        t.requires_grad_()
    nodes, weights = gauss_tsallis(6, a, slope, rate)
    for k in (1, 3, 9):
        value = (weights * nodes**k).sum()
        first = torch.autograd.grad(value, (a, slope, rate), create_graph=True)
        second = torch.autograd.grad(first[1], slope, retain_graph=True)[0]
        with mp.workdps(40):
            orders = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 2, 0)]
            # A formula without 0/0, so that mpmath can differentiate through e = 0.
            exact = [
                mp.diff(
                    lambda a, e, r, k=k: mp.rf(a + 1, k) / mp.fprod(r + e * (a + 2 + j) for j in range(k)),
                    (mp.mpf(0.5), mp.mpf(e), mp.mpf(1.2)),
                    order,
                )
                for order in orders
            ]
        for got, wanted in zip((*first, second), exact, strict=True):
            assert got.item() == pytest.approx(float(wanted), rel=1e-9)


def test_rule_differentiates_twice():
    def total(a: Tensor, e: Tensor) -> Tensor:
        nodes, weights = gauss_tsallis(5, a, e)
        return (weights * torch.sin(nodes)).sum(-1)

    inputs = [torch.tensor([-0.5, 0.0, 1.0], dtype=F64), torch.tensor([0.7, 0.0, -0.01], dtype=F64)]
    inputs = [t.requires_grad_() for t in inputs]
    assert gradcheck(total, inputs)
    assert gradgradcheck(total, inputs)


def test_tensors_and_floats_agree_and_broadcast():
    e = torch.tensor([[0.0], [0.3], [2.0]], dtype=F64)
    a = torch.tensor([-0.5, 1.0], dtype=F64)
    nodes, weights = gauss_tsallis(7, a, e)
    assert nodes.shape == weights.shape == (3, 2, 7)
    for i in range(3):
        for j in range(2):
            x, w = gauss_tsallis(7, a[j].item(), e[i].item())
            assert (nodes[i, j] - x).abs().max() <= 1e-13 and (weights[i, j] - w).abs().max() <= 1e-13
    mapped = torch.vmap(lambda e: gauss_tsallis(7, 1.0, e)[0])(e[:, 0])
    assert (mapped - nodes[:, 1]).abs().max() <= 1e-13


def test_a_rule_made_in_inference_mode_serves_training():
    with torch.inference_mode():
        gauss_jacobi(9, 0.123, 0.456)
    x, w = gauss_jacobi(9, 0.123, 0.456)
    scale = torch.ones((), dtype=F64, requires_grad=True)
    (w * (scale * x).cos()).sum().backward()
    assert scale.grad is not None


def test_order_is_checked():
    with pytest.raises(ValueError, match="gauss_tsallis: order must be at least 1, got 0"):
        gauss_jacobi(0, 0.0, 0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("e", [-1e-9, 0.0, 1e-9, 0.5, 3.0])
def test_radii_have_their_moments(n: int, e: float):
    for given in (e, torch.tensor(e, dtype=F64)):
        r, w = radial_nodes(24, n, given)
        for k in (1, 2, 5):  # E[R^k] = (n/2)_k / prod (1 + e (n/2 + 1 + j)) for R = r^2 / 2
            exact = np.prod([(n / 2 + j) / (1 + e * (n / 2 + 1 + j)) for j in range(k)])
            assert float((w * (r.square() / 2) ** k).sum()) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("n, e", [(1, -1.0), (1, -0.5), (2, -0.5), (3, -0.5), (3, -0.1)])
def test_heavy_tailed_radii(n: int, e: float):
    with mp.workdps(30):
        # |z|^2 / 2 has the density R^(n/2 - 1) (1 - e R)^(1/e).
        top = mp.quad(lambda x: x ** (n / 2 - 1) * (1 - e * x) ** (1 / mp.mpf(e)) * mp.exp(-x), [0, 1, 10, mp.inf])
        mass = mp.quad(lambda x: x ** (n / 2 - 1) * (1 - e * x) ** (1 / mp.mpf(e)), [0, 1, 10, mp.inf])
    r, w = radial_nodes(48, n, e)
    assert float((w * (-r.square() / 2).exp()).sum()) == pytest.approx(float(top / mass), abs=1e-10)


@pytest.mark.parametrize(
    "n, order, degree", [(1, 3, 9), (2, 4, 7), (3, 4, 7), (4, 4, 7), (5, 4, 9), (6, 4, 7), (9, 4, 5), (20, 4, 3)]
)
def test_directions_have_their_moments(n: int, order: int, degree: int):
    directions, weights = sphere_nodes(n, order)
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    assert (directions.square().sum(-1) - 1).abs().max() <= 1e-14
    generator = torch.Generator().manual_seed(n)
    for k in range(degree + 1):  # E[(u.a)^k] = (1/2)_(k/2) / (n/2)_(k/2)
        a = torch.nn.functional.normalize(torch.randn(n, dtype=F64, generator=generator), dim=0)
        exact = 0.0 if k % 2 else np.prod([(0.5 + j) / (n / 2 + j) for j in range(k // 2)])
        assert float((weights * (directions @ a) ** k).sum()) == pytest.approx(exact, abs=1e-12)
