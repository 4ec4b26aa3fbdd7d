"""Texts to words: nothing but space is lost, whatever the script."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegamax.data.text import EMPTY, TextSample, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t", []),
        ("Don't!", ["Do", "n't", "!"]),
        ("DON\u2019T", ["DO", "N'T"]),
        ("n't", ["n't"]),
        ("We'll, they've; I'm: she'd", ["We", "'ll", ",", "they", "'ve", ";", "I", "'m", ":", "she", "'d"]),
        ("the 'story'", ["the", "'", "story", "'"]),
        ("10.5 or 1,000.50, 7.", ["10.5", "or", "1,000.50", ",", "7", "."]),
        ("well... no -- what?!", ["well", "...", "no", "--", "what", "?!"]),
        ("one<br />two<BR>three", ["one", "two", "three"]),
        ("snake_case", ["snake", "case"]),
        ("re-imagining", ["re", "-", "imagining"]),
        ("cafe\u0301", ["caf\u00e9"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u0905\u091a\u094d\u091b\u0940", None),
        ("I \u2764\ufe0f it\U0001f44d\U0001f3fd!", ["I", "\u2764\ufe0f", "it", "\U0001f44d\U0001f3fd", "!"]),
        ("\U0001f3f3\ufe0f\u200d\U0001f308\U0001f600", ["\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f600"]),
        (
            "\U0001f1ec\U0001f1e7\U0001f1eb\U0001f1f7 1\ufe0f\u20e3",
            ["\U0001f1ec\U0001f1e7", "\U0001f1eb\U0001f1f7", "1\ufe0f\u20e3"],
        ),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", None),
        ("\u597d\u770b\u3002\u5f88\u597d", ["\u597d\u770b", "\u3002", "\u5f88\u597d"]),
    ],
)
def test_words(text, words):
    assert split_words(text) == (text.split() if words is None else words)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_nothing_but_space_is_lost(text):
    """All characters come back in their order, but for white space, underscores and tags of a new line."""
    text = text.replace("<", "(")
    kept = unicodedata.normalize("NFC", text).replace("\u2019", "'").replace("_", "")
    assert "".join(split_words(text)) == "".join(kept.split())


def test_a_text_without_words_is_one_word_that_no_text_has():
    sample = TextSample.of("  ", "a", "1", second="")
    assert sample.words == sample.second == (EMPTY,) and sample.empty
    assert EMPTY not in split_words(EMPTY)
    with pytest.raises(ValueError, match="at least one"):
        TextSample((), "a", "1")
    with pytest.raises(ValueError, match="marks must be 2"):
        TextSample(("a", "b"), "a", "1", (1.0,))
