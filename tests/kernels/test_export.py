"""The export forms agree with the kernels on ordinary rows and on edge cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omegamax import kernels
from omegamax.kernels import export

SIZES = (1, 2, 5, 33, 300)
# In float32 the kernels and the forms round differently.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def rows(size: int, dtype: torch.dtype, absent: bool = True) -> Tensor:
    """Scores of all scales, ties, large common scores, and, if ``absent``, entries and rows of ``-inf``."""
    torch.manual_seed(size)
    z = torch.cat([torch.randn(8, size, dtype=dtype) * scale for scale in (0.01, 0.3, 1.0, 3.0, 30.0, 1e4)])
    ties = torch.stack([torch.zeros(size), torch.randn(size).round(), torch.full((size,), 5e6)]).to(dtype)
    if not absent:
        return torch.cat([z, ties])
    gone = torch.randn(4, size, dtype=dtype)
    gone[0, 1:], gone[1], gone[2, ::2] = -math.inf, -math.inf, -math.inf
    gone[3] = math.nan
    return torch.cat([z, ties, gone])


def assert_same(form: Tensor, kernel: Tensor) -> None:
    assert form.dtype == kernel.dtype and form.shape == kernel.shape
    assert torch.equal(form.isnan(), kernel.isnan())
    assert (form - kernel).abs().nan_to_num(0.0).max() <= TOLERANCE[form.dtype]


@each_dtype
@pytest.mark.parametrize("alpha", [0.3, 0.9, 1.0, 1.01, 1.25, 1.5, 1.99, 2.0, 2.5, 4.0, 50.0, math.inf])
def test_entmax(alpha: float, dtype: torch.dtype):
    for size in SIZES:
        z = rows(size, dtype)
        assert_same(export.entmax(z, alpha, 1), kernels.solve("entmax", z, alpha, 1))


def test_entmax_of_an_alpha_for_each_row():
    for size in SIZES:
        z = rows(size, torch.float32)
        alpha = torch.tensor([0.5, 1.0, 1.3, 1.5, 2.0, 3.0, math.inf]).repeat(len(z))[: len(z), None]
        assert_same(export.entmax(z, alpha, 1), kernels.solve("entmax", z, alpha, 1))


@each_dtype
@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0, 3.0, 5.0, math.inf])
def test_normmax(alpha: float, dtype: torch.dtype):
    for size in SIZES:
        z = rows(size, dtype)
        assert_same(export.normmax(z, alpha, 1), kernels.solve("normmax", z, alpha, 1))


@each_dtype
def test_k_subsets(dtype: torch.dtype):
    for size in SIZES:
        z = rows(size, dtype)
        for k in {0.0, 1.0, 0.7 * size, float(size)}:
            assert_same(export.k_subsets(z, k, 1), kernels.solve("k_subsets", z, k, 1))


@each_dtype
def test_maps_with_bounds(dtype: torch.dtype):
    for size in SIZES:
        z = rows(size, dtype, absent=False)
        lower = torch.rand(len(z), size, dtype=dtype) * 0.9 / size
        upper = torch.maximum(lower, torch.rand(len(z), size, dtype=dtype) + 1.2 / size)
        box = kernels.solve("box_simplex", z, lower, upper, 1.0, 1)
        assert_same(export.box_simplex(z, lower, upper, 1.0, 1), box)
        assert_same(export.capped_softmax(z, upper, 1), kernels.solve("capped_softmax", z, upper, 1))
        upper[:, ::2] = math.inf
        box = kernels.solve("box_simplex", z, lower, upper, 1.0, 1)
        assert_same(export.box_simplex(z, lower, upper, 1.0, 1), box)
        assert_same(export.capped_softmax(z, upper, 1), kernels.solve("capped_softmax", z, upper, 1))


@each_dtype
@pytest.mark.parametrize("strength", [0.0, 0.01, 0.1, 1.0, 30.0])
def test_total_variation_on_a_chain(strength: float, dtype: torch.dtype):
    for size in (1, 2, 5, 33):
        x = rows(size, dtype)
        form, kernel = export.tv_chain(x, strength, 1), kernels.solve("tv_chain", x, strength, 1)
        assert torch.equal(form == -math.inf, kernel == -math.inf)
        scale = 1 + x.abs().nan_to_num(0.0, 0.0)
        assert_same((form / scale).nan_to_num(math.nan, 0.0, 0.0), (kernel / scale).nan_to_num(math.nan, 0.0, 0.0))


@pytest.mark.parametrize("strength", [0.001, 0.1, 2.0])
def test_rows_that_are_split_unevenly(strength: float):
    t = torch.linspace(0, 1, 128, dtype=torch.float64)
    signs, powers = (-1.0) ** torch.arange(128), 2.0 ** -(torch.arange(128) % 50).double()
    x = torch.stack(
        [signs * t, (40 * t).sin() * (5 * t).exp(), (8 * t).exp(), powers, torch.randn(128).double().cumsum(0)]
    )
    assert (export.tv_chain(x, strength, 1) - kernels.solve("tv_chain", x, strength, 1)).abs().max() <= 1e-12


def test_axes_other_than_the_last():
    z, alpha = torch.randn(3, 4, 5), torch.tensor(1.3)
    for dim in range(3):
        by_row = alpha.expand(*(1 if i == dim else n for i, n in enumerate(z.shape)))
        assert_same(export.entmax(z, 1.5, dim), kernels.solve("entmax", z, 1.5, dim))
        assert_same(export.entmax(z, by_row, dim), kernels.solve("entmax", z, by_row, dim))
        assert_same(export.k_subsets(z, 2.0, dim), kernels.solve("k_subsets", z, 2.0, dim))
        assert_same(export.tv_chain(z, 0.3, dim), kernels.solve("tv_chain", z, 0.3, dim))
