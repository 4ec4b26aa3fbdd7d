"""The Jensen-Shannon divergence against SciPy's distance and mpmath."""

import math

import mpmath
import numpy as np
import pytest
import scipy.spatial.distance
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax.densities import Gaussian, TruncatedParaboloid
from omegamax.metrics import jensen_shannon, on_grid

F64 = torch.float64


def exact(p, q):
    """Of two lists of floats, in nats and fifty digits."""
    with mpmath.workdps(50):
        p, q = [[mpmath.mpf(x) / mpmath.fsum(map(mpmath.mpf, m)) for x in m] for m in (p, q)]
        sides = [x * mpmath.log(2 * x / (x + y)) for x, y in [*zip(p, q), *zip(q, p)] if x]  # noqa: B905
        return mpmath.fsum(sides) / 2


@pytest.mark.parametrize("base", [2.0, math.e, 10.0])
@pytest.mark.parametrize("sqrt", [False, True])
def test_value_is_scipys(base, sqrt):
    p, q = torch.rand(7, 11, dtype=F64), torch.rand(7, 11, dtype=F64)
    p[p < 0.4], q[q < 0.4] = 0, 0
    wanted = scipy.spatial.distance.jensenshannon(p.numpy(), q.numpy(), base=base, axis=-1)
    value = jensen_shannon(p, q, base=base, sqrt=sqrt)
    assert (value - torch.from_numpy(wanted if sqrt else wanted**2)).abs().max() <= 1e-14


def test_equal_maps_are_exactly_zero_apart_and_disjoint_ones_one_bit():
    p = omegamax.sparsemax(torch.randn(20, 9, dtype=F64))
    assert jensen_shannon(p, p).eq(0).all()
    assert jensen_shannon(p, p, sqrt=True).eq(0).all()
    low, high = torch.cat([p, torch.zeros_like(p)], -1), torch.cat([torch.zeros_like(p), p], -1)
    assert (jensen_shannon(low, high) - 1).abs().max() <= 1e-15
    assert (jensen_shannon(low, high, base=math.e) - math.log(2)).abs().max() <= 1e-15


values = st.one_of(st.just(0.0), st.floats(1e-300, 1e300))


@given(st.lists(st.tuples(values, values), min_size=1, max_size=8))
def test_value_is_exact_at_every_scale(cells):
    p, q = [a for a, _ in cells], [b for _, b in cells]
    value = jensen_shannon(torch.tensor(p, dtype=F64), torch.tensor(q, dtype=F64), base=math.e).item()
    if not any(p) or not any(q):
        assert math.isnan(value)
    else:
        assert 0 <= value <= math.log(2) * (1 + 1e-15)
        assert abs(value - exact(p, q)) <= 1e-15


@pytest.mark.parametrize("distance", [1e-2, 1e-5, 1e-8, 1e-12])
def test_maps_that_are_nearly_equal_keep_their_digits(distance):
    generator = np.random.default_rng(0)
    p = generator.random(16)
    q = p * (1 + distance * generator.standard_normal(16))
    p, q = p / p.sum(), q / q.sum()
    value = jensen_shannon(torch.from_numpy(p), torch.from_numpy(q), base=math.e).item()
    # The shares themselves have rounding errors of 1e-16.
    assert abs(value / exact(p.tolist(), q.tolist()) - 1) <= max(1e-13, 1e-15 / distance)


def test_scale_does_not_matter_even_at_the_ends_of_the_range():
    p, q = torch.rand(9), torch.rand(9)
    wanted = jensen_shannon(p, q)
    for scale in (1e-36, 1e-10, 1e10, 3e38):
        assert (jensen_shannon(scale * p, q) - wanted).abs() <= 1e-6


@pytest.mark.parametrize("sqrt", [False, True])
def test_gradients(sqrt):
    p = torch.rand(3, 5, dtype=F64, requires_grad=True)
    q = torch.rand(3, 5, dtype=F64, requires_grad=True)

    def function(p, q):
        return jensen_shannon(p, q, sqrt=sqrt)

    assert gradcheck(function, (p, q)) and gradgradcheck(function, (p, q))


def test_gradient_far_apart_and_close_is_that_of_the_formula():
    # d JS / d p_c = log(p_c / m_c) / 2 for shares, less its mean under p for a map that is divided by its sum.
    p = torch.tensor([0.5, 0.5 - 1e-9, 1e-9, 0.0], dtype=F64, requires_grad=True)
    q = torch.tensor([1e-12, 0.5, 0.2, 0.3], dtype=F64, requires_grad=True)
    grad_p, grad_q = torch.autograd.grad(jensen_shannon(p, q, base=math.e), (p, q))
    for gradient, a, b in ((grad_p, p.detach(), q.detach()), (grad_q, q.detach(), p.detach())):
        a, b = a / a.sum(), b / b.sum()
        slope = torch.where(a > 0, (2 * a / (a + b)).log() / 2, 0.0)
        wanted = torch.where(a > 0, slope - (a * slope).sum(), 0.0)
        assert (gradient - wanted).abs().max() <= 1e-10


