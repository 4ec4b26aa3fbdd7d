"""Triton's kernels of moments against their definition in float64: on a GPU, or interpreted."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.moments.triton.launcher import RowMoments, moments, moments_vjp

F32, F64 = torch.float32, torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDING = {torch.float16: 3e-6, torch.bfloat16: 3e-6, F32: 3e-6, F64: 1e-14}  # halves are computed in float32
pytestmark = [
    # The interpreter says of sums that are lost what NumPy does.
    pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning"),
    pytest.mark.usefixtures("run_time_loops"),
]


class Row(NamedTuple):
    """Rows of weights, which of them count, and points."""

    weights: Tensor
    present: Tensor | None
    points: Tensor | None


def define(weights: Tensor, given: Row, floor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return probabilities, mean and covariance for weights in float64, in steps that autograd differentiates."""
    present = torch.ones_like(weights, dtype=torch.bool) if given.present is None else given.present
    w = torch.where(present, weights, 0.0)
    bounds, total = torch.finfo(torch.promote_types(given.weights.dtype, F32)), w.detach().sum(-1, keepdim=True)
    lost = ~((total >= bounds.tiny) & (total <= bounds.max))
    counted = (present | ~present.any(-1, keepdim=True)).to(F64).expand(w.shape)
    p = torch.where(lost, counted / counted.sum(-1, keepdim=True), w / w.sum(-1, keepdim=True).masked_fill(lost, 1.0))
    x = given.points.to(F64)
    mean = (p.unsqueeze(-2) * x).sum(-1)
    centred = x - mean.unsqueeze(-1)
    covariance = torch.einsum("...l,...il,...jl->...ij", p, centred, centred)
    return p, mean, covariance + torch.diag_embed(floor.to(F64))


def check(given: Row, floor: Tensor) -> RowMoments:
    """Compare values and gradients with the definition; and that less comes out the same if less is asked for."""
    within, weights = ROUNDING[given.weights.dtype], given.weights.to(F64).requires_grad_()
    found, wanted = moments(*given, floor, True), define(weights, given, floor)
    ours = (found.p, found.mean, found.covariance)
    for mine, theirs in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine.to(F64), theirs.detach(), rtol=within, atol=within)
    assert torch.equal(found.covariance, found.covariance.mT)
    torch.manual_seed(1)
    gradients = [torch.randn(t.shape, dtype=t.dtype, device=DEVICE) for t in ours]
    check_gradient(given, found, weights, wanted, gradients)
    alone = moments(*given._replace(points=None), None, True)
    assert alone.mean is None and alone.covariance is None
    torch.testing.assert_close(alone.p, found.p, rtol=within, atol=within)  # a row is added up in other blocks
    check_gradient(given._replace(points=None), alone, weights, wanted[:1], [gradients[0], None, None])
    bare = moments(*given, floor, False)
    assert bare.p is None
    torch.testing.assert_close(bare[3:], found[3:], rtol=within, atol=within)
    check_gradient(given, bare, weights, wanted[1:], [None, *gradients[1:]])
    return found


def check_gradient(given: Row, found: RowMoments, weights: Tensor, wanted: tuple, gradients: list) -> None:
    """Compare with autograd, in units of the largest gradient of a row; half precision is rounded at the end."""
    ours = moments_vjp(*given, found.sums, found.mean, *gradients)
    assert ours.dtype == given.weights.dtype and ours.shape == given.weights.shape
    given_gradients = [g.to(F64) for g in gradients if g is not None]
    theirs = torch.autograd.grad(wanted, weights, given_gradients, retain_graph=True)[0]
    lost = found.lost.expand(ours.shape)
    absent = torch.zeros_like(lost) if given.present is None else ~given.present.expand(ours.shape)
    assert (ours[lost | absent] == 0).all()
    theirs = torch.where(lost | absent, 0.0, theirs).to(ours.dtype).to(F64)
    unit = theirs.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(ours.dtype).tiny)
    within = max(10 * ROUNDING[ours.dtype], 2 * torch.finfo(ours.dtype).eps)
    assert (((ours.to(F64) - theirs) / unit).abs() <= within).all()


def draw(rows: int, length: int, n: int, dtype: torch.dtype = F32) -> tuple[Row, Tensor]:
    torch.manual_seed(0)
    weights = torch.randn(rows, length, dtype=F64).softmax(-1).to(DEVICE, dtype)
    points = torch.rand(n, length, dtype=torch.promote_types(dtype, F32), device=DEVICE)
    return Row(weights, None, points), torch.rand(rows, n, dtype=points.dtype, device=DEVICE)


