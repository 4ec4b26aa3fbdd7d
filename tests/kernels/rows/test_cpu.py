"""Rows of floats in compiled C++, against float64: tiles of short rows, columns, long rows, alphas by row."""

from __future__ import annotations

import pytest
import torch

from omegamax import entmax

# Around the lengths at which rows are laid out in another way.
SIZES = (1, 2, 17, 32, 33, 64, 65, 197, 384, 385, 1000)
DISTRIBUTIONS = {
    "normal": lambda z: z,
    "flat": lambda z: 0.03 * z,
    "sharp": lambda z: 8 * z,
    "ties": lambda z: (4 * z).round() / 4,
}
# Probabilities, and products with the Jacobian; beyond 1.5 thresholds are corrected in double.
TOLERANCES = {1.05: (1e-6, 1e-6), 1.3: (3e-7, 6e-7), 1.45: (3e-7, 6e-7)}
PRECISE = (6e-8, 4e-7)


def both(apply, z, g):
    """Return the probabilities and the products with the Jacobian, in float and in double."""
    for scores in (z, z.double()):
        leaf = scores.clone().requires_grad_()
        p = apply(leaf)
        yield p.detach().double()
        yield torch.autograd.grad(p, leaf, g.to(leaf))[0].double()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.45, 1.6, 1.75, 1.9, 1.99])
def test_any_alpha_of_floats_is_that_of_doubles_in_every_layout(alpha: float, distribution: str, size: int):
    z, g = DISTRIBUTIONS[distribution](torch.randn(37, size)), torch.randn(37, size)
    most, steepest = TOLERANCES.get(alpha, PRECISE)
    alphas = torch.full((37, 1), alpha)

    for apply in (
        lambda z: entmax(z, alpha),
        lambda z: entmax(z.t().contiguous(), alpha, dim=0).t(),
        lambda z: entmax(z, alphas.to(z)),
    ):
        p, dp, exact, exact_dp = both(apply, z, g)
        assert (p - exact).abs().max() <= most
        assert (dp - exact_dp).abs().max() <= steepest


@pytest.mark.parametrize("size", SIZES)
def test_row_does_not_depend_on_its_neighbours(size: int):
    """They may have another alpha, outside 1 to 2 too, masks, and no finite maximum."""
    z = torch.randn(64, size)
    z[1::8, size // 2 :] = -torch.inf
    z[2::8] = -torch.inf
    z[3::8, 0] = torch.nan
    z[4::8, 0] = torch.inf
    alphas = torch.tensor([1.0, 1.25, 1.3, 1.5, 1.75, 2.0, 2.5, 0.75, 1.9, 1.6, 3.0]).repeat(6)[:64, None]
    p = entmax(z, alphas)
    order = torch.randperm(64)
    assert torch.equal(entmax(z[order], alphas[order]).nan_to_num(-1.0), p[order].nan_to_num(-1.0))
    kind = torch.arange(64) % 8
    assert torch.equal(p.isnan().all(-1), (kind == 3) | (kind == 4))
    assert (p[kind == 2] == 0).all()
