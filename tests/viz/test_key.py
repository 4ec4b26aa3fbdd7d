"""Every picture explains itself: a key of the marks that occur in it and no others, and its colours with numbers."""

import io
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from omegamax import sparsemax, viz
from omegamax.densities import Gaussian, Mixture, TruncatedParaboloid
from omegamax.viz._marks import SHAPES
from omegamax.viz.picture import scale_ticks, ticks

F64 = torch.float64
IMAGE = torch.rand(3, 30, 40, generator=torch.Generator().manual_seed(0))
SPARSE = torch.tensor([[0.5, 0.0, 0.25], [0.0, 0.0, 0.25]])
EVEN = torch.full((2, 3), 1 / 6)
POINT = torch.tensor([0.4, 0.5], dtype=F64)
ENDS = TruncatedParaboloid.from_moments(POINT, 0.01)
RUNS_ON = Gaussian.from_moments(POINT, 0.01)
PARTS = Mixture(torch.tensor([0.6, 0.4]), Gaussian.from_moments(torch.tensor([[0.3, 0.3], [0.7, 0.6]]), 0.01))
SAMPLES = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
TREE = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
WINS = torch.eye(2).expand(2, 2, 2)
MIXED = ["disc", "several"]
GAPS = torch.linspace(0, 3, 7)

# What is drawn, and the shapes in its key; whether it has colours that stand for numbers.
CASES = {
    "overlay": (lambda **k: viz.overlay(IMAGE, SPARSE, **k), ["hatch", "cells"], True),
    "overlay white": (lambda **k: viz.overlay(IMAGE, SPARSE, zeros="white", **k), ["white", "cells"], True),
    "overlay without zeros": (lambda **k: viz.overlay(IMAGE, EVEN, **k), [], True),
    "overlay of nothing": (lambda **k: viz.overlay(IMAGE, 0 * EVEN, **k), ["hatch"], True),
    "contours": (lambda **k: viz.contours(IMAGE, ENDS, **k), ["hatch", "edge", "rings", "mean"], True),
    "contours without end": (lambda **k: viz.contours(IMAGE, RUNS_ON, **k), ["rings", "mean"], True),
    "contours of a mixture": (lambda **k: viz.contours(IMAGE, PARTS, **k), ["rings", "dashes", "mean"], True),
    "contours below the levels": (lambda **k: viz.contours(IMAGE, RUNS_ON, levels=(1e6,), **k), ["mean"], True),
    "outline": (lambda **k: viz.outline(IMAGE, SPARSE, **k), ["cells"], False),
    "outline of nothing": (lambda **k: viz.outline(IMAGE, 0 * SPARSE, **k), [], False),
    "heatmap": (lambda **k: viz.heatmap(SPARSE, **k), ["white", "cells"], True),
    "heatmap without zeros": (lambda **k: viz.heatmap(EVEN, **k), [], True),
    "alignment": (lambda **k: viz.alignment(SPARSE, "ab", "cde", **k), ["white", "cells"], True),
    "ellipses": (lambda **k: viz.ellipses(ENDS, image=IMAGE[0], **k), ["white", "edge", "rings"], False),
    "ellipses without end": (lambda **k: viz.ellipses(RUNS_ON, **k), ["rings"], False),
    "density": (lambda **k: viz.density(TruncatedParaboloid(POINT[:1], 0.001), **k), ["hollow"], False),
    "density without end": (lambda **k: viz.density(Gaussian(POINT[:1], 0.1), **k), [], False),
    "bars": (lambda **k: viz.bars(torch.tensor([0.5, 0.5, 0.0]), **k), ["hollow"], False),
    "bars without zeros": (lambda **k: viz.bars(torch.tensor([0.5, 0.5]), **k), [], False),
    "path": (lambda **k: viz.path(torch.tensor([0.1, 1.0]), torch.eye(2), **k), ["hues"], False),
    "losses": (lambda **k: viz.losses(GAPS, (1 - GAPS).relu(), margin=1.0, **k), ["hollow"], False),
    "losses without margin": (lambda **k: viz.losses(GAPS, GAPS.neg().exp(), **k), [], False),
    "simplex": (lambda **k: viz.simplex(sparsemax(viz.plane(40)), **k), ["hues", "line", "border"], False),
    "simplex without borders": (lambda **k: viz.simplex(viz.plane(40).softmax(-1), **k), ["hues", "line"], False),
    "faces": (lambda **k: viz.faces(SAMPLES, **k), ["dots", "patch", "disc"], False),
    "faces inside": (lambda **k: viz.faces(SAMPLES[2:], **k), ["dots"], False),
    "arcs": (
        lambda **k: viz.arcs(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), ["she", "ran"], **k),
        ["line", "arrow"],
        False,
    ),
    "arcs of a root": (lambda **k: viz.arcs(torch.ones(1, 1), ["rain"], **k), ["arrow"], False),
    "basins": (
        lambda **k: viz.basins(torch.eye(2).expand(2, 2, 2), torch.eye(2), (-1, 1, -1, 1), **k),
        ["disc"],
        False,
    ),
}


def keys(figure):
    return [legend for legend in figure.legends if legend.get_gid() == "omegamax key"]


def entries(figure):
    return [text.get_text().replace("\n", " ") for legend in keys(figure) for text in legend.get_texts()]


def bars(figure):
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]


@pytest.mark.parametrize("case", CASES)
def test_key_has_the_marks_that_occur_and_no_others(case):
    draw, shapes, _ = CASES[case]
    ax = draw(title="a picture")
    found = viz.marks_of(ax)
    assert [mark.shape for mark in found] == shapes
    assert entries(ax.figure) == [mark.text for mark in found] and len(keys(ax.figure)) == bool(shapes)


