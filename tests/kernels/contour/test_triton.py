"""Triton's kernel of Gaussian functions under compact densities against plain torch: on a GPU, or interpreted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from omegamax.kernels.contour import Form, reference
from omegamax.kernels.contour.triton.launcher import contour_in_plane

F64 = torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter divides by zero in lanes that are dropped, and where a density is not one.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning")


def densities() -> tuple[Tensor, Tensor]:
    """Round, diagonal, slanted and thin ones, by Sigma."""
    sigma = torch.tensor([[0.1, 0.0, 0.1], [0.2, 0.0, 0.05], [0.1, 0.04, 0.08], [1.0, 1 - 1e-9, 1.0]], dtype=F64)
    a, b, c = sigma.to(DEVICE).unbind(-1)
    torch.manual_seed(0)
    return torch.rand(4, 2, dtype=F64).to(DEVICE), torch.stack([a, b, b, c], -1).unflatten(-1, (2, 2))


def functions(count: int) -> tuple[Tensor, Tensor]:
    """From a hundredth to thirty times as wide as the densities, inside, and one far outside."""
    centers, variance = torch.rand(count, 2, dtype=F64).to(DEVICE), torch.logspace(-5, 2, count, dtype=F64).to(DEVICE)
    centers[-1], variance[-1] = 40.0, 0.01
    return centers, variance


@pytest.mark.parametrize("alpha, fine", [(4 / 3, False), (1.5, True), (2.0, False), (1.05, True)])
@pytest.mark.parametrize("form", Form)
def test_values_and_slopes(alpha, fine, form):
    (loc, sigma), (centers, variance) = densities(), functions(5)
    if form is Form.FACTOR:
        sigma = torch.linalg.cholesky(sigma)
    else:  # without the thin one, whose factor hangs on whether a product is rounded before it is taken from a sum
        loc, sigma = loc[:3], sigma[:3]
    found = contour_in_plane(loc, sigma, centers, variance, alpha, form, fine)
    wanted = reference.contour_in_plane(loc, sigma, centers, variance, alpha, form, fine)
    assert found.shape == (len(loc), 7, 5)
    # Slopes are sums of terms of either sign: measured by the largest of a density.
    unit = wanted.abs().amax((-1, -2), keepdim=True)
    assert ((found - wanted).abs() / unit).max() <= 1e-13
    torch.testing.assert_close(found[:, 0], wanted[:, 0], rtol=1e-11, atol=1e-300)


def test_a_factor_serves_as_well_and_single_precision_is_rounded_once():
    (loc, sigma), (centers, variance) = densities(), functions(3)
    factor = torch.linalg.cholesky(sigma)
    single = [t.float() for t in (loc[:3], factor[:3], centers, variance)]
    found = contour_in_plane(*single, 2.0, Form.FACTOR, False)
    assert found.dtype == torch.float32
    wanted = reference.contour_in_plane(*(t.double() for t in single), 2.0, Form.FACTOR, False)
    torch.testing.assert_close(found, wanted.float())


def test_what_is_no_density_spoils_itself_only():
    (loc, sigma), (centers, variance) = densities(), functions(3)
    loc, sigma = loc[:3].clone(), sigma[:3].clone()
    sigma[1] = torch.tensor([[1.0, 2.0], [2.0, 1.0]])  # not positive definite
    loc[2] = torch.nan
    found = contour_in_plane(loc, sigma, centers, variance, 2.0, Form.SIGMA, False)
    assert found[0].isfinite().all() and found[1:].isnan().all()
    assert contour_in_plane(loc[:0], sigma[:0], centers, variance, 2.0, Form.SIGMA, False).shape == (0, 7, 3)
