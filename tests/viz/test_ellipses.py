"""Ellipses over images: how much they enclose, where they lie, what is faded."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian, Gaussian, GridDensity, Mixture, TruncatedParaboloid, gauss_legendre_nodes

F64 = torch.float64
CENTRE = torch.tensor([0.4, 0.55], dtype=F64)
COVARIANCE = torch.tensor([[0.012, 0.005], [0.005, 0.008]], dtype=F64)


def rings(ax):
    return [torch.tensor(patch.get_xy()) for patch in ax.patches]


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.001, 1.5, 2.0, 5.0])
def test_each_thin_line_encloses_its_mass(alpha):
    masses = (0.25, 0.5, 0.9)
    p = BetaGaussian(CENTRE, COVARIANCE, alpha=alpha)
    drawn = p.rsample((40_000,))
    for ring, mass in zip(rings(viz.ellipses(p, masses=masses)), masses, strict=False):
        levels = p.prob(ring)
        torch.testing.assert_close(levels, levels[:1].expand_as(levels))  # a line of equal density
        inside = (p.prob(drawn) > levels[0]).double().mean().item()
        assert inside == pytest.approx(mass, abs=4 * math.sqrt(mass * (1 - mass) / 40_000))


def test_mass_of_a_gaussian_is_that_of_the_chi_squared_distribution():
    p = Gaussian(torch.zeros(2, dtype=F64), 1.0)
    (ring,) = rings(viz.ellipses(p, masses=(0.95,)))
    torch.testing.assert_close(ring.norm(dim=-1), torch.full((len(ring),), 5.991464547107979**0.5, dtype=F64))


def test_support_is_one_thick_line_at_level_zero():
    p = TruncatedParaboloid.from_moments(CENTRE, COVARIANCE)
    ax = viz.ellipses(p, masses=(0.5,))
    thin, thick = ax.patches
    assert thick.get_linewidth() > 2 * thin.get_linewidth()
    border = rings(ax)[1]
    assert (p.prob(CENTRE + 1.000001 * (border - CENTRE)) == 0).all()
    assert (p.prob(CENTRE + 0.999999 * (border - CENTRE)) > 0).all()


def test_gaussian_has_no_thick_line_and_fades_nothing():
    ax = viz.ellipses(Gaussian.from_moments(CENTRE, COVARIANCE), image=torch.rand(8, 8), masses=(0.5, 0.9))
    assert len(ax.patches) == 2 and len({p.get_linewidth() for p in ax.patches}) == 1 and len(ax.images) == 1


def test_image_lies_where_its_positions_say_and_keeps_its_proportions():
    image = torch.zeros(6, 9, 3)
    image[4, 2] = torch.tensor([1.0, 0.0, 0.0])
    place = grid_positions((6, 9), dtype=F64)[4 * 9 + 2]
    ax = viz.ellipses(TruncatedParaboloid.from_moments(place, 0.001), image=image, title="here")
    picture, veil = ax.images
    left, right, bottom, top = picture.get_extent()
    column, row = (place[0] - left) / (right - left) * 9, (place[1] - top) / (bottom - top) * 6
    assert picture.get_array()[int(row), int(column)].tolist() == [1, 0, 0]
    assert ax.get_xlim() == (0, 1) and ax.get_ylim() == (1, 0)  # y downwards
    ax.figure.canvas.draw()
    box = ax.get_window_extent()
    assert box.height / box.width == pytest.approx(6 / 9, rel=1e-3)
    assert veil.get_extent() == picture.get_extent()
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "here"


def test_veil_covers_exactly_what_has_density_zero():
    p = TruncatedParaboloid.from_moments(torch.stack([CENTRE, CENTRE + 0.2]), COVARIANCE)  # two, side by side
    ax = viz.ellipses(p, image=torch.rand(8, 8), fade=0.5)
    veil = np.asarray(ax.images[1].get_array())[..., 3]
    at = grid_positions(veil.shape, dtype=F64).reshape(*veil.shape, 1, 2)
    np.testing.assert_array_equal(veil, np.where(p.support_contains(at).any(-1), 0, 0.5))
    assert len(viz.ellipses(p, image=torch.rand(8, 8), fade=0).images) == 1


def test_batch_has_the_lines_of_each_and_borders_only_where_there_are_such():
    p = BetaGaussian(CENTRE, 0.01, alpha=torch.tensor([[0.8, 1.0], [1.5, 2.0]], dtype=F64))
    ax = viz.ellipses(p, masses=(0.3, 0.6, 0.9))
    widths = [patch.get_linewidth() for patch in ax.patches]
    assert len(widths) == 4 * 3 + 2 and widths.count(max(widths)) == 2


def test_density_without_a_formula_is_traced():
    nodes, weights = gauss_legendre_nodes(cells=30, order=3, low=0, high=1, dtype=F64)
    points = torch.stack(torch.meshgrid(nodes[:, 0], nodes[:, 0], indexing="xy"), -1).reshape(-1, 2)
    exact = TruncatedParaboloid.from_moments(CENTRE, COVARIANCE)
    scale = exact.scale.inverse()

    def score(t):
        return -0.5 * ((t - CENTRE) @ scale * (t - CENTRE)).sum(-1)

    traced = GridDensity.from_function(score, points, (weights[:, None] * weights).flatten(), alpha=2.0)
    ax = viz.ellipses(traced, image=torch.rand(5, 5, 3), masses=(0.5, 0.9))
    inner, border = ax.collections
    assert border.get_linewidth()[0] > inner.get_linewidth()[0]
    rim = torch.tensor(np.concatenate([path.vertices for path in border.get_paths()]))
    torch.testing.assert_close(_radius(exact, rim), exact.support_radius.expand(len(rim)), rtol=0.02, atol=0)
    drawn = [torch.tensor(path.vertices) for path in inner.get_paths()]
    heights = sorted(exact.prob(line).median().item() for line in drawn)
    top = exact.prob(CENTRE).item()
    assert heights == pytest.approx([top * math.sqrt(1 - m) for m in (0.9, 0.5)], rel=0.02)


def test_flat_density_and_one_beyond_the_frame_are_drawn_without_complaint():
    nodes = grid_positions((4, 4), dtype=F64)
    flat = GridDensity(torch.zeros(16, dtype=F64), nodes, torch.full((16,), 1 / 16, dtype=F64))
    viz.ellipses(flat).figure.canvas.draw()
    ax = viz.ellipses(TruncatedParaboloid.from_moments(CENTRE + 9, COVARIANCE), image=torch.rand(4, 4))
    ax.figure.canvas.draw()
    assert np.asarray(ax.images[1].get_array())[..., 3].min() > 0


@pytest.mark.parametrize("image", [torch.rand(4, 6), torch.rand(4, 6, 3) * 3 - 1, torch.ones(4, 6, 3).byte()])
def test_grey_bright_and_byte_images_are_taken(image):
    p = TruncatedParaboloid(CENTRE.float().requires_grad_(), 0.001)
    _, ax = plt.subplots()
    assert viz.ellipses(p, image=image, frame=(-1, 1, -1, 1), ax=ax) is ax
    ax.figure.canvas.draw()
    assert ax.get_xlim() == (-1, 1) and ax.get_ylim() == (1, -1)


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (lambda: viz.ellipses(Gaussian(torch.zeros(1), 1.0)), r"ellipses: .*event shape \(1,\)"),
        (lambda: viz.ellipses(Gaussian(CENTRE, 1.0), image=torch.rand(3, 4, 4)), r"ellipses: image .*\(3, 4, 4\)"),
        (lambda: viz.ellipses(Gaussian(CENTRE, 1.0), image=torch.rand(3)), r"ellipses: image .*\(3,\)"),
        (lambda: viz.ellipses(Gaussian(CENTRE, 1.0), masses=(0.5, 1.0)), r"ellipses: masses .*1\.0"),
    ],
)
def test_wrong_input_is_refused_with_what_came(draw, given):
    with pytest.raises(ValueError, match=given):
        draw()


def _radius(p, points):
    return torch.linalg.solve_triangular(p.scale_tril, (points - p.loc).mT, upper=False).norm(dim=0)


def test_tails_that_round_to_zero_are_no_end_of_the_support():
    narrow = Gaussian(torch.tensor([[0.2, 0.2], [0.8, 0.8]]), scale=1e-4)
    p = Mixture(torch.tensor([0.5, 0.5]), narrow)
    assert (p.prob(torch.tensor([0.5, 0.1])) == 0).all()  # in single precision
    widths = {w for line in viz.ellipses(p).collections for w in line.get_linewidths()}
    assert len(widths) == 1
