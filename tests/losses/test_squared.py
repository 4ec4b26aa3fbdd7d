"""The squared loss, and what its Omega promises on all of space."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import mse_loss

import omegamax
from omegamax import SquaredNorm, fenchel_young_loss, nn, squared_loss
from omegamax.hopfield import Memory, Power
from omegamax.maps import records

F64 = torch.float64


def test_loss_is_half_the_squared_distance():
    z, y = torch.randn(4, 3, 5, dtype=F64), torch.randn(4, 3, 5, dtype=F64)
    each = squared_loss(z, y, "none")
    torch.testing.assert_close(each, 0.5 * (z - y).square().sum(-1), rtol=0, atol=1e-14)
    torch.testing.assert_close(squared_loss(z, y), each.mean(), rtol=0, atol=1e-14)
    torch.testing.assert_close(squared_loss(z, y, "sum"), each.sum(), rtol=0, atol=1e-12)
    torch.testing.assert_close(squared_loss(z, y), 2.5 * mse_loss(z, y), rtol=0, atol=1e-14)
    assert torch.equal(fenchel_young_loss(z, y, SquaredNorm()), squared_loss(z, y))
    assert torch.equal(nn.SquaredLoss()(z, y), squared_loss(z, y))
    torch.testing.assert_close(nn.FenchelYoungLoss(SquaredNorm(), "sum")(z, y), each.sum())


def test_loss_is_conjugate_plus_value_less_score():
    omega, z, y = SquaredNorm(), torch.randn(6, 4, dtype=F64), torch.randn(6, 4, dtype=F64)
    wanted = omega.conjugate(z) + omega(y) - (z * y).sum(-1)
    torch.testing.assert_close(squared_loss(z, y, "none"), wanted, rtol=0, atol=1e-13)


def test_map_maximises_and_the_conjugate_is_the_maximum():
    omega, z = SquaredNorm(), 3 * torch.randn(5, dtype=F64)
    p = omega.argmax(z)
    assert torch.equal(p, z)
    best = omega.conjugate(z)
    assert best == pytest.approx((p * z).sum().item() - omega(p).item(), abs=1e-13)
    others = z + torch.randn(200, 5, dtype=F64)
    assert ((others * z).sum(-1) - omega(others) < best).all()


def test_derivatives():
    z, y = (torch.randn(3, 4, dtype=F64, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(torch.autograd.grad(squared_loss(z, y, "sum"), (z, y)), (z - y, y - z))
    for f in (squared_loss, lambda z, y: fenchel_young_loss(z, y, SquaredNorm(), "none")):
        assert torch.autograd.gradcheck(f, (z, y), check_forward_ad=True) and torch.autograd.gradgradcheck(f, (z, y))
    assert torch.autograd.gradcheck(SquaredNorm().conjugate, z) and torch.autograd.gradgradcheck(
        SquaredNorm().conjugate, z
    )
    each = torch.func.vmap(lambda z, y: squared_loss(z, y))(z, y)
    torch.testing.assert_close(each, squared_loss(z, y, "none"))


def test_nothing_cancels_at_large_values():
    z = torch.tensor([1e8 + 1, -1e8], dtype=F64)
    assert squared_loss(z, torch.tensor([1e8, -1e8], dtype=F64)) == 0.5
    assert squared_loss(z, z) == 0


def test_edge_cases():
    z = torch.tensor([[1.0, -math.inf], [2.0, -math.inf], [math.nan, 0.0]], requires_grad=True)
    y = torch.tensor([[0.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
    loss = squared_loss(z, y, "none")
    assert loss[0] == 0.5 and loss[1] == math.inf and loss[2].isnan()
    (slope,) = torch.autograd.grad(loss[0], z)
    assert slope[0].tolist() == [1.0, 0.0]
    assert SquaredNorm().argmax(z)[0].tolist() == [1.0, 0.0]
    assert SquaredNorm().argmax(torch.ones(3), mask=torch.tensor([True, False, True])).tolist() == [1.0, 0.0, 1.0]
    assert SquaredNorm().conjugate(z)[:2].tolist() == [0.5, 2.0]
    half = squared_loss(torch.tensor([300.0]).half(), torch.tensor([0.0]).half())
    assert half.dtype == torch.float16 and squared_loss(torch.tensor([[1.0]]), torch.tensor([[0.0]])) == 0.5


def test_it_is_no_map_to_probabilities_and_says_so():
    assert SquaredNorm().margin == math.inf and math.isnan(SquaredNorm().total)
    assert "squared_norm" not in records() and repr(SquaredNorm()) == "SquaredNorm()"
    shift = SquaredNorm().argmax(torch.tensor([1.0, 2.0]) + 5)
    assert shift.tolist() == [6.0, 7.0]


def test_a_memory_with_it_is_the_classic_one():
    x, q = torch.randn(5, 4, dtype=F64).sign(), torch.randn(3, 4, dtype=F64)
    one, other = Memory(x, SquaredNorm()), Memory(x, Power(2.0, rectified=False))
    torch.testing.assert_close(one.energy(q), other.energy(q), rtol=0, atol=1e-13)
    torch.testing.assert_close(one.step(q), other.step(q), rtol=0, atol=1e-13)


def test_misuse_is_refused_by_name():
    with pytest.raises(ValueError, match="z and y must have the same shape"):
        squared_loss(torch.zeros(3), torch.zeros(4))
    with pytest.raises(TypeError, match="y must be a floating-point tensor"):
        squared_loss(torch.zeros(3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="reduction must be one of"):
        squared_loss(torch.zeros(3), torch.zeros(3), "median")
    assert omegamax.losses.squared_loss is squared_loss
