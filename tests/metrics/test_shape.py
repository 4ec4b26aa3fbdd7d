"""Mass in a region, entropy and empty area against SciPy and plain sums."""

import math

import pytest
import scipy.stats
import torch
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax.densities import Gaussian, TruncatedParaboloid
from omegamax.metrics import entropy, mass_inside, on_grid, zero_area

F64 = torch.float64


@pytest.mark.parametrize("base", [2.0, math.e, 10.0])
def test_entropy_is_scipys(base):
    p = torch.rand(7, 11, dtype=F64)
    p[p < 0.4] = 0
    wanted = scipy.stats.entropy(p.numpy(), base=base, axis=-1)
    assert (entropy(p, base) - torch.from_numpy(wanted)).abs().max() <= 1e-14


def test_entropy_at_its_ends():
    p = torch.eye(4, dtype=F64)[:1]
    assert entropy(p).eq(0).all() and not entropy(p).signbit().any()
    assert entropy(torch.full((196,), 0.3, dtype=F64), 196).sub(1).abs() <= 1e-15


def test_entropy_gradients():
    p = torch.rand(3, 5, dtype=F64, requires_grad=True)
    assert gradcheck(entropy, (p,)) and gradgradcheck(entropy, (p,))
    p = torch.tensor([0.0, 0.25, 0.75], requires_grad=True)
    (gradient,) = torch.autograd.grad(entropy(p), p)
    assert gradient[0] == 0 and gradient[1:].isfinite().all() and gradient[1:].ne(0).all()


def test_mass_in_a_box():
    p = omegamax.sparsemax(torch.randn(5, 24, dtype=F64)).reshape(5, 4, 6)
    box = torch.zeros(4, 6, dtype=torch.bool)
    box[1:3, 2:5] = True
    value = mass_inside(p, box, dim=(-2, -1))
    assert (value - p[:, 1:3, 2:5].sum((-2, -1))).abs().max() <= 1e-15
    assert (mass_inside(10 * p, ~box, dim=(-2, -1)) - (1 - value)).abs().max() <= 1e-15


def test_region_broadcasts_over_cells_too():
    p, columns = torch.rand(4, 6), torch.arange(6) < 2
    assert (mass_inside(p, columns, dim=(-2, -1)) - p[:, :2].sum() / p.sum()).abs() <= 1e-6
    rows = torch.tensor([True, False, False, False]).unsqueeze(-1)
    assert (mass_inside(p, rows, dim=(-2, -1)) - p[0].sum() / p.sum()).abs() <= 1e-6
    several = torch.rand(3, 1, 4, 6)
    assert mass_inside(torch.rand(2, 4, 6), several, dim=(-2, -1)).shape == (3, 2)


def test_soft_region_and_gradients():
    p = torch.rand(3, 5, dtype=F64, requires_grad=True)
    region = torch.rand(3, 5, dtype=F64, requires_grad=True)
    wanted = (p * region).sum(-1) / p.sum(-1)
    assert (mass_inside(p, region) - wanted).abs().max() <= 1e-15
    assert gradcheck(mass_inside, (p, region)) and gradgradcheck(mass_inside, (p, region))