@pytest.mark.parametrize("case", CASES)
def test_colours_that_stand_for_numbers_have_a_bar_with_numbers(case):
    draw, _, coloured = CASES[case]
    found = bars(draw().figure)
    assert len(found) == coloured
    for bar in found:
        bar.figure.canvas.draw()
        numbers = [float(label.get_text().replace("\u2212", "-")) for label in bar.get_yticklabels()]
        assert len(numbers) >= 2 and numbers[0] == 0 and numbers == sorted(numbers) and bar.get_ylabel()
        assert all(label.get_fontsize() >= 8.5 for label in (*bar.get_yticklabels(), bar.yaxis.label))


@pytest.mark.parametrize("case", CASES)
def test_key_is_legible_within_the_figure_and_beside_the_picture(case):
    ax = CASES[case][0](title="a picture")
    ax.figure.canvas.draw()
    whole = ax.figure.bbox
    for legend in keys(ax.figure):
        box = legend.get_window_extent()
        assert box.x0 >= -1 and box.x1 <= whole.width + 1 and box.y0 >= -1 and box.y1 <= whole.height + 1
        assert all(text.get_fontsize() >= 8.5 for text in legend.get_texts())
        below = ax.get_tightbbox().y0
        assert box.y1 <= below + 1
    picture = ax.get_window_extent()
    assert picture.width * picture.height > 0.2 * whole.width * whole.height  # the key does not squeeze it


@pytest.mark.parametrize("case", CASES)
def test_no_key_is_drawn_where_none_is_wanted_but_marks_are_known(case):
    draw, shapes, _ = CASES[case]
    ax = draw(key=False)
    assert not ax.figure.legends and not bars(ax.figure)
    assert [mark.shape for mark in viz.marks_of(ax)] == shapes


@pytest.mark.parametrize("case", [name for name, (_, shapes, _) in CASES.items() if shapes])
@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_axes_given_have_a_key_too(case, layout):
    draw, _, _ = CASES[case]
    figure, ax = plt.subplots(layout=layout)
    assert draw(ax=ax) is ax
    figure.canvas.draw()
    shown = entries(figure) or [text.get_text().replace("\n", " ") for text in ax.get_legend().get_texts()]
    assert shown == [mark.text for mark in viz.marks_of(ax)]


def test_axes_placed_by_hand_have_their_key_within():
    figure = plt.figure()
    ax = figure.add_axes((0, 0, 1, 1))
    viz.overlay(IMAGE, SPARSE, ax)
    figure.canvas.draw()
    inner, outer = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert inner.x0 >= outer.x0 and inner.y0 >= outer.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1


def test_figure_of_several_axes_has_one_key_for_all():
    with viz.style():
        figure, axes = viz.panels(3, 3)
        viz.bars(torch.tensor([0.5, 0.5]), ax=axes[0])
        assert not keys(figure)
        viz.bars(torch.tensor([1.0, 0.0]), ax=axes[1])
        viz.heatmap(SPARSE, ax=axes[2])
        assert len(keys(figure)) == 1 and entries(figure) == ["exactly 0", "exactly 0", "edge of the cells above 0"]
        axes[1].clear()
        viz.bars(torch.tensor([0.5, 0.5]), ax=axes[1])
        assert entries(figure) == ["exactly 0", "edge of the cells above 0"]


def test_drawing_twice_on_the_same_axes_keeps_one_entry_and_one_bar():
    ax = viz.overlay(IMAGE, SPARSE)
    viz.overlay(IMAGE, SPARSE, ax, vmax=50)
    assert entries(ax.figure) == ["exactly 0", "edge of the cells above 0"]
    (bar,) = bars(ax.figure)
    assert bar.get_ylim() == pytest.approx((0, 50))


def test_looks_have_one_key_and_one_bar_for_all_panels():
    looks = {"tv": SPARSE, "ends": ENDS, "parts": PARTS}
    figure = viz.looks(IMAGE, looks, relevance=SPARSE, question="what?")
    figure.canvas.draw()
    shapes = ["cells", "hatch", "cells", "edge", "rings", "mean", "dashes", "mean"]
    assert [mark.shape for mark in viz.marks_of(figure)] == shapes and len(keys(figure)) == len(bars(figure)) == 1
    box = keys(figure)[0].get_window_extent()
    assert box.x1 <= figure.bbox.width and box.y1 <= min(ax.get_tightbbox().y0 for ax in figure.axes) + 1
    assert not keys(viz.looks(IMAGE, {"softmax": EVEN}))


@pytest.mark.parametrize("vmax", [1e-3, 0.7, 1.0, 3.0, 40.0, 5e4])
def test_scale_has_labels_at_their_positions(vmax):
    values = [value for value, _ in ticks(vmax)]
    assert len(values) >= 2 and values[0] == 0 and values[-1] <= vmax
    assert [place for place, _ in scale_ticks(vmax)] == pytest.approx([(value / vmax) ** 0.5 for value in values])


def test_samples_of_marks_are_not_alike():
    files = {shape: viz.swatch(viz.Mark(shape, "")) for shape in SHAPES}
    pixels = {shape: plt.imread(io.BytesIO(file)) for shape, file in files.items()}
    assert {image.shape for image in pixels.values()} == {pixels["hatch"].shape}
    for (a, first), (b, second) in itertools.combinations(pixels.items(), 2):
        if {a, b} != {"patch", "hues"}:  # bands of one colour
            assert np.abs(first - second).max() > 0.2, (a, b)
    with pytest.raises(ValueError, match=r"Mark: shape must be one of 'hatch', .* got 'zigzag'"):
        viz.Mark("zigzag", "")
