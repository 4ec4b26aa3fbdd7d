"""Panels side by side: what is in each, the words around them, one colour scale."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from omegamax import sparsemax, viz
from omegamax.densities import Gaussian, Mixture, TruncatedParaboloid
from omegamax.viz.looks import RIGHT, WRONG

IMAGE = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(0))
SCORES = torch.randn(6, 7, generator=torch.Generator().manual_seed(1))
MEANS = torch.tensor([[0.3, 0.4], [0.7, 0.6]])
LOOKS = {
    "softmax": SCORES.flatten().softmax(-1).reshape(6, 7),
    "sparsemax": sparsemax(SCORES.flatten()).reshape(6, 7),
    "continuous softmax": Gaussian.from_moments(MEANS[0], 0.02),
    "continuous sparsemax": TruncatedParaboloid.from_moments(MEANS[0], 0.02),
    "multimodal": Mixture(torch.tensor([0.6, 0.4]), Gaussian.from_moments(MEANS, 0.01)),
}


def panels(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def titles(figure):
    return [ax.get_title(loc="left") for ax in panels(figure)]


def test_picture_comes_first_then_what_matters_then_each_look():
    relevance = torch.zeros(20, 25)
    relevance[5:9, 4:9] = 1
    figure = viz.looks(IMAGE, LOOKS, relevance=relevance)
    assert titles(figure) == ["picture", "what matters", *LOOKS]
    picture, matters, first, *_ = panels(figure)
    np.testing.assert_allclose(picture.images[0].get_array(), IMAGE.permute(1, 2, 0).numpy())  # not dimmed
    assert len(matters.patches) == 1 and matters.get_xlabel() == ""
    np.testing.assert_allclose(first.images[1].get_array(), 42 * LOOKS["softmax"].numpy(), rtol=1e-6)
    assert titles(viz.looks(IMAGE, LOOKS)) == ["picture", *LOOKS]
    figure.canvas.draw()


def test_all_panels_and_the_bar_have_one_colour_scale():
    figure = viz.looks(IMAGE, LOOKS)
    scales = {ax.images[1].get_clim() for ax in panels(figure)[1:]}
    (bar,) = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    assert scales == {(0, viz.shared_vmax(LOOKS))}
    assert bar.get_ylim() == pytest.approx((0, viz.shared_vmax(LOOKS)))
    assert len({ax.images[1].cmap.name for ax in panels(figure)[1:]}) == 1
    wider = viz.looks(IMAGE, LOOKS, vmax=100)
    assert {ax.images[1].get_clim() for ax in panels(wider)[1:]} == {(0, 100)}


def test_shared_scale_ends_at_the_highest_peak_but_one_alone_does_not_stretch_it():
    even, double, high = (torch.full((2, 2), 0.25), torch.eye(2) / 2, Gaussian.from_moments(MEANS[0], 1e-4))
    peak = high.prob(MEANS[0]).item()
    assert viz.shared_vmax({"high": high}) == pytest.approx(peak)  # though it lies between the points of a lattice
    assert viz.shared_vmax({"even": even, "double": double}) == 2
    assert viz.shared_vmax({"even": even, "double": double, "high": high}) == 8
    none = torch.zeros(2, 2)
    assert viz.shared_vmax({"none": none}) == 1 and viz.shared_vmax({"a": none, "b": none, "double": double}) == 2


def test_question_is_on_top_and_answers_beneath_right_ones_unlike_wrong_ones():
    answers = {"softmax": "2", "sparsemax": "Three ", "multimodal": "three"}
    figure = viz.looks(IMAGE, LOOKS, question="How many\n$2 coins?", answers=answers, truth="three")
    assert figure.get_suptitle() == "How many $2 coins?"
    below = {ax.get_title(loc="left"): (ax.get_xlabel(), ax.xaxis.label.get_color()) for ax in panels(figure)}
    assert below["picture"][0] == "answer: three" and below["continuous softmax"][0] == ""
    assert below["softmax"] == ("✗ 2", WRONG)
    assert below["sparsemax"] == ("✓ Three", RIGHT)
    assert below["multimodal"] == ("✓ three", RIGHT)
    figure.canvas.draw()  # a dollar is no formula


def test_answers_without_a_truth_have_no_mark():
    figure = viz.looks(IMAGE, LOOKS, answers={"softmax": "2"})
    ax = panels(figure)[1]
    assert ax.get_xlabel() == "2" and ax.xaxis.label.get_color() not in (RIGHT, WRONG)
    assert panels(figure)[0].get_xlabel() == "" and not figure.get_suptitle()


def test_long_words_stay_within_their_panel_and_above_the_next_row():
    answer = "a rather long answer that takes more than one line"
    kept = dict(list(LOOKS.items())[:3])
    figure = viz.looks(
        IMAGE,
        kept,
        question="Why " + "so " * 40 + "long?",
        answers=dict.fromkeys(kept, answer),
        notes=dict.fromkeys(kept, "JS divergence 0.25"),
        truth=answer,
        columns=2,
    )
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in panels(figure)]
    whole = figure.bbox
    for box in [*boxes, figure._suptitle.get_window_extent()]:
        assert box.x0 >= -1 and box.x1 <= whole.width + 1 and box.y0 >= -1 and box.y1 <= whole.height + 1
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert (
                min(box.x1, other.x1) - max(box.x0, other.x0) < 1 or min(box.y1, other.y1) - max(box.y0, other.y0) < 1
            )


def test_notes_are_small_print_under_the_answer():
    figure = viz.looks(IMAGE, LOOKS, answers={"softmax": "2"}, notes={"softmax": "JS 0.5", "sparsemax": "JS 0.4"})
    figure.canvas.draw()
    first, second = panels(figure)[1:3]
    assert [text.get_text() for text in (*first.texts, *second.texts)] == ["JS 0.5", "JS 0.4"]
    note, answer = first.texts[0].get_window_extent(), first.xaxis.label.get_window_extent()
    assert note.y1 <= answer.y0 + 1 and note.height < answer.height


def test_nothing_in_particular_is_said():
    ax = panels(viz.looks(IMAGE, LOOKS, relevance=torch.zeros(3, 3)))[1]
    assert ax.get_xlabel() == "nothing in particular" and not ax.patches


def test_columns_make_rows():
    def places(figure):
        figure.canvas.draw()
        corners = [ax.get_window_extent() for ax in panels(figure)]
        return len({round(box.x0) for box in corners}), len({round(box.y0) for box in corners})

    assert places(viz.looks(IMAGE, LOOKS)) == (6, 1)
    assert places(viz.looks(IMAGE, LOOKS, columns=3)) == (3, 2)
    assert places(viz.looks(IMAGE, LOOKS, columns=100)) == (6, 1)
    many = {str(i): LOOKS["softmax"] for i in range(8)}
    assert places(viz.looks(IMAGE, many)) == (5, 2)  # nine panels, at most seven in a row


@pytest.mark.parametrize("shape", [(20, 80), (80, 20)])
def test_pictures_of_any_shape_keep_it(shape):
    figure = viz.looks(torch.rand(3, *shape), LOOKS)
    figure.canvas.draw()
    for ax in panels(figure):
        box = ax.get_window_extent()
        assert box.height / box.width == pytest.approx(shape[0] / shape[1], rel=0.02)
        assert box.width > 80


def test_index_takes_the_same_member_of_all():
    batches = {
        "weights": torch.stack([LOOKS["softmax"], LOOKS["sparsemax"]]),
        "density": Gaussian.from_moments(MEANS, 0.02),
        "mixture": Mixture(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), Gaussian.from_moments(MEANS, 0.02)),
    }
    _, weights, density, mixture = panels(viz.looks(IMAGE, batches, index=1))
    np.testing.assert_allclose(weights.images[1].get_array(), 42 * LOOKS["sparsemax"].numpy(), rtol=1e-6)
    assert [line.get_xdata().tolist() for line in density.lines] == [[pytest.approx(0.7)]]
    assert not mixture.texts  # one component of this one has no weight
    assert viz.shared_vmax(batches, index=1) == weights.images[1].get_clim()[1]


def test_zeros_are_marked_as_asked_for():
    hatched, white = (panels(viz.looks(IMAGE, LOOKS, zeros=zeros)) for zeros in ("hatch", "white"))
    sparse = [2, 4]  # sparsemax, and continuous sparsemax
    assert all(hatched[i].collections and len(hatched[i].images) == 3 for i in sparse)
    assert all(not white[i].collections and len(white[i].images) == 3 for i in sparse)


def test_style_of_the_caller_is_left_alone():
    before = dict(plt.rcParams)
    viz.looks(IMAGE, LOOKS)
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize(
    ("draw", "error", "given"),
    [
        (lambda: viz.looks(IMAGE, {}), ValueError, r"looks: looks .*none"),
        (lambda: viz.looks(IMAGE, [LOOKS["softmax"]]), ValueError, r"looks: looks .*list"),
        (lambda: viz.looks(IMAGE, {"a": "b"}), TypeError, r"looks: looks\['a'\] .*str"),
        (lambda: viz.looks(IMAGE, {"a": SCORES}), ValueError, r"looks: looks\['a'\] .*>= 0"),
        (lambda: viz.looks(IMAGE, {"a": torch.full((2, 2), math.nan)}), ValueError, r"looks: looks\['a'\] .*nan"),
        (lambda: viz.looks(IMAGE, {"a": Gaussian(MEANS, 0.1)}), ValueError, r"looks: looks\['a'\] .*single.*\(2,\)"),
        (lambda: viz.looks(IMAGE, {"a": Gaussian(MEANS, 0.1)}, index=2), IndexError, r"looks: index .*\(2,\), got 2"),
        (lambda: viz.shared_vmax({"a": Gaussian(MEANS, 0.1)}), ValueError, r"shared_vmax: looks\['a'\] .*\(2,\)"),
        (lambda: viz.looks(IMAGE, LOOKS, answers={"hardmax": "2"}), ValueError, r"looks: answers .*'hardmax'"),
        (lambda: viz.looks(IMAGE, LOOKS, notes={"hardmax": "2"}), ValueError, r"looks: notes .*'hardmax'"),
        (lambda: viz.looks(IMAGE, LOOKS, columns=0), ValueError, r"looks: columns .*0"),
        (lambda: viz.looks(IMAGE[0], LOOKS), ValueError, r"looks: image .*\(40, 50\)"),
        (lambda: viz.looks(IMAGE, LOOKS, vmax=-1), ValueError, r"looks: vmax .*-1"),
        (lambda: viz.looks(IMAGE, LOOKS, zeros="grey"), ValueError, r"looks: zeros .*'grey'"),
        (lambda: viz.looks(IMAGE, LOOKS, relevance=torch.ones(3)), ValueError, r"looks: relevance .*\(3,\)"),
    ],
)
def test_wrong_input_is_refused_with_what_came(draw, error, given):
    with pytest.raises(error, match=given):
        draw()
    assert not plt.get_fignums()  # no half-drawn figure stays behind
