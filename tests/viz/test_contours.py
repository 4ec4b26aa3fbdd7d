"""Densities over pictures: where the lines run, where the support ends, what a mixture shows of its parts."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection

from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian, Gaussian, GridDensity, Laplace, Mixture, TruncatedParaboloid

F64 = torch.float64
IMAGE = torch.rand(3, 30, 40, generator=torch.Generator().manual_seed(0))
CENTRE = torch.tensor([0.4, 0.55], dtype=F64)
COVARIANCE = torch.tensor([[0.012, 0.005], [0.005, 0.008]], dtype=F64)


def rings(ax):
    return [torch.tensor(patch.get_xy()) for patch in ax.patches]


def borders(ax):
    """Points of the thick lines."""
    thick = [line for line in ax.lines if line.get_linewidth() > 2]
    return [torch.tensor(np.stack(line.get_data(), -1)) for line in thick]


def dots(ax):
    (line,) = [line for line in ax.lines if line.get_marker() == "o"]
    return torch.tensor(np.stack(line.get_data(), -1))


def pair(first=(0.3, 0.4), second=(0.75, 0.6), weights=(0.7, 0.3), family=TruncatedParaboloid, covariance=COVARIANCE):
    parts = family.from_moments(torch.tensor([first, second], dtype=F64), covariance)
    return Mixture(torch.tensor(weights, dtype=F64), parts)


def test_colours_are_the_density_at_the_points_they_cover():
    p = Gaussian.from_moments(CENTRE, COVARIANCE)
    ax = viz.contours(IMAGE, p, title="continuous softmax")
    surface = ax.images[1]
    values = torch.tensor(np.asarray(surface.get_array()))
    at = grid_positions(values.shape, dtype=F64).reshape(*values.shape, 2)
    torch.testing.assert_close(values, p.prob(at))
    assert list(surface.get_extent()) == [0, 1, 1, 0] and ax.get_ylim() == (1, 0)
    assert surface.get_clim() == pytest.approx((0, p.prob(CENTRE).item()))
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "continuous softmax"


def test_cells_and_density_of_the_same_attention_have_the_same_colour():
    p = Gaussian.from_moments(CENTRE, COVARIANCE)
    cells = p.prob(grid_positions((40, 40), dtype=F64)).reshape(40, 40) / 1600  # of a cell's area
    discrete, smooth = viz.overlay(IMAGE, cells, vmax=20).images[1], viz.contours(IMAGE, p, vmax=20).images[1]
    assert discrete.get_clim() == smooth.get_clim() and discrete.cmap == smooth.cmap
    here, there = (image.cmap(image.norm(image.get_array())) for image in (discrete, smooth))
    np.testing.assert_allclose(here[20, 16], there[205, 165], atol=0.02)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.001, 1.5, 2.0, 4.0])
def test_level_lines_of_an_ellipse_are_exact(alpha):
    p = BetaGaussian.from_moments(CENTRE, COVARIANCE, alpha)
    levels = (0.5, 2.0, 7.0, 1e4)  # the last is nowhere reached
    lines = rings(viz.contours(IMAGE, p, levels=levels))
    assert len(lines) == 3
    for line, level in zip(lines, levels, strict=False):
        torch.testing.assert_close(p.prob(line), torch.full((len(line),), level, dtype=F64))


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0, 3.0])
def test_thick_line_is_where_the_support_ends(alpha):
    p = BetaGaussian.from_moments(CENTRE, COVARIANCE, alpha)
    (border,) = borders(viz.contours(IMAGE, p))
    away = border - CENTRE
    assert p.support_contains(CENTRE + (1 - 1e-9) * away).all()
    assert not p.support_contains(CENTRE + (1 + 1e-9) * away).any()
    turn = torch.atan2(away[:, 1], away[:, 0]).sort().values.diff()
    assert turn.max() < 0.1 and torch.equal(border[0].round(decimals=12), border[-1].round(decimals=12))  # all round


@pytest.mark.parametrize("alpha", [0.8, 1.0])
def test_density_without_end_has_no_thick_line_and_no_hatching(alpha):
    ax = viz.contours(IMAGE, BetaGaussian(CENTRE, 1e-4, alpha=alpha))  # far tails round to zero
    assert not borders(ax) and not ax.collections and len(ax.images) == 2


def test_hatching_is_outside_the_support_and_reaches_its_edge():
    p = TruncatedParaboloid.from_moments(CENTRE, COVARIANCE)
    (hatching,) = [drawn for drawn in viz.contours(IMAGE, p).collections if isinstance(drawn, LineCollection)]
    strokes = torch.tensor(np.array(hatching.get_segments()))  # [N, 2 ends, 2]
    share = torch.linspace(0, 1, 30, dtype=F64)[:, None, None]
    assert not p.support_contains((1 - share) * strokes[:, 0] + share * strokes[:, 1]).any()
    inner = CENTRE + 0.97 * (strokes - CENTRE)
    ends = p.support_contains(inner).sum()
    assert ends > 8  # two for each stroke that the ellipse cuts
    assert strokes.min() >= 0 and strokes.max() <= 1 + 1e-9


def test_white_covers_what_is_outside_the_support():
    p = TruncatedParaboloid.from_moments(CENTRE, COVARIANCE)
    ax = viz.contours(IMAGE, p, zeros="white")
    veil = np.asarray(ax.images[2].get_array())[..., 3]
    at = grid_positions(veil.shape, dtype=F64).reshape(*veil.shape, 2)
    np.testing.assert_array_equal(veil > 0, ~p.support_contains(at).numpy())
    assert not ax.collections and len(viz.contours(IMAGE, p, zeros=None).images) == 2


def test_mean_is_a_dot():
    ax = viz.contours(IMAGE, TruncatedParaboloid.from_moments(CENTRE, COVARIANCE))
    torch.testing.assert_close(dots(ax), CENTRE[None])
    assert not ax.texts


def test_mixture_shows_each_part_with_its_weight():
    p = pair()
    ax = viz.contours(IMAGE, p, levels=(2.0,))
    torch.testing.assert_close(dots(ax), p.components.mean)
    assert [text.get_text() for text in ax.texts] == ["0.70", "0.30"]
    assert [text.xy for text in ax.texts] == [tuple(mean) for mean in p.components.mean.tolist()]
    for k, ring in enumerate(rings(ax)):  # of half its mass: sqrt(1/2) of its peak, at alpha = 2
        own = TruncatedParaboloid.from_moments(p.components.mean[k], COVARIANCE)
        torch.testing.assert_close(own.prob(ring), (own.prob(own.loc) * math.sqrt(0.5)).expand(len(ring)))
    assert all(patch.get_linestyle() != "-" for patch in ax.patches)
    (lines,) = [drawn for drawn in ax.collections if not isinstance(drawn, LineCollection)]
    traced = torch.tensor(np.concatenate([path.vertices for path in lines.get_paths()]))
    torch.testing.assert_close(p.prob(traced), torch.full((len(traced),), 2.0, dtype=F64), rtol=0, atol=0.05)


def test_parts_without_weight_are_not_there():
    means, scales = torch.tensor([[0.3, 0.3], [0.5, 0.5], [0.7, 0.6]]), torch.tensor([0.01, 0.0, 0.01])
    parts = Gaussian(means, scales[:, None, None], validate_args=False)
    ax = viz.contours(IMAGE, Mixture(torch.tensor([0.25, 0.0, 0.75]), parts))
    assert len(dots(ax)) == 2 and [text.get_text() for text in ax.texts] == ["0.25", "0.75"]
    alone = viz.contours(IMAGE, Mixture(torch.tensor([0.0, 0.0, 1.0]), parts), levels=(3.0,))
    assert len(dots(alone)) == 1 and not alone.texts
    single = Gaussian(torch.tensor([0.7, 0.6], dtype=F64), 0.01)
    (ring,) = rings(alone)
    torch.testing.assert_close(single.prob(ring), torch.full((len(ring),), 3.0, dtype=F64), rtol=1e-5, atol=0)


def test_weight_too_small_to_write_is_not_written_as_zero():
    assert [t.get_text() for t in viz.contours(IMAGE, pair(weights=(0.997, 0.003))).texts] == ["1.00", "<0.01"]


def test_supports_apart_have_a_whole_ellipse_each():
    p = pair((0.2, 0.3), (0.8, 0.7), covariance=0.002)
    lines = borders(viz.contours(IMAGE, p))
    assert len(lines) == 2
    for line, mean in zip(lines, p.components.mean, strict=True):
        assert not p.support_contains(mean + (1 + 1e-9) * (line - mean)).any()
        torch.testing.assert_close(line[0], line[-1])


def test_supports_that_overlap_have_the_edge_of_both_together():
    p = pair((0.4, 0.45), (0.55, 0.6))
    lines = borders(viz.contours(IMAGE, p))
    assert len(lines) == 2
    first, second = (TruncatedParaboloid.from_moments(mean, COVARIANCE) for mean in p.components.mean)
    for line, own, other in ((lines[0], first, second), (lines[1], second, first)):
        away = line - own.loc
        assert own.support_contains(own.loc + (1 - 1e-9) * away).all()
        assert not p.support_contains((own.loc + (1 + 1e-9) * away)[1:-1]).any()  # nothing of it inside the other
        # Both ends are where the ellipses cross: on the other's edge too.
        ends = line[[0, -1]] - other.loc
        assert other.support_contains(other.loc + (1 - 1e-6) * ends).all()
        assert not other.support_contains(other.loc + (1 + 1e-6) * ends).any()
    corners = torch.stack([line[[0, -1]] for line in lines])
    torch.testing.assert_close(corners[0].sort(0).values, corners[1].sort(0).values, rtol=0, atol=1e-6)


def test_support_within_another_has_no_line_and_twins_are_drawn():
    inside = pair((0.5, 0.5), (0.5, 0.5), covariance=torch.stack([torch.eye(2) * 0.02, torch.eye(2) * 0.002]).double())
    assert len(borders(viz.contours(IMAGE, inside))) == 1
    twins = pair((0.5, 0.5), (0.5, 0.5))
    assert len(borders(viz.contours(IMAGE, twins))) >= 1


def test_index_takes_a_member_of_a_batch():
    means = torch.tensor([[0.2, 0.3], [0.6, 0.7]], dtype=F64)
    batch = BetaGaussian(means, 0.01, alpha=torch.tensor([1.0, 2.0], dtype=F64))
    first, second = (viz.contours(IMAGE, batch, index=i) for i in (0, 1))
    torch.testing.assert_close(dots(second), means[1:])
    assert not borders(first) and len(borders(second)) == 1
    mixtures = Mixture.stack([pair(), pair((0.1, 0.1), (0.9, 0.9), (0.0, 1.0))])
    assert len(dots(viz.contours(IMAGE, mixtures, index=(0,)))) == 2
    torch.testing.assert_close(dots(viz.contours(IMAGE, mixtures, index=-1)), torch.tensor([[0.9, 0.9]], dtype=F64))
    assert len(dots(viz.contours(IMAGE, Mixture.stack([pair()])))) == 2  # a batch of one is single


def test_density_without_a_formula_is_traced():
    nodes = grid_positions((10, 10), dtype=F64)
    away = (nodes - torch.tensor([[0.45, 0.45]], dtype=F64)).norm(dim=-1)
    scores = torch.stack([-away, -40 * away])
    p = GridDensity(scores, nodes, torch.full((100,), 0.01, dtype=F64), alpha=2.0)
    ax = viz.contours(IMAGE, p, index=1, levels=(1.0,))
    values = torch.tensor(np.asarray(ax.images[1].get_array()))
    torch.testing.assert_close(values[8::16, 8::16].flatten(), p.probs_at_nodes[1])
    border = [drawn for drawn in ax.collections if max(drawn.get_linewidths()) > 2]
    assert len(border) == 1
    rim = torch.tensor(np.concatenate([path.vertices for path in border[0].get_paths()]))
    # On the lattice: a step further in or out changes sides.
    assert not p.support_contains((rim + 0.01 * torch.nn.functional.normalize(rim - 0.45))[:, None])[:, 1].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precision_and_gradients_do_not_matter(dtype):
    loc = CENTRE.to(dtype).requires_grad_()
    p = TruncatedParaboloid(loc, torch.tensor(0.002, dtype=dtype))
    ax = viz.contours((255 * IMAGE).byte(), p)
    torch.testing.assert_close(dots(ax), loc.detach().double()[None])
    ax.figure.canvas.draw()


def test_default_levels_are_the_same_for_all():
    for covariance, count in ((0.1, 1), (0.02, 2), (0.004, 3)):  # peaks of 1.6, 8 and 40
        p = Gaussian.from_moments(CENTRE, covariance)
        heights = [p.prob(ring[:1]).item() for ring in rings(viz.contours(IMAGE, p))]
        assert heights == pytest.approx([1.0, 4.0, 16.0][:count])


def test_density_beyond_the_picture_and_one_narrower_than_a_pixel_are_drawn():
    far = viz.contours(IMAGE, TruncatedParaboloid.from_moments(CENTRE + 9, COVARIANCE))
    far.figure.canvas.draw()
    assert far.get_xlim() == (0, 1) and len(far.collections) == 1
    p = Gaussian.from_moments(CENTRE, 1e-8)
    narrow = viz.contours(IMAGE, p)
    assert narrow.images[1].get_clim()[1] == pytest.approx(p.prob(CENTRE).item())
    narrow.figure.canvas.draw()


@pytest.mark.parametrize(
    ("draw", "error", "given"),
    [
        (lambda: viz.contours(IMAGE, torch.ones(3, 3)), TypeError, r"contours: density .*Tensor"),
        (lambda: viz.contours(IMAGE, Laplace(torch.zeros(1), 1.0)), ValueError, r"contours: density .*shape \(1,\)"),
        (lambda: viz.contours(IMAGE, Gaussian(torch.rand(3, 2), 1.0)), ValueError, r"contours: density .*\(3,\)"),
        (lambda: viz.contours(IMAGE, Gaussian(torch.rand(3, 2), 1.0), index=3), IndexError, r"contours: index .*3$"),
        (lambda: viz.contours(IMAGE, Gaussian(torch.rand(3, 2), 1.0), index=(0, 0)), IndexError, r"\(3,\).*\(0, 0\)"),
        (lambda: viz.contours(IMAGE, _nan()), ValueError, r"contours: density .*finite"),
        (lambda: viz.contours(IMAGE, _flat()), ValueError, r"contours: density .*positive scale"),
        (lambda: viz.contours(IMAGE, _thin()), ValueError, r"contours: density .*positive scale"),
        (lambda: viz.contours(IMAGE[:2], pair()), ValueError, r"contours: image .*\(2, 30, 40\)"),
        (lambda: viz.contours(IMAGE, pair(), levels=(1, 0)), ValueError, r"contours: levels .*\(1, 0\)"),
        (lambda: viz.contours(IMAGE, pair(), vmax=math.inf), ValueError, r"contours: vmax .*inf"),
        (lambda: viz.contours(IMAGE, pair(), zeros="dots"), ValueError, r"contours: zeros .*'dots'"),
    ],
)
def test_wrong_input_is_refused_with_what_came(draw, error, given):
    with pytest.raises(error, match=given):
        draw()


def _nan():
    return Gaussian(torch.tensor([0.5, math.nan]), 0.01, validate_args=False)


def _flat():
    return Gaussian(torch.rand(2), torch.zeros(2, 2), validate_args=False)


def _thin():
    return Gaussian(torch.rand(2), scale_diag=torch.tensor([0.1, 0.0]), validate_args=False)
