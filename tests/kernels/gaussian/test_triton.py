"""Triton's kernel of Gaussian functions under Gaussians against plain torch: on a GPU, or interpreted."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.gaussian import reference
from omegamax.kernels.gaussian.triton.launcher import gaussian_in_plane, plane_vjp

F64 = torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def densities() -> tuple[torch.Tensor, torch.Tensor]:
    """Round, diagonal, slanted, thin and wide ones."""
    sigma = torch.tensor(
        [[0.1, 0.0, 0.1], [0.2, 0.0, 0.05], [0.1, 0.04, 0.08], [1.0, 1 - 1e-9, 1.0], [1e6, 0.0, 1e6]], dtype=F64
    )
    a, b, c = sigma.to(DEVICE).unbind(-1)
    torch.manual_seed(0)
    return torch.rand(5, 2, dtype=F64).to(DEVICE), torch.stack([a, b, b, c], -1).unflatten(-1, (2, 2))


def functions(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    centers = torch.rand(count, 2, dtype=F64).to(DEVICE)
    centers[-1] = 40.0  # of which nothing is left
    return centers, torch.rand(count, dtype=F64).to(DEVICE) * 0.02 + 1e-4


@pytest.mark.parametrize("count", [1, 7, 130])  # one block, one that is not full, and two
@pytest.mark.parametrize("is_round", [True, False])
def test_values_and_slopes(count, is_round):
    (loc, sigma), (centers, spread) = densities(), functions(count)
    if not is_round:
        factor = torch.randn(count, 2, 2, dtype=F64).to(DEVICE)
        spread = spread[:, None, None] * (factor @ factor.mT + 0.1 * torch.eye(2, dtype=F64, device=DEVICE))
    found = gaussian_in_plane(loc, sigma, centers, spread)
    wanted = reference.gaussian_in_plane(loc, sigma, centers, spread)
    assert found.shape == (5, 7, count)
    assert ((found - wanted).abs() <= rounding(loc, sigma, centers, spread, wanted[:, 0])).all()


def rounding(loc, sigma, centers, spread, value) -> torch.Tensor:
    """Return what products that are rounded, or fused with a sum, may change: ``[N, 7, J]``.

    The inverse of a matrix loses as many digits as its condition number has, the exponential those of its argument, and
    slopes are sums of terms of either sign, by which they are measured.
    """
    if spread.dim() == 1:
        spread = spread[:, None, None] * torch.eye(2, dtype=F64, device=DEVICE)
    total = sigma[:, None] + spread  # [N, J, 2, 2]
    x = centers - loc[:, None]
    pull = torch.linalg.solve(total, x)
    length, most = pull.norm(dim=-1), torch.linalg.eigvalsh(total)[..., 0].reciprocal()
    first, second = value * length, value * (length.square() + most)
    size = torch.stack([value, first, first, second, second, second, second], 1)
    digits = torch.linalg.cond(total) * (1 + (x * pull).sum(-1))
    return 16 * torch.finfo(F64).eps * digits.unsqueeze(1) * size + 1e-300


def test_single_precision_is_rounded_once():
    (loc, sigma), (centers, spread) = densities(), functions(7)
    single = [t.float() for t in (loc, sigma, centers, spread)]
    found = gaussian_in_plane(*single)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, reference.gaussian_in_plane(*(t.double() for t in single)).float())


def test_batches_and_what_is_not_a_number():
    (loc, sigma), (centers, spread) = densities(), functions(7)
    loc[1] = torch.nan
    found = gaussian_in_plane(loc.unsqueeze(0), sigma.unsqueeze(0), centers, spread)
    assert found.shape == (1, 5, 7, 7)
    assert found[0, 1].isnan().all() and found[0, [0, 2, 3, 4]].isfinite().all()
    assert gaussian_in_plane(loc[:0], sigma[:0], centers, spread).shape == (0, 7, 7)


@pytest.mark.parametrize("dtype, within", [(torch.float32, 1e-5), (F64, 1e-14)])
@pytest.mark.parametrize("count", [1, 7, 300])  # a function, a block that is not full, and three blocks
@pytest.mark.usefixtures("run_time_loops")
def test_the_way_back_to_one_density(count, dtype, within):
    torch.manual_seed(0)
    both, g = torch.randn(2, 3, 7, count, dtype=dtype).to(DEVICE), torch.randn(count, 2, 3, dtype=dtype).to(DEVICE)
    g = g.movedim(0, -1)  # no row of which is in one piece
    for ours, theirs in zip(plane_vjp(both, g), reference.plane_vjp(both.double(), g.double()), strict=True):
        assert ours.dtype == dtype and ours.shape == theirs.shape and ours.is_contiguous()
        torch.testing.assert_close(ours.double(), theirs, rtol=within, atol=within * count)
    assert [t.shape for t in plane_vjp(both[:0], g[:0])] == [(0, 3, 2), (0, 3, 2, 2)]
    both[1, 2, 4, 0] = torch.nan  # spoils one number of one density
    of_loc, of_matrix = plane_vjp(both, g)
    assert of_matrix[1, 2, 0, 1].isnan() and of_matrix.isnan().sum() == 1 and of_loc.isfinite().all()
