"""Words with the attention over them: places, colours, what is refused."""

import warnings

import pytest
import torch

from omegamax.densities import Gaussian, TruncatedParaboloid
from omegamax.viz import marks_of, words
from omegamax.viz.words import PALE, count_lines, place_words, write_words

TEXT = ["the", "film", "was", "not", "boring", "."]


def test_words_are_placed_in_lines():
    assert place_words(["好看", "x"], 6) == [(0, 0, 4), (0, 5, 1)]
    assert count_lines(["a" * 20, "b"], 10) == 2 and count_lines(["word"] * 9, 14) == 3


def test_words_have_the_room_of_what_is_written():
    """An escape has the room it takes, a mark on top of a letter has none, and no word has more than a line."""
    nobody = "\U000f1234"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no font has it
        assert write_words([nobody, "e\u0301", "a" * 50], 20) == ["\\U000f1234", "e\u0301", "a" * 19 + "\u2026"]
        places = place_words(write_words([nobody, "x"], 20), 20)
    assert places == [(0, 0, 10), (0, 11, 1)]
    assert place_words(["e\u0301", "x"], 20) == [(0, 0, 1), (0, 2, 1)]


def test_a_text_that_is_written_from_right_to_left_runs_that_way():
    ax = words(["\u05e9\u05dc\u05d5\u05dd", "film"], torch.tensor([0.75, 0.25]))
    left, right = ax.get_xlim()
    assert left > right and {text.get_ha() for text in ax.texts} == {"right"}
    assert [text.get_position()[0] for text in ax.texts] == [0, 5] == [patch.get_x() for patch in ax.patches]


def test_words_without_attention_are_grey_and_have_no_bar():
    ax = words(TEXT, torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0]))
    grey = [text.get_text() for text in ax.texts if text.get_color() == PALE]
    assert grey == ["the", "was", "."] and len(ax.patches) == 3
    heights = [patch.get_height() for patch in ax.patches]
    assert heights[1] == pytest.approx(2 * heights[0]) == pytest.approx(2 * heights[2])
    assert [mark.text for mark in marks_of(ax)] == ["word with exactly no attention"]
    assert not marks_of(words(TEXT, torch.full((6,), 1 / 6)))


def test_the_density_stands_over_its_words():
    density = TruncatedParaboloid(torch.tensor([0.75]), torch.tensor([[0.0005]]))
    ax = words(TEXT, density=density, columns=14)
    x, y = (torch.tensor(axis) for line in ax.lines[-1:] for axis in (line.get_xdata(), line.get_ydata()))
    peak = x[y.nan_to_num(-9).argmax()]
    (line, start, width) = place_words(TEXT, 14)[4]  # 0.75 lies in the middle of the fifth word
    assert line == 1 and abs(float(peak) - (start + width / 2)) < 0.6


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"weights must be \[6\]"):
        words(TEXT, torch.ones(5))
    with pytest.raises(ValueError, match=r"empty must be \[6\]"):
        words(TEXT, empty=torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="a single density over one dimension"):
        words(TEXT, density=Gaussian(torch.zeros(2, 1), torch.ones(2, 1, 1)))
