"""Text in any script: drawn where an installed font has it, escaped with one warning where none has."""

import warnings
from importlib import import_module

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib import font_manager

from omegamax import viz

fonts = import_module("omegamax.viz.style")  # the package has a function of this name

IMAGE = torch.full((3, 20, 20), 0.5)
LOOKS = {"softmax": torch.full((2, 2), 0.25), "sparsemax": torch.eye(2) / 2}
NOBODY = "\U000f1234"  # private use: no font has it


@pytest.fixture(autouse=True)
def _nothing_warned_of(monkeypatch):
    monkeypatch.setattr(fonts, "_warned", set())


def covered(text):
    """Whether some installed font other than the one of boxes has every character."""
    return not fonts._fallback(text)[1]


def draw(text):
    """All places where text of the user goes, drawn to the last glyph."""
    figures = [
        viz.looks(
            IMAGE,
            {f"a {text}": LOOKS["softmax"], "b": LOOKS["sparsemax"]},
            question=f"{text}?",
            answers={"b": text},
            truth=text,
            notes={"b": text},
        ),
        viz.bars(torch.tensor([0.5, 0.5]), labels=[text, "b"], title=text).figure,
        viz.alignment(torch.eye(2), [text, "b"], ["c", text]).figure,
        viz.arcs(torch.eye(2), [text, "b"]).figure,
        viz.faces(torch.full((5, 3), 1 / 3), labels=[text, "b", "c"]).figure,
        viz.heatmap(torch.eye(2), title=text).figure,
    ]
    for figure in figures:
        figure.canvas.draw()
    return figures


@pytest.mark.parametrize(
    "text", ["是什么颜色", "ما هذا", "что это", "อะไร", "これは何", "τί ἐστιν", "🙂 é", NOBODY, "a\u200db"]
)
def test_any_script_is_drawn_with_at_most_one_warning(text):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        draw(text)
    told = [str(warning.message) for warning in heard]
    assert len(told) == (not covered(text) and not text.isascii() and "\u200d" not in text), told
    assert all("no installed font has U+" in each for each in told)


def test_characters_that_no_font_has_are_escaped():
    with pytest.warns(UserWarning, match="no installed font has U\\+F1234; written as escapes") as heard:
        figure = viz.looks(IMAGE, LOOKS, question=f"what is {NOBODY}?")
    assert len(heard) == 1 and figure.get_suptitle() == r"what is \U000f1234?"


def test_text_that_the_font_has_is_left_alone_and_looks_for_no_other(monkeypatch):
    monkeypatch.setattr(fonts, "_list_installed", lambda: pytest.fail("searched the fonts"))
    assert fonts.legible("What colour is it, Ångström?") == "What colour is it, Ångström?"
    assert fonts.families("plain") == matplotlib.rcParams["font.family"]


def test_installed_font_that_has_the_glyphs_is_chosen(tmp_path):
    """With a font set that lacks a letter, another that has it is found among those installed."""
    text = "∀ \u0561 \u06cc"
    lacking = "STIXGeneral"
    with matplotlib.rc_context({"font.family": [lacking]}):
        chosen = fonts.families(text)
        assert chosen[0] == lacking and len(chosen) > 1 and fonts.legible(text) == text
        figure, ax = plt.subplots()
        ax.text(0, 0, text, fontfamily=chosen)
        figure.canvas.draw()  # a missing glyph would warn, and warnings are errors
    assert all(any(font.name == name for font in font_manager.fontManager.ttflist) for name in chosen)
