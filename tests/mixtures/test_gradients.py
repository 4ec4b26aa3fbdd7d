"""Derivatives of a fitted mixture: through the iterations, and at their fixed point."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mixtures.clouds import cloud, double, moments
from omegamax.basis import GaussianRBF, grid_positions
from omegamax.densities import BetaGaussian, Mixture
from omegamax.mixtures import weighted_em
from omegamax.mixtures._floor import hold_at_floor
from omegamax.mixtures._implicit import attach_fixed_point, gmres
from omegamax.mixtures._packed import pack, unpack


def flat(p: Mixture) -> Tensor:
    return torch.cat([t.flatten(1) for t in moments(p)], -1)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("init", ["split", "kmeans++"])
def test_gradient_in_weights_and_positions(n: int, init: str):
    x, w = cloud(2, points=10, n=n, seed=n)

    def fit(w: Tensor, x: Tensor) -> Tensor:
        return flat(weighted_em(x, w, 2, 3, init, 0.02, generator=torch.Generator().manual_seed(0)))

    assert torch.autograd.gradcheck(fit, (w.requires_grad_(), x.requires_grad_()))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradient_at_the_fixed_point(n: int):
    x, w = cloud(points=6, n=n, seed=n)
    start = weighted_em(x, w, 2, 300, floor=0.02)

    def fit(w: Tensor, x: Tensor) -> Tensor:
        return flat(weighted_em(x, w.unsqueeze(0), 2, 40, start, 0.02, implicit=True))

    # Not to the last digits: what is left of the way to the fixed point is divided by the step of the differences.
    assert torch.autograd.gradcheck(fit, (w.requires_grad_(), x.requires_grad_()), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_gradient_where_the_floor_holds(n: int, alpha: float):
    x, w = cloud(2, points=10, n=n, seed=n)

    def fit(w: Tensor, x: Tensor) -> Tensor:
        return flat(weighted_em(x, w, 2, 3, floor=0.9, alpha=alpha, distance="fenchel_young"))

    assert torch.autograd.gradcheck(fit, (w.requires_grad_(), x.requires_grad_()))


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("kwargs", [{"responsibilities": "entmax15"}, {"mixing": "sparsemax"}, {}], ids=str)
def test_gradient_in_alpha_and_spread(implicit: bool, kwargs):
    x, w = cloud(2, points=12)
    alpha = torch.tensor([1.3, 2.0], dtype=double, requires_grad=True)
    spread = torch.tensor([0.2, 0.4], dtype=double, requires_grad=True)
    options = {"distance": "fenchel_young", **kwargs}
    start = weighted_em(x, w, 2, 200, alpha=alpha.detach(), spread=spread.detach(), **options)

    def fit(alpha: Tensor, spread: Tensor) -> Tensor:
        p = weighted_em(x, w, 2, 40 if implicit else 3, start, alpha=alpha, spread=spread, implicit=implicit, **options)
        return torch.cat([flat(p), p.components.scale.flatten(1)], -1)

    assert torch.autograd.gradcheck(fit, (alpha, spread), atol=1e-5, rtol=1e-4)


def test_gradient_in_the_mixture_to_go_on_from():
    x, w = cloud(2, points=10)
    mean = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=double, requires_grad=True)
    weights = torch.tensor([0.3, 0.7], dtype=double)

    def fit(mean: Tensor, scale: Tensor) -> Tensor:
        return flat(weighted_em(x, w, 2, 2, Mixture(weights, BetaGaussian(mean, scale, 1.0))))

    scale = torch.tensor(3.0, dtype=double, requires_grad=True)
    assert torch.autograd.gradcheck(fit, (mean, scale))


@pytest.mark.parametrize("kwargs", [{}, {"responsibilities": "sparsemax"}, {"mixing": "sparsemax"}], ids=str)
def test_both_ways_agree_where_the_iterations_have_converged(kwargs):
    x = grid_positions((8, 8)).to(double)
    centres = torch.tensor([[0.25, 0.3], [0.75, 0.7]], dtype=double)
    w = (-30 * torch.cdist(x, centres).square()).exp().sum(-1) * (1 + torch.rand(2, 64, dtype=double))
    basis = GaussianRBF.grid(3, 2, 0.1).to(double)
    grads = []
    for implicit in (False, True):
        leaf = w.clone().requires_grad_()
        p = weighted_em(x, leaf, 3 if kwargs else  2, 200, "kmeans++", implicit=implicit, **kwargs,
                        generator=torch.Generator().manual_seed(2))  # fmt: skip
        (p.expect(basis) * torch.arange(9)).sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-6, atol=1e-9)


def test_implicit_gradient_of_components_that_are_the_same():
    x, w = cloud(2)
    start = Mixture(torch.tensor([0.5, 0.5], dtype=double), BetaGaussian(torch.zeros(2, 2, dtype=double), 9.0, 1.0))
    p = weighted_em(x, w.requires_grad_(), 2, 5, start, implicit=True)
    mean = p.mean
    mean.sum().backward()
    exact = torch.autograd.grad((w @ x / w.sum(-1, keepdim=True)).sum(), w)[0]
    torch.testing.assert_close(w.grad, exact)


def test_implicit_memory_does_not_grow():
    x, w = cloud(4)
    sizes = []
    for iterations in (5, 50):
        total = 0

        def count(t: Tensor) -> Tensor:
            nonlocal total
            total += t.numel()
            return t

        with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
            weighted_em(x, w.requires_grad_(), 3, iterations, implicit=True)
        sizes.append(total)
    assert sizes[0] == sizes[1] > 0


def test_second_derivative_through_the_iterations():
    x, w = cloud(1, points=6)
    assert torch.autograd.gradgradcheck(lambda w: flat(weighted_em(x, w, 2, 2, floor=0.01)), w.requires_grad_())


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("e", [0.0, 1.0, -0.2])
def test_gradient_of_the_floor_at_equal_eigenvalues(n: int, e: float):
    torch.manual_seed(n)
    turn = torch.linalg.qr(torch.randn(n, n, dtype=double))[0]
    for values in ([2.0] * n, [0.1] * n, [0.1] + [2.0] * (n - 1), [0.1, 0.2, 2.0, 2.0][-n:]):
        matrix = turn @ torch.diag(torch.tensor(values, dtype=double)) @ turn.mT
        floor = torch.tensor(0.5, dtype=double)

        def apply(packed: Tensor, floor: Tensor = floor) -> Tensor:
            return hold_at_floor(packed, floor, e, n)

        assert torch.autograd.gradcheck(apply, pack(matrix).requires_grad_(), atol=1e-6)


def test_fixed_point_of_a_contraction():
    torch.manual_seed(0)
    a = 0.2 * torch.randn(3, 5, 5, dtype=double)
    b = torch.randn(3, 5, dtype=double)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        end = torch.linalg.solve(torch.eye(5, dtype=double) - a.detach(), b.detach())
        return attach_fixed_point(lambda u, a, b: (a @ u.unsqueeze(-1)).squeeze(-1) + b, end, a, b)

    assert torch.autograd.gradcheck(solve, (a.requires_grad_(), b.requires_grad_()))


def test_gmres_solves_each_system_and_survives_singular_ones():
    torch.manual_seed(0)
    a = torch.randn(4, 6, 6, dtype=double)
    a[1] = torch.diag(torch.tensor([1.0, 1, 1, 1, 0, 0], dtype=double))  # singular
    a[2] = torch.eye(6)
    b = torch.randn(4, 6, dtype=double)
    b[1, 4:] = 0
    b[3] = 0
    u = gmres(lambda u: (a @ u.unsqueeze(-1)).squeeze(-1), b)
    torch.testing.assert_close((a @ u.unsqueeze(-1)).squeeze(-1), b)
    assert (u[3] == 0).all()


def test_packed_matrices_come_back():
    a = torch.randn(3, 4, 4)
    a = a + a.mT
    torch.testing.assert_close(unpack(pack(a), 4), a)