def test_a_cell_of_zero_may_gain_mass():
    p = torch.tensor([0.0, 1.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(mass_inside(p, torch.tensor([True, False])), p)
    assert gradient.tolist() == [1.0, 0.0]


def test_mass_of_a_density_is_that_of_its_cdf():
    density = Gaussian(torch.tensor([0.3], dtype=F64), 0.01)
    low, middle, high = density.cdf(torch.tensor([[0.0], [0.5], [1.0]], dtype=F64))
    half = torch.arange(10) < 5
    assert (mass_inside(density, half, size=10, samples=50) - (middle - low) / (high - low)).abs() <= 1e-5


def test_zero_area_counts_exact_zeros_only():
    p = torch.tensor([[0.0, 1e-40, 0.5, -0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert zero_area(p).tolist() == [0.5, 0.0, 1.0]
    assert zero_area(p.long()).tolist() == [1.0, 0.0, 1.0]
    assert zero_area(p.bool()).tolist() == [0.5, 0.0, 1.0]


def test_zero_area_of_a_density_is_the_area_off_its_support():
    density = TruncatedParaboloid(torch.tensor([0.5, 0.5], dtype=F64), 0.005)
    radius = density.support_radius.item() * math.sqrt(0.005)
    assert radius < 0.5
    assert zero_area(density, size=200).sub(1 - math.pi * radius**2).abs() <= 1e-3
    assert zero_area(Gaussian(torch.tensor([0.5, 0.5]), 0.05), size=20) == 0


def test_masks_leave_cells_out_whatever_they_hold():
    p, region = torch.rand(4, 7, dtype=F64), torch.rand(4, 7, dtype=F64)
    p[:, 2] = 0
    keep = torch.rand(4, 7) < 0.6
    keep[:, :3] = True
    spoilt, beyond = p.masked_fill(~keep, math.nan), region.masked_fill(~keep, math.nan)
    for k in range(4):
        alone = p[k, keep[k]]
        assert (entropy(spoilt, mask=keep)[k] - entropy(alone)).abs() <= 1e-15
        assert (zero_area(spoilt, mask=keep)[k] - zero_area(alone)).abs() <= 1e-15
        inside = mass_inside(spoilt, beyond, mask=keep)[k]
        assert (inside - mass_inside(alone, region[k, keep[k]])).abs() <= 1e-15
    spoilt.requires_grad_()
    value = entropy(spoilt, mask=keep) + mass_inside(spoilt, beyond, mask=keep)
    (gradient,) = torch.autograd.grad(value.sum(), spoilt)
    assert gradient.isfinite().all() and gradient[~keep].eq(0).all()


def test_undefined_is_nan_without_gradient():
    p = torch.tensor([[0.0, 0.0], [0.5, 0.5]], requires_grad=True)
    region = torch.tensor([0.5, 0.0], requires_grad=True)
    for value in (entropy(p), mass_inside(p, region)):
        assert value.isnan().tolist() == [True, False]
        assert torch.autograd.grad(value[0], p)[0].eq(0).all()
    assert torch.autograd.grad(mass_inside(p, region)[0], region)[0].eq(0).all()
    none = torch.tensor([False, False])
    for value in (entropy(p, mask=none), mass_inside(p, region, mask=none), zero_area(p, mask=none)):
        assert value.isnan().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_spoil_their_own_row(bad):
    p = torch.rand(3, 4)
    p[1, 2] = bad
    for value in (entropy(p), mass_inside(p, torch.rand(4))):
        assert value.isnan().tolist() == [False, True, False]
    assert zero_area(p).isnan().tolist() == [False, math.isnan(bad), False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    p = torch.rand(5, 8).to(dtype)
    for function in (entropy, zero_area, lambda p: mass_inside(p, p)):
        value = function(p)
        assert value.dtype == torch.float32
        assert (value - function(p.double())).abs().max() <= 1e-6


def test_densities_need_a_size():
    density = TruncatedParaboloid(torch.rand(3, 2), 0.01)
    p = on_grid(density, (4, 5), samples=2)
    for function in (entropy, zero_area):
        assert torch.equal(function(density, size=(4, 5), samples=2), function(p, dim=(-2, -1)))
        with pytest.raises(ValueError, match=r"p is a density, whose map needs size"):
            function(density)


def test_errors_name_what_is_wrong():
    p = torch.rand(3)
    with pytest.raises(TypeError, match=r"mass_inside: region must be a torch\.Tensor, got list"):
        mass_inside(p, [True, False, True])
    with pytest.raises(ValueError, match=r"mass_inside: region must be bool or lie in \[0, 1\]"):
        mass_inside(p, 2 * torch.ones(3))
    with pytest.raises(ValueError, match="mass_inside: region must be a map of"):
        mass_inside(p, torch.ones(4))
    with pytest.raises(ValueError, match="entropy: base must be > 1"):
        entropy(p, 0.5)
    for function in (entropy, zero_area):
        with pytest.raises(ValueError, match="p must be >= 0 everywhere"):
            function(-p)
