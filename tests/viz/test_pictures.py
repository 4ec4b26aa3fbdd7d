"""Each picture carries what it was given."""

import math
import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
import torch

from omegamax import sparsemax, viz
from omegamax.maps import find, records


def test_bars_have_the_heights_of_the_probabilities_and_dots_at_zeros():
    ax = viz.bars(torch.tensor([0.75, 0.25, 0.0, 0.0]), labels="abcd", title="sparsemax")
    assert [bar.get_height() for bar in ax.patches] == [0.75, 0.25, 0, 0]
    assert ax.lines[-1].get_xdata().tolist() == [2, 3]
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abcd")
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "sparsemax"


def test_bars_of_a_dense_answer_have_no_dots():
    assert len(viz.bars(torch.tensor([0.75, 0.25])).lines) == 1  # the axis


def test_path_has_a_line_for_each_entry_drawn_from_where_it_joins():
    t = torch.tensor([0.1, 0.5, 1.0, 4.0])
    p = sparsemax(torch.tensor([1.0, 0.5]) / t[:, None])
    ax = viz.path(t, p, labels=["first", "second"])
    assert [line.get_label() for line in ax.lines] == ["first", "second"]
    assert ax.get_xscale() == "log"
    assert [math.isnan(y) for y in ax.lines[1].get_ydata()] == [True, False, False, False]


def test_heatmap_leaves_zeros_white_and_draws_their_border():
    ax = viz.heatmap(torch.tensor([[0.5, 0.0], [0.5, 0.0]]))
    assert ax.images[0].get_array().mask.tolist() == [[False, True], [False, True]]
    assert sorted(tuple(line.get_ydata()) for line in ax.lines) == [(-0.5, 0.5), (0.5, 1.5)]
    assert all(tuple(line.get_xdata()) == (0.5, 0.5) for line in ax.lines)


def test_heatmap_of_an_image_keeps_its_zeros():
    ax = viz.heatmap(torch.tensor([[0.5, 0.0]]), sparse=False)
    assert not ax.images[0].get_array().mask.any() and not ax.lines


def test_plane_holds_the_corners_of_the_simplex():
    scores = viz.plane(3, radius=1.0)
    torch.testing.assert_close(scores[2, 1], torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(scores.sum(-1), torch.ones(3, 3, dtype=torch.float64))


@pytest.mark.parametrize("t", records().values(), ids=lambda t: t.name)
def test_simplex_draws_any_map_on_the_whole_frame(t):
    ax = viz.simplex(t(viz.plane(40)), levels=2, title=t.name)
    assert ax.images[0].get_extent() == [-2, 2, -2, 2]
    assert ax.get_xlim() == (-2, 2) and len(ax.lines) == 1
    ax.figure.canvas.draw()


def test_simplex_draws_borders_where_entries_vanish():
    dense, sparse = (viz.simplex(find(name)(viz.plane(40))) for name in ("softmax", "sparsemax"))
    assert not dense.collections and len(sparse.collections) >= 3


def test_losses_mark_the_margin():
    gaps = torch.linspace(0, 3, 7)
    ax = viz.losses(gaps, (1 - gaps).clamp(min=0), margin=1.0, label="hinge")
    assert ax.lines[0].get_label() == "hinge" and ax.lines[-1].get_xdata() == [1.0]
    assert len(viz.losses(gaps, (-gaps).exp()).lines) == 1


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (lambda: viz.bars(torch.ones(2, 2)), r"bars: .*\(2, 2\)"),
        (lambda: viz.path(torch.ones(3), torch.ones(2, 4)), r"path: .*\(2, 4\)"),
        (lambda: viz.heatmap(torch.ones(3)), r"heatmap: .*\(3,\)"),
        (lambda: viz.simplex(torch.ones(4, 3)), r"simplex: .*\(4, 3\)"),
        (lambda: viz.losses(torch.ones(3), torch.ones(2)), r"losses: .*\(2,\)"),
    ],
)
def test_wrong_shapes_are_refused_with_what_came(draw, given):
    with pytest.raises(ValueError, match=given):
        draw()


def test_pictures_go_to_the_given_axes_and_detach_tensors():
    _, ax = plt.subplots()
    assert viz.bars(torch.tensor([0.5, 0.5], requires_grad=True), ax=ax) is ax


def test_colours_differ_between_the_maps_and_stay():
    assert len({viz.colour(name) for name in records()}) == len(records())
    assert viz.colour("a map of tomorrow") == viz.colour("a map of tomorrow")


def test_panels_come_flat_without_the_empty_ones():
    figure, axes = viz.panels(5, 3)
    assert len(axes) == 5 == len(figure.axes)


def test_style_is_gone_after_the_block():
    before = plt.rcParams["axes.titleweight"]
    with viz.style():
        assert plt.rcParams["axes.titleweight"] == "bold"
    assert plt.rcParams["axes.titleweight"] == before


def test_viz_imports_without_matplotlib_and_names_the_extra_when_drawing():
    probe = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import torch; from omegamax import viz\n"
        "try: viz.bars(torch.ones(2))\n"
        "except ImportError as e: sys.exit(0 if 'omegamax[viz]' in str(e) else 1)\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", probe]).returncode == 0
