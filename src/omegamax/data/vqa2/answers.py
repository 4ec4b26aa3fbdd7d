"""Answers in the form in which the VQA evaluation compares them."""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBERS = {word: str(n) for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS["none"] = "0"
_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'  # the colon and the apostrophe stay: 10:55, men's
_DIGITS_COMMA = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")

# Words that regain the apostrophe that people leave out. Not in the official list: were, well, shell, id, its, lets,
# shed, which are words without it; and, words being in lower case by then, im and ive.
_ONE = """
    ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's isn't
    it'd it'll ma'am mightn't might've mustn't must've needn't not've o'clock oughtn't shan't should've shouldn't
    somebody'll somebody's someone'd someone'll someone's something'd something'll that's there'd there're there's
    they'd they'll they're they've 'twas wasn't we've weren't what'll what're what's what've when's where'd where's
    where've who'd who'll who's who've why'll why're why's won't would've wouldn't y'all you'd you'll you're you've
"""
_TWO = """
    couldn't've hadn't've he'd've it'd've mightn't've she'd've shouldn't've somebody'd've someone'd've something'd've
    there'd've they'd've we'd've who'd've wouldn't've y'all'll y'all'd've you'd've 'ow's'at
"""


def _without_one(word: str) -> list[str]:
    """List the word with each one of its apostrophes left out."""
    return [word[:i] + word[i + 1 :] for i, letter in enumerate(word) if letter == "'"]


_CONTRACTIONS = {short: word for word in (_ONE + _TWO).split() for short in _without_one(word)}
_CONTRACTIONS["somebody'd"] = "somebodyd"  # the wrong way round in the official table, kept for its scores


@lru_cache(maxsize=1 << 16)
def normalise_answer(answer: str) -> str:
    """Return an answer as the official VQA evaluation compares it.

    - A mark of punctuation vanishes if one of its kind stands next to a space anywhere in the answer, and any mark does
      if a comma stands between two digits; else a space takes its place. Colons and apostrophes stay.
    - A period vanishes unless a digit follows it.
    - Lower case; the articles a, an, the vanish; none, zero, ..., ten become digits; words without their apostrophe
      regain it (``dont``, but not ``its``). White space becomes single spaces.

    >>> [normalise_answer(a) for a in ("The two dogs.", "1,000", "$3.50", "T-shirt", "yes, it is", "dont know")]
    ['2 dogs', '1000', '$3.50', 't shirt', 'yes it is', "don't know"]

    Reference: Antol et al. (ICCV 2015), section 3, and the evaluation code that its authors distribute.
    """
    given = text = clean(answer)
    run_on = _DIGITS_COMMA.search(given) is not None
    for mark in _PUNCTUATION:
        if mark in given:
            # Spaces count as they came, not as the marks before this one have left them.
            vanishes = run_on or f"{mark} " in given or f" {mark}" in given
            text = text.replace(mark, "" if vanishes else " ")
    words = (_NUMBERS.get(word, word) for word in _PERIOD.sub("", text).lower().split())
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def clean(answer: str) -> str:
    """Remove line breaks, tabs and space at the ends: all that is done where the ten people agree."""
    return answer.replace("\n", " ").replace("\t", " ").strip()
