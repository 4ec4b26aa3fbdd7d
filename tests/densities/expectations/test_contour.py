"""The contour integral as torch sees it: an operator, a Function, and its own second derivatives."""

from __future__ import annotations

import pytest
import torch

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._contour import _integral, integrate_contour, integrate_on_path
from omegamax.densities.expectations._frame import make_frame, widen

F64 = torch.float64


def example(n: int, grad: bool = False) -> list:
    g = torch.Generator().manual_seed(n)
    loc = torch.rand(2, n, dtype=F64, generator=g)
    factor = torch.randn(2, n, n, dtype=F64, generator=g)
    density = BetaGaussian(loc, factor @ factor.mT / 4 + 0.1 * torch.eye(n, dtype=F64), alpha=1.7)
    wide = widen(density, 1.7)
    pair = make_frame(wide, GaussianRBF(torch.rand(3, n, dtype=F64, generator=g), 0.05))
    scalars = [t.unsqueeze(-1) for t in (1 + 1 / wide.e, wide.c / wide.e, wide.B)]
    return [t.detach().clone().requires_grad_(grad) for t in (*pair, *scalars)]


@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
@pytest.mark.filterwarnings("ignore")
def test_operator_passes_the_checks_of_torch_library(grad: bool):
    torch.library.opcheck(_integral.op, (*example(2, grad), True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_operator_has_the_gradients_of_the_integrand(n: int):
    inputs = example(n, grad=True)
    g = torch.randn(2, 3, dtype=F64)
    value, _ = _integral.op(*inputs, True)
    plain = integrate_on_path(*inputs)
    torch.testing.assert_close(value, plain, rtol=1e-11, atol=0.0)
    ours = torch.autograd.grad((value * g).sum(), inputs)
    theirs = torch.autograd.grad((plain * g).sum(), inputs)
    # Sigma is symmetric: only what both of its halves get together is defined.
    ours, theirs = ([(s + s.mT) / 2, *rest] for s, *rest in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_third_derivatives_are_those_of_the_integrand():
    density = BetaGaussian(torch.tensor([0.2, 0.4], dtype=F64), 0.3, alpha=1.7)
    basis = GaussianRBF(torch.tensor([[0.5, 0.1]], dtype=F64), 0.05)

    def value(loc):
        wide = widen(density, 1.7)._replace(loc=loc)
        return integrate_contour(make_frame(wide, basis), wide).sum()

    def slopes(f):
        def g(loc):
            return torch.autograd.grad(f(loc).sum(), loc, create_graph=True)[0]

        return g

    loc = density.loc.clone().requires_grad_()
    assert torch.autograd.gradcheck(slopes(slopes(value)), (loc,), atol=1e-6)
