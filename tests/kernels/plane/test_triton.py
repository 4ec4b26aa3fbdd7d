"""Triton's kernels from weights to expectations against those of moments and of densities: on a GPU or interpreted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels import load
from omegamax.kernels.contour import Form
from omegamax.kernels.moments.triton.launcher import moments, moments_vjp
from omegamax.kernels.plane.triton.launcher import contour_of_weights, gaussian_of_weights, weights_vjp

F32, F64 = torch.float32, torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDING = {torch.float16: 1e-5, torch.bfloat16: 1e-5, F32: 1e-5, F64: 1e-12}  # halves are computed in float32
pytestmark = [
    # The interpreter says of sums that are lost what NumPy does.
    pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning"),
    pytest.mark.usefixtures("run_time_loops"),
]


def draw(*batch: int, length: int = 12, count: int = 9, dtype: torch.dtype = F64) -> tuple[Tensor, ...]:
    """Return weights, points, a floor, and centres and variances of functions."""
    torch.manual_seed(0)
    working = torch.promote_types(dtype, F32)
    weights = torch.rand(*batch, length, dtype=F64).to(DEVICE, dtype)
    points, floor = (torch.rand(*shape, dtype=working, device=DEVICE) for shape in ((2, length), (2,)))
    return weights, points, floor / 10, torch.rand(count, 2, device=DEVICE), torch.rand(count, device=DEVICE) / 10


def expect(alpha: float, weights: Tensor, points: Tensor, floor: Tensor, centers: Tensor, spread: Tensor) -> tuple:
    if alpha == 1:
        return gaussian_of_weights(weights, points, floor, centers, spread)
    settings = (alpha, Form.COVARIANCE, points.dtype == F64)
    return contour_of_weights(weights, points, floor, centers, spread, *settings)


def expect_in_steps(alpha: float, weights: Tensor, points: Tensor, floor: Tensor, *basis: Tensor) -> tuple:
    """Return the same from three operations: moments, expectations in plain torch, and where a row is lost."""
    found = moments(weights, None, points, floor, False)
    if alpha == 1:
        both = load("gaussian_in_plane", "reference")(found.mean, found.covariance, *basis)
    else:
        settings = (alpha, Form.COVARIANCE, points.dtype == F64)
        both = load("contour_in_plane", "reference")(found.mean, found.covariance, *basis, *settings)
    both[..., 0, :] = torch.where(found.lost, found.sums[1], both[..., 0, :])
    return found.mean, found.covariance, both, found.sums


def check(alpha: float, given: tuple[Tensor, ...]) -> tuple:
    weights, points = given[:2]
    within = ROUNDING[weights.dtype]
    found = expect(alpha, *given)
    mean, covariance, both, sums = expect_in_steps(alpha, *given)
    for mine, theirs in zip(found, (mean, covariance, both), strict=True):
        unit = theirs.nan_to_num().abs().amax() if theirs.numel() else 1.0
        torch.testing.assert_close(mine, theirs, rtol=within, atol=within * float(unit), equal_nan=True)
    torch.manual_seed(1)
    g = torch.randn(both[..., 0, :].shape, dtype=both.dtype, device=DEVICE)
    others = [torch.randn(t.shape, dtype=t.dtype, device=DEVICE) for t in (mean, covariance)]
    in_mean, in_covariance = load("plane_vjp", "reference")(both, g)
    nothing = [torch.zeros_like(t) for t in others]
    for seeds, moved in [
        ((g, None, None), (in_mean, in_covariance)),
        ((g, *others), (in_mean + others[0], in_covariance + others[1])),
        ((g, None, others[1]), (in_mean, in_covariance + others[1])),
        ((None, others[0], None), (others[0], nothing[1])),
    ]:
        mine = weights_vjp(weights, points, mean, both, *seeds)
        theirs = moments_vjp(weights, None, points, sums, mean, None, *moved)
        assert mine.dtype == weights.dtype and mine.shape == weights.shape
        unit = float(theirs.float().abs().amax()) if theirs.numel() else 1.0
        rounding = max(within, 2 * torch.finfo(mine.dtype).eps)
        torch.testing.assert_close(mine, theirs, rtol=rounding, atol=rounding * unit)
    return found


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("length, count", [(1, 1), (12, 9), (600, 20), (7, 140)])
def test_rows_of_any_length_and_any_number_of_functions(alpha, dtype, length, count):
    check(alpha, draw(2, length=length, count=count, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_half_precision_is_read_and_its_gradient_written_as_it_is(alpha, dtype):
    assert {t.dtype for t in check(alpha, draw(3, dtype=dtype))} == {F32}


@pytest.mark.parametrize("alpha", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_rows_that_are_lost(alpha):
    weights, *rest = draw(6)
    weights[1], weights[2, 3], weights[3, 4], weights[4] = 0.0, torch.nan, torch.inf, 1e-309
    both = check(alpha, (weights, *rest))[-1]
    assert (both[[1, 4], 0] == 0).all() and both[[2, 3], 0].isnan().all() and (both[[0, 5], 0] > 0).all()
    mean, covariance, both = expect(alpha, weights, *rest)
    assert mean.isfinite().all() and covariance.isfinite().all()
    assert (weights_vjp(weights, rest[0], mean, both, both[:, 0], mean, None)[1:5] == 0).all()


def test_functions_of_any_covariance():
    given = draw(3)[:-1]
    root = torch.rand(9, 2, 2, device=DEVICE)
    check(1.0, (*given, root @ root.mT + 0.1 * torch.eye(2, device=DEVICE)))


@pytest.mark.parametrize("batch", [(), (2, 3), (0,), (2, 0)])
def test_batches(batch):
    mean, covariance, both = check(1.0, draw(*batch))
    assert mean.shape == (*batch, 2) and covariance.shape == (*batch, 2, 2) and both.shape == (*batch, 7, 9)


def test_memory_in_any_order():
    weights, points, *rest = draw(3)
    apart = (weights.mT.contiguous().mT, points.mT.contiguous().mT, *rest)
    for mine, theirs in zip(check(1.0, apart), expect(1.0, weights, points, *rest), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)  # a GPU adds up in another order
    wide = torch.rand(5, 12, dtype=F64, device=DEVICE)[::2]
    check(1.0, (wide, points, *rest))
    check(1.0, (wide[:1].expand(4, 12), points, *rest))
