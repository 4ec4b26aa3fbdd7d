"""Figures like the papers', drawn from records."""

from dataclasses import replace

import pytest
from PIL import Image

from omegamax.tasks.vqa.report import Comparison
from omegamax.tasks.vqa.report.figures import Line, Panel, draw_figures, draw_lines, write_figures
from omegamax.viz.style import pyplot
from tasks.vqa.report.cases import IMAGE, MULTI, NAMES, comparison, png


@pytest.fixture(scope="module")
def figures():
    pyplot().switch_backend("agg")
    drawn = draw_figures(comparison(), rows=2)
    yield drawn
    for figure in drawn.values():
        pyplot().close(figure)


def titles(figure):
    """Names above the panels, row by row; colour scales and what is empty have none."""
    return [ax.get_title("left").strip() for ax in figure.axes if ax.get_title("left").strip()]


def answers(figure):
    return [ax.get_xlabel() for ax in figure.axes if ax.get_title("left").strip()]


def test_there_is_a_figure_of_everything_there_are_examples_of(figures):
    assert list(figures) == ["kinds", "wide-ellipse", "components", "agreement"]


def test_kinds_have_a_row_for_each_kind_and_a_panel_for_each_model(figures):
    mixture = f"{MULTI}, K* = 2"
    assert titles(figures["kinds"]) == 2 * ["picture", *NAMES[:2], mixture]  # yes/no, other; number was picked
    assert answers(figures["kinds"])[:4] == ["answer: yes", "\u2713 yes", "\u2713 yes", "\u2713 yes"]
    asked = [text.get_text() for ax in figures["kinds"].axes for text in ax.texts]
    assert asked[0] == "Is it red?"


def test_model_without_a_look_leaves_its_place_empty(figures):
    assert titles(figures["wide-ellipse"]) == ["picture", *NAMES[:2], "picture", *NAMES[:2], f"{MULTI}, K* = 2"]


def test_components_mark_the_number_that_was_selected(figures):
    assert titles(figures["components"]) == 2 * ["picture", "K = 1", "K = 2 = K*"]
    framed = [ax.spines["left"].get_visible() for ax in figures["components"].axes if ax.get_title("left").strip()]
    assert framed == 2 * [False, False, True]
    assert f"\u2717 {IMAGE}"[:12] == answers(figures["components"])[1][:12]


def test_agreement_has_the_divergences_and_what_matters(figures):
    assert titles(figures["agreement"]) == ["picture", *NAMES, "what matters", "picture", *NAMES[:2], "what matters"]
    assert answers(figures["agreement"])[1:5] == ["JSD = 0.12", "JSD = 1.12", "JSD = 2.12", ""]


def test_marks_that_occur_are_explained(figures):
    (legend,) = figures["components"].legends
    assert {text.get_text() for text in legend.get_texts()} == {"equal density", "half of a component's mass"}


def test_files_are_pictures(tmp_path):
    given = comparison()
    paths = write_figures(replace(given, examples=given.examples[:1]), tmp_path / "new", rows=1)
    assert [path.name for path in paths] == ["kinds.png", "components.png", "agreement.png"]
    for path in paths:
        with Image.open(path) as image:
            assert image.width > 600 and image.height > 200
    assert write_figures(Comparison("", "", given.rows), tmp_path) == []


def test_rows_of_different_lengths_stand_in_one_figure():
    one, two = (Line("Why?", count * [Panel("picture", png(1, 2, 3))], [], None) for count in (1, 3))
    figure = draw_lines([one, two])
    assert titles(figure) == 4 * ["picture"] and len(figure.axes) == 6 and not figure.axes[1].axison
    pyplot().close(figure)
