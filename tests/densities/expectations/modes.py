"""Expectations mapped over, compiled, and computed twice before a gradient: what they are one at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.basis import Basis
from omegamax.densities import BetaGaussian


def check_mapped_and_compiled(value: Callable[[Tensor, Tensor], Tensor], loc: Tensor, scale: Tensor) -> Tensor:
    """``value`` under vmap and compiled in one graph; returns it as it is."""
    exact = value(loc, scale)
    assert torch.allclose(torch.vmap(value)(loc, scale), exact, rtol=0, atol=1e-13)
    torch._dynamo.reset()
    compiled = torch.compile(value, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(loc, scale), exact, rtol=0, atol=1e-13)
    return exact


def check_two_forwards(basis: Basis, loc: Tensor, scale: Tensor, tol: float) -> None:
    """Two of them before one gradient have the sum of the gradients."""
    x = loc.clone().requires_grad_()
    one, two = BetaGaussian(x, scale, 1.5).expect(basis), BetaGaussian(2 * x, scale, 1.2).expect(basis)
    (both,) = torch.autograd.grad(one.sum() + two.sum(), x)
    (a,) = torch.autograd.grad(BetaGaussian(x, scale, 1.5).expect(basis).sum(), x)
    (b,) = torch.autograd.grad(BetaGaussian(2 * x, scale, 1.2).expect(basis).sum(), x)
    assert (both - a - b).abs().max() <= tol