def test_cells_of_zero_receive_no_gradient():
    p = torch.tensor([0.0, 0.0, 0.4, 0.6], requires_grad=True)
    q = torch.tensor([0.0, 0.7, 0.3, 0.0], requires_grad=True)
    for sqrt in (False, True):
        grad_p, grad_q = torch.autograd.grad(jensen_shannon(p, q, sqrt=sqrt), (p, q))
        assert grad_p[:2].eq(0).all() and grad_p[2:].ne(0).all()
        assert grad_q[[0, 3]].eq(0).all() and grad_q[1:3].ne(0).all()
    (grad_p,) = torch.autograd.grad(jensen_shannon(p, p.detach(), sqrt=True), p)
    assert grad_p.eq(0).all()


def test_gradient_through_a_sparse_map():
    z = torch.tensor([1.0, 0.8, 0.1, -3.0], dtype=F64, requires_grad=True)
    human = torch.tensor([0.2, 0.6, 0.0, 0.2], dtype=F64)
    assert gradcheck(lambda z: jensen_shannon(omegamax.sparsemax(z), human), (z,))


def test_a_map_of_zeros_is_nan_without_gradient_for_either():
    p = torch.tensor([[0.0, 0.0], [0.5, 0.5]], requires_grad=True)
    q = torch.tensor([0.3, 0.7], requires_grad=True)
    value = jensen_shannon(p, q)
    assert value.isnan().tolist() == [True, False]
    grad_p, grad_q = torch.autograd.grad(value[1], (p, q), retain_graph=True)
    assert grad_p[0].eq(0).all() and grad_q.isfinite().all()
    grad_p, grad_q = torch.autograd.grad(value[0], (p, q))
    assert grad_p.eq(0).all() and grad_q.eq(0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_spoil_their_own_row(bad):
    p = torch.rand(3, 4)
    p[1, 2] = bad
    for value in (jensen_shannon(p, torch.rand(3, 4)), jensen_shannon(torch.rand(3, 4), p, sqrt=True)):
        assert value.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_float32_for_what_is_no_wider(dtype):
    p, q = torch.rand(5, 8).to(dtype), torch.rand(5, 8).to(dtype)
    value = jensen_shannon(p, q)
    assert value.dtype == torch.float32
    assert (value - jensen_shannon(p.double(), q.double())).abs().max() <= 1e-6
    assert jensen_shannon(p, q.double()).dtype == F64


def test_counts_and_masks_are_maps_too():
    counts = torch.tensor([0, 3, 1, 0], dtype=torch.uint8)
    wanted = jensen_shannon(torch.tensor([0.0, 0.5, 0.5, 0.0]), counts.float())
    assert jensen_shannon(counts.bool(), counts) == wanted
    assert wanted.dtype == torch.float32


def test_density_and_map():
    p = Gaussian(torch.rand(3, 2, dtype=F64), 0.02)
    q = TruncatedParaboloid(torch.rand(3, 2, dtype=F64), 0.02)
    human = torch.rand(3, 4, 6, dtype=F64)
    wanted = jensen_shannon(on_grid(p, (4, 6), samples=2), human, dim=(-2, -1))
    assert torch.equal(jensen_shannon(p, human, size=(4, 6), samples=2), wanted)
    assert (jensen_shannon(human, p, size=(4, 6), samples=2) - wanted).abs().max() <= 1e-15
    wanted = jensen_shannon(on_grid(p, (4, 4)), on_grid(q, (4, 4)), dim=(-2, -1))
    assert torch.equal(jensen_shannon(p, q, size=4), wanted)
    assert torch.equal(jensen_shannon(on_grid(p, 4), q, size=4), wanted)


def test_transforms_of_torch():
    p, q = torch.rand(4, 6, dtype=F64), torch.rand(4, 6, dtype=F64)
    assert torch.equal(torch.func.vmap(jensen_shannon)(p, q), jensen_shannon(p, q))
    compiled = torch.compile(jensen_shannon, fullgraph=True, backend="eager")
    assert torch.equal(compiled(p, q), jensen_shannon(p, q))


def test_errors_name_what_is_wrong():
    p = torch.rand(3)
    with pytest.raises(ValueError, match=r"jensen_shannon: base must be > 1 and finite .* got 1"):
        jensen_shannon(p, p, base=1)
    with pytest.raises(TypeError, match="jensen_shannon: base must be a number, got str"):
        jensen_shannon(p, p, base="2")
    with pytest.raises(ValueError, match=r"jensen_shannon: q must be >= 0 everywhere, got a minimum of -0\.5"):
        jensen_shannon(p, torch.tensor([1.0, -0.5, 0.5]))
