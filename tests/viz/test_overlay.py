"""Weights over pictures: which cell lies where, in what colour, and what marks the zeros."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection

from omegamax import viz

IMAGE = torch.rand(3, 30, 60, generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.tensor([[0.5, 0.0, 0.25], [0.0, 0.0, 0.25]])


def strokes(ax):
    """Points ``[N, 2]`` along the hatching."""
    hatched = [line for line in ax.collections if isinstance(line, LineCollection)]
    ends = np.array([segment for line in hatched for segment in line.get_segments()]).reshape(-1, 2, 2)
    share = np.linspace(0, 1, 50)[:, None, None]
    return ((1 - share) * ends[:, 0] + share * ends[:, 1]).reshape(-1, 2)


def test_cells_are_coloured_by_density_per_unit_area():
    ax = viz.overlay(IMAGE, WEIGHTS, title="sparsemax")
    ground, cells, _ = ax.images
    np.testing.assert_allclose(cells.get_array(), 6 * WEIGHTS.numpy())  # six cells
    assert cells.get_clim() == (0, 3) and cells.get_interpolation() == "nearest"
    assert list(cells.get_extent()) == list(ground.get_extent()) == [0, 1, 1, 0]
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "sparsemax"


def test_even_weights_have_the_same_colour_on_every_grid():
    coarse, fine = (viz.overlay(IMAGE, torch.full(s, 1 / math.prod(s)), vmax=5).images[1] for s in ((2, 3), (7, 9)))
    first, other = (cells.cmap(cells.norm(cells.get_array())).reshape(-1, 4) for cells in (coarse, fine))
    np.testing.assert_allclose(first[:1], other[:1])
    assert coarse.get_clim() == fine.get_clim() == (0, 5)
    assert np.ptp(other, axis=0).max() == 0


def test_more_attention_is_darker_and_more_opaque_and_colours_stop_at_vmax():
    cells = viz.overlay(IMAGE, torch.linspace(0, 1, 32).reshape(4, 8), vmax=16).images[1]
    colours = cells.cmap(cells.norm(cells.get_array())).reshape(-1, 4)
    assert (np.diff(colours[:, 3]) >= 0).all() and colours[0, 3] == 0
    assert colours[5, :3].sum() > colours[10, :3].sum() > colours[15, :3].sum()
    np.testing.assert_allclose(colours[20], colours[-1])  # both beyond the end


def test_picture_lies_under_the_cells_in_its_proportions_with_y_downwards():
    image = torch.zeros(3, 30, 60)
    image[:, 20:, :10] = torch.tensor([1.0, 1.0, 1.0])[:, None, None]
    ax = viz.overlay(image, WEIGHTS)
    ground = ax.images[0].get_array()
    assert ground.shape == (30, 60, 3) and ground[25, 5].min() > ground[5, 5].max()  # the lower left is the light one
    assert ax.get_xlim() == (0, 1) and ax.get_ylim() == (1, 0)
    ax.figure.canvas.draw()
    box = ax.get_window_extent()
    assert box.height / box.width == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("level", [0.0, 0.1, 1.0])
def test_dimmed_picture_is_pale_whatever_the_picture_is(level):
    ground = viz.overlay(level * IMAGE, WEIGHTS).images[0].get_array()
    assert ground.min() >= 0.5 and ground.max() <= 1
    assert np.ptp(ground, axis=-1).mean() < 0.3  # nearly grey


def test_every_zero_cell_is_hatched_and_no_other():
    weights = torch.rand(14, 14, generator=torch.Generator().manual_seed(1))
    weights = weights * (weights > 0.6)
    points = strokes(viz.overlay(IMAGE, weights))
    column, row = np.minimum(points * 14, 13.999).astype(int).T
    hit = np.zeros((14, 14), dtype=bool)
    hit[row, column] = True
    np.testing.assert_array_equal(hit, (weights == 0).numpy())


def test_white_zeros_are_washed_and_none_leaves_them():
    ax = viz.overlay(IMAGE, WEIGHTS, zeros="white")
    veil = np.asarray(ax.images[2].get_array())
    assert not len(strokes(ax)) and set(veil[..., :3].flatten()) == {1.0}
    size = len(veil)
    np.testing.assert_array_equal(
        veil[size // 4 :: size // 2, size // 6 :: size // 3, 3][:2, :3] > 0.5, (WEIGHTS == 0).numpy()
    )
    bare = viz.overlay(IMAGE, WEIGHTS, zeros=None)
    assert len(bare.images) == 2 and not bare.patches and not len(strokes(bare))


def test_border_runs_between_zeros_and_the_rest():
    (border,) = viz.overlay(IMAGE, WEIGHTS).patches
    drawn = {frozenset(map(tuple, side)) for side in border.get_path().vertices.reshape(-1, 2, 2).round(6).tolist()}
    third = round(1 / 3, 6), round(2 / 3, 6)
    wanted = [((third[0], 0), (third[0], 0.5)), ((third[1], 0), (third[1], 0.5)), ((third[1], 0.5), (third[1], 1))]
    wanted.append(((0, 0.5), (third[0], 0.5)))
    assert drawn == {frozenset(side) for side in wanted}


def test_dense_weights_have_no_mark_of_zeros():
    ax = viz.overlay(IMAGE, torch.full((3, 4), 1 / 12))
    assert not ax.patches and not ax.collections and len(ax.images) == 2


@pytest.mark.parametrize(
    "image",
    [(IMAGE * 255).byte(), IMAGE.half(), IMAGE.bfloat16().requires_grad_(), IMAGE.double(), IMAGE * 1.2 - 0.1],
    ids=["bytes", "half", "bfloat16", "double", "overshoot"],
)
def test_pictures_and_weights_of_any_kind_are_taken(image):
    weights = WEIGHTS.half().requires_grad_()
    _, ax = plt.subplots()
    assert viz.overlay(image, weights, ax) is ax
    np.testing.assert_array_equal(ax.images[1].get_array(), 6 * WEIGHTS.numpy())  # exact in half precision
    ax.figure.canvas.draw()


def test_weights_of_nothing_and_of_one_cell_are_drawn():
    empty = viz.overlay(IMAGE, torch.zeros(2, 2))
    assert empty.images[1].get_clim() == (0, 1) and len(strokes(empty))
    assert viz.overlay(IMAGE[:, :1, :1], torch.ones(1, 1)).images[1].get_array().tolist() == [[1.0]]
    plt.gcf().canvas.draw()


def test_index_takes_a_member_of_a_batch():
    batch = torch.stack([WEIGHTS, WEIGHTS.flip(1)])
    np.testing.assert_allclose(viz.overlay(IMAGE, batch, index=-1).images[1].get_array(), 6 * batch[1].numpy())


@pytest.mark.parametrize(
    ("draw", "error", "given"),
    [
        (lambda: viz.overlay(IMAGE[0], WEIGHTS), ValueError, r"overlay: image .*\[3, H, W\].*\(30, 60\)"),
        (lambda: viz.overlay(IMAGE.permute(1, 2, 0), WEIGHTS), ValueError, r"overlay: image .*\(30, 60, 3\)"),
        (lambda: viz.overlay(IMAGE.numpy(), WEIGHTS), TypeError, r"overlay: image .*ndarray"),
        (lambda: viz.overlay(IMAGE.long(), WEIGHTS), TypeError, r"overlay: image .*int64"),
        (lambda: viz.overlay(255 * IMAGE, WEIGHTS), ValueError, r"overlay: image .*\[0, 1\].* to 25"),
        (lambda: viz.overlay(IMAGE * math.nan, WEIGHTS), ValueError, r"overlay: image .*nan"),
        (lambda: viz.overlay(IMAGE, WEIGHTS[None]), ValueError, r"overlay: weights .*\[h, w\].*\(1, 2, 3\)"),
        (lambda: viz.overlay(IMAGE, WEIGHTS[0]), ValueError, r"overlay: weights .*\(3,\)"),
        (lambda: viz.overlay(IMAGE, WEIGHTS[:0]), ValueError, r"overlay: weights .*\(0, 3\)"),
        (lambda: viz.overlay(IMAGE, [[1.0]]), TypeError, r"overlay: weights .*list"),
        (lambda: viz.overlay(IMAGE, WEIGHTS / WEIGHTS), ValueError, r"overlay: weights .*nan in 3 of 6"),
        (lambda: viz.overlay(IMAGE, -WEIGHTS), ValueError, r"overlay: weights .*>= 0, got -0\.5 in 3 of 6"),
        (lambda: viz.overlay(IMAGE, WEIGHTS[None], index=1), IndexError, r"overlay: index .*\(1,\), got 1"),
        (lambda: viz.overlay(IMAGE, WEIGHTS, index=0), IndexError, r"overlay: index .*\(\), got 0"),
        (lambda: viz.overlay(IMAGE, WEIGHTS, vmax=0), ValueError, r"overlay: vmax .*got 0"),
        (lambda: viz.overlay(IMAGE, WEIGHTS, vmax=math.nan), ValueError, r"overlay: vmax .*got nan"),
        (lambda: viz.overlay(IMAGE, WEIGHTS, zeros="black"), ValueError, r"overlay: zeros .*'hatch'.*'black'"),
    ],
)
def test_wrong_input_is_refused_with_what_came(draw, error, given):
    with pytest.raises(error, match=given):
        draw()


# --- What matters


def test_outline_is_round_all_ones_of_a_map():
    relevance = torch.zeros(15, 20)
    relevance[3:6, 4:8] = 1
    ax = viz.outline(IMAGE, relevance, title="what matters")
    (border,) = ax.patches
    places = border.get_path().vertices
    np.testing.assert_allclose([places.min(0), places.max(0)], [[4 / 20, 3 / 15], [8 / 20, 6 / 15]])
    assert len(places) == 2 * 2 * (3 + 4)
    shown, inside = ax.images[0].get_array(), np.zeros((30, 60), dtype=bool)
    inside[6:12, 12:24] = True  # each cell is two by three pixels
    np.testing.assert_array_equal((shown == IMAGE.permute(1, 2, 0).double().numpy()).all(-1), inside)


def test_outline_of_a_graded_map_holds_the_mass_in_the_fewest_cells():
    graded = torch.tensor([[8.0, 4.0, 2.0, 1.0, 1.0]])
    for mass, cells in ((0.5, 1), (0.51, 2), (0.8, 3), (0.9, 5), (1.0, 5)):  # ties go together
        patches = viz.outline(IMAGE, graded, mass=mass).patches
        assert [patch.get_path().vertices[0, 0] for patch in patches] == ([cells / 5] if cells < 5 else [])


def test_outline_of_nothing_dims_all():
    ax = viz.outline(IMAGE, torch.zeros(4, 4))
    assert not ax.patches and ax.images[0].get_array().min() >= 0.5


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (lambda: viz.outline(IMAGE, torch.ones(3)), r"outline: relevance .*\(3,\)"),
        (lambda: viz.outline(IMAGE, -torch.ones(3, 3)), r"outline: relevance .*-1"),
        (lambda: viz.outline(IMAGE, torch.ones(3, 3), mass=0), r"outline: mass .*0"),
    ],
)
def test_outline_refuses_wrong_input(draw, given):
    with pytest.raises(ValueError, match=given):
        draw()
