"""The compiled proximal operator of OSCAR's penalty against plain torch, on ordinary scores and on hostile ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omegamax.kernels import load

F32, F64 = torch.float32, torch.float64
INF = math.inf
cpu, reference = (load("oscar", backend) for backend in ("cpu", "reference"))


def rows(size: int, scale: float, dtype: torch.dtype) -> Tensor:
    """Ordinary scores, ties, one level, absent entries, a large offset, nothing left, NaN and +inf."""
    torch.manual_seed(size)
    z = torch.randn(8, size, dtype=dtype)
    z[1] = (2 * z[1]).round()
    z[2] = z[2, :1]
    z[3, : size // 2] = -INF
    z[4] += 1e4
    z = z * scale
    z[5], z[6, -1], z[7, size // 3] = -INF, math.nan, INF
    return z


def relative(values: Tensor) -> Tensor:
    """Return values over the largest finite one of their row."""
    unit = values.nan_to_num(0.0, 0.0, 0.0).abs().amax(-1, keepdim=True)
    return values / torch.where(unit > 0, unit, 1.0)


@pytest.mark.parametrize("dtype, within", [(F32, 2e-7), (F64, 4e-15)])
@pytest.mark.parametrize("scale", [1e-30, 0.01, 1.0, 1e15, 1e30])
@pytest.mark.parametrize("strength", [0.0, 0.01, 0.3, 100.0])
def test_values_are_those_of_plain_torch(dtype, within, scale, strength):
    for size in (1, 2, 3, 8, 33, 300):
        z = rows(size, scale, dtype)
        for given in (strength * scale, torch.full((8, 1), strength * scale, dtype=dtype)):
            u = cpu(z, given, -1)
            torch.testing.assert_close(
                relative(u), relative(reference(z, given, -1)), rtol=0, atol=within, equal_nan=True
            )
            assert (u[5] == -INF).all() and u[6:].isnan().all() and torch.equal(u[3] == -INF, z[3] == -INF)


def test_strengths_of_each_row_and_odd_ones():
    z = torch.randn(5, 9, dtype=F64)
    strength = torch.tensor([[0.1], [0.0], [1e308], [-1.0], [math.nan]], dtype=F64)
    u, wanted = cpu(z, strength, -1), reference(z, strength, -1)
    torch.testing.assert_close(relative(u), relative(wanted), rtol=0, atol=1e-15, equal_nan=True)
    assert torch.equal(u[1], z[1]) and (u[2] == u[2, 0]).all() and u[3:].isnan().all()


def test_pools_are_equal_to_the_last_bit():
    z = torch.randn(200, 40, dtype=F64)
    u, wanted = cpu(z, 0.02, -1), reference(z, 0.02, -1)
    for row, other in zip(u, wanted, strict=True):
        assert torch.equal(row[:, None] == row, other[:, None] == other)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_memory_in_any_order(dim):
    z = torch.randn(4, 5, 6, dtype=F64)
    shape = [4, 5, 6]
    shape[dim] = 1
    strength = torch.rand(shape, dtype=F64)
    wanted = cpu(z.movedim(dim, -1), strength.movedim(dim, -1), -1).movedim(-1, dim)
    assert torch.equal(cpu(z, strength, dim), wanted)
    turned = z.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert torch.equal(cpu(turned, strength, dim), wanted)
    assert cpu(z[:0], 0.1, -1).shape == (0, 5, 6)


def test_result_does_not_depend_on_the_number_of_threads():
    z = torch.randn(2000, 30)
    u = cpu(z, 0.1, -1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(cpu(z, 0.1, -1), u)
    finally:
        torch.set_num_threads(threads)