# One position, a block that is not full, one that is, and several of them.
@pytest.mark.parametrize(
    "n, length", [(1, 1), (1, 7), (1, 4100), (2, 1), (2, 12), (2, 512), (2, 1100), (3, 200), (4, 9)]
)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_rows_of_any_length(n, length, dtype):
    check(*draw(3, length, n, dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_and_its_gradient_written_as_it_is(dtype):
    found = check(*draw(3, 20, 2, dtype))
    assert found.p.dtype == found.mean.dtype == found.covariance.dtype == found.sums.dtype == F32


@pytest.mark.parametrize("masked", [False, True])
def test_rows_that_are_lost_have_equal_weights_and_no_gradient(masked):
    given, floor = draw(9, 10, 2)
    w = given.weights
    w[1] = 0.0
    w[2], w[3] = 1e-45, 1e-39  # what sums to less than the least normal number
    w[4, 3], w[5, 3] = torch.nan, torch.inf
    w[6] = 1e38  # whose sum is infinite
    w[7] = 1e-37
    w[8] = 3e37
    if masked:
        present = torch.rand(9, 10, device=DEVICE) < 0.6
        present[:, 3] = True
        w[0, ~present[0]] = torch.nan  # which is not there
        w[:, 0], present[:, 0] = torch.inf, False
        w[6] = 1e38
        given = given._replace(present=present)
    found = check(given, floor)
    lost = [False, True, True, True, True, True, True, False, False]
    assert found.lost.squeeze(-1).tolist() == lost
    assert found.lost.dtype == torch.bool and found.lost.shape == (9, 1) and found.sums.shape == (2, 9, 1)
    nothing = found.sums[1, :, 0]
    assert (nothing[[0, 1, 2, 3, 7, 8]] == 0).all() and nothing[[4, 5, 6]].isnan().all()


def test_rows_of_which_nothing_is_there_have_the_weights_of_all():
    given, floor = draw(3, 8, 2)
    present = torch.tensor([True, False, True], device=DEVICE).unsqueeze(-1).expand(3, 8)
    found = check(given._replace(present=present), floor)
    assert found.lost.squeeze(-1).tolist() == [False, True, False]
    assert (found.p[1] == 1 / 8).all()


def test_ties_and_concentrated_weights_keep_their_digits():
    """The covariance of what is all but one weight is tiny, and not the difference of two large numbers."""
    given, floor = draw(3, 6, 2)
    given.weights[0] = 0.25
    given.weights[1], given.weights[2] = 1e-12, 1e-20
    given.weights[1:, 4] = 1.0
    floor.zero_()
    found = check(given, floor)
    wanted = define(given.weights.to(F64), given, floor)[2]
    # The mean is rounded, and its square is what a covariance is off by.
    torch.testing.assert_close(found.covariance.to(F64), wanted, rtol=1e-5, atol=1e-14)


def test_batches_that_broadcast_and_memory_in_any_order():
    torch.manual_seed(0)
    weights = torch.rand(4, 10, 3, device=DEVICE).permute(2, 0, 1)  # [3, 4, 10], no row of which is in one piece
    present = torch.rand(3, 1, 10, device=DEVICE) < 0.7
    points = torch.rand(4, 10, 2, device=DEVICE).mT
    floor = torch.rand(3, 1, 1, device=DEVICE).expand(3, 1, 2)
    found = check(Row(weights, present, points), floor)
    apart = Row(weights.contiguous(), present.expand(3, 4, 10).contiguous(), points.expand(3, 4, 2, 10).contiguous())
    for mine, theirs in zip(found, moments(*apart, floor.expand(3, 4, 2).contiguous(), True), strict=True):
        assert torch.equal(mine, theirs)
    row = torch.rand(10, device=DEVICE)
    one = moments(row, None, points[0], floor[0, 0], True)
    assert one.mean.shape == (2,) and one.covariance.shape == (2, 2) and one.lost.shape == (1,)
    every = moments(row.expand(5, 10), None, points[0], floor[0, 0], True)
    assert torch.equal(every.mean, one.mean.expand(5, 2))


def test_one_row_whose_entries_are_apart():
    given, floor = draw(3, 8, 2)
    apart = torch.ones(8, 2, dtype=torch.bool, device=DEVICE)[:, 0]  # a mask for all rows
    assert apart.stride() == (2,)
    for mine, theirs in zip(
        moments(*given._replace(present=apart), floor, True), moments(*given, floor, True), strict=True
    ):
        assert torch.equal(mine, theirs)
    row = torch.rand(8, 2, device=DEVICE)[:, 0]
    found = check(Row(row, apart, given.points), floor[0])
    assert torch.equal(found.p, moments(row.contiguous(), None, given.points, floor[0], True).p)


@pytest.mark.parametrize("batch, length", [((0,), 6), ((2, 0), 6), ((2,), 0)])
def test_batches_of_none_and_rows_without_positions(batch, length):
    weights, points = torch.ones(*batch, length, device=DEVICE), torch.ones(2, length, device=DEVICE)
    given, floor = Row(weights, None, points), torch.full((2,), 0.5, device=DEVICE)
    found = moments(*given, floor, True)
    assert found.mean.shape == (*batch, 2) and found.covariance.shape == (*batch, 2, 2)
    assert found.p.shape == weights.shape and (found.lost | (length > 0)).all()
    assert (found.mean == 0).all() and (found.covariance == 0.5 * torch.eye(2, device=DEVICE)).all()
    assert moments_vjp(*given, found.sums, *found[3:4], *found[2:]).shape == weights.shape
