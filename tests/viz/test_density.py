"""Curves of densities: where they are positive, where they end, and nothing in between."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from omegamax import viz
from omegamax.densities import (
    BetaGaussian,
    Gaussian,
    GridDensity,
    Laplace,
    Triangular,
    TruncatedParaboloid,
    gauss_legendre_nodes,
)

F64 = torch.float64
HERE = torch.tensor([0.4], dtype=F64)


def curve(ax, index=0):
    """The points of a drawn line, without its gaps."""
    x, y = ax.lines[index].get_data()
    return x[~np.isnan(y)], y[~np.isnan(y)]


def area(x, y):
    return torch.trapezoid(torch.tensor(y), torch.tensor(x)).item()


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0, 4.0, 30.0])
def test_compact_density_is_drawn_on_its_support_with_a_dot_at_each_end(alpha):
    p = BetaGaussian.from_moments(HERE, 0.005, alpha=alpha)
    ax = viz.density(p, label="here", title="compact")
    ends = p.boundary().flatten().numpy()
    x, y = curve(ax)
    np.testing.assert_allclose([x[0], x[-1]], ends, atol=1e-12)
    np.testing.assert_allclose(ax.lines[1].get_xdata(), ends, atol=1e-12)
    assert y[0] == y[-1] == 0 and (y[1:-1] > 0).all() and list(ax.lines[1].get_ydata()) == [0, 0]
    assert ax.lines[0].get_label() == "here"
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "compact"


@pytest.mark.parametrize("alpha", [0.6, 1.0, 2.0, 8.0])
def test_curve_has_the_height_of_the_density_and_encloses_its_mass(alpha):
    p = BetaGaussian.from_moments(HERE, 0.002, alpha=alpha)
    x, y = curve(viz.density(p, -2, 3))
    np.testing.assert_array_equal(y, p.prob(torch.tensor(x)[:, None]).numpy())
    assert area(x, y) == pytest.approx(1, abs=2e-3)
    assert y.max() == p.prob(HERE).item()


def test_tails_run_on_to_the_frame_without_a_dot():
    ax = viz.density(Gaussian.from_moments(HERE, 0.01), -1, 2)
    x, y = curve(ax)
    assert x[0] == -1 and x[-1] == 2 and (y > 0).all() and len(ax.lines) == 1


def test_support_cut_by_the_frame_has_a_dot_only_at_the_end_that_is_seen():
    p = TruncatedParaboloid.from_moments(torch.tensor([0.0], dtype=F64), 0.01)
    ax = viz.density(p)
    assert curve(ax)[0][0] == 0
    np.testing.assert_allclose(ax.lines[1].get_xdata(), p.boundary()[1], atol=1e-12)


def test_peak_of_a_corner_and_a_needle_are_not_missed():
    assert curve(viz.density(Laplace(HERE, 0.05)))[1].max() == pytest.approx(10)
    needle = Triangular(HERE + 1e-5, 1e-10)  # far narrower than the steps of a lattice
    x, y = curve(viz.density(needle))
    assert y.max() == pytest.approx(1e5) and x[-1] - x[0] == pytest.approx(2e-5)


def test_support_in_two_pieces_is_one_line_with_a_gap_and_four_dots():
    nodes, weights = gauss_legendre_nodes(cells=40, order=6, low=0, high=1, dtype=F64)
    p = GridDensity.from_function(lambda t: 4 * (12 * t[..., 0]).sin(), nodes, weights, alpha=2.0)
    ax = viz.density(p)
    assert len(ax.lines) == 2
    ends = np.array(ax.lines[1].get_xdata())
    assert len(ends) == 4
    np.testing.assert_allclose(np.sin(12 * ends), np.sin(12 * ends[0]), atol=1e-9)  # all on one level of the score
    x, _ = curve(ax)
    assert not ((x > ends[1]) & (x < ends[2])).any()


def test_density_outside_the_window_draws_nothing():
    ax = viz.density(TruncatedParaboloid.from_moments(HERE + 5, 0.01), label="far")
    assert len(curve(ax)[0]) == 0 and len(ax.lines) == 1 and ax.get_ylim()[0] == 0


def test_another_call_makes_room_for_a_taller_curve():
    low, high = (TruncatedParaboloid.from_moments(HERE, v) for v in (0.02, 0.0002))
    ax = viz.density(low)
    assert viz.density(high, fill=0, ax=ax) is ax
    assert ax.get_ylim()[1] > high.prob(HERE).item() and len(ax.collections) == 1


def test_gradients_and_single_precision_are_taken_as_they_come():
    p = TruncatedParaboloid(torch.tensor([0.4], requires_grad=True), 0.001)
    x, y = curve(viz.density(p))
    assert y[0] == y[-1] == 0 and area(x, y) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (lambda: viz.density(Gaussian(torch.zeros(2), 1.0)), r"density: .*event shape \(2,\)"),
        (lambda: viz.density(Gaussian(torch.zeros(3, 1), 1.0)), r"density: .*batch shape \(3,\)"),
        (lambda: viz.density(Gaussian(torch.zeros(1), 1.0), 1, 0), r"density: low .* 1 and 0"),
        (lambda: viz.density(Gaussian(torch.zeros(1), 1.0), high=float("inf")), r"density: low .* inf"),
    ],
)
def test_what_is_not_one_curve_is_refused(draw, given):
    with pytest.raises(ValueError, match=given):
        draw()
