"""The embedded set: short reviews of films, made as they are asked for, with the words that matter marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from omegamax._arguments import check_integer
from omegamax.data.text.imdb import POLARITY
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import SPLITS, Texts

Marked = list[tuple[str, bool]]  # words, and whether they matter

GOOD = ("good", "great", "superb", "charming", "brilliant", "moving", "clever", "delightful", "gripping", "lovely")
BAD = ("bad", "awful", "dull", "clumsy", "boring", "dreadful", "silly", "tedious", "weak", "horrible")
OPINIONS = {"negative": BAD, "positive": GOOD}
OPPOSITE = {"negative": "positive", "positive": "negative"}
# What a review is about, and what it mentions by the way: opinions of the one count, those of the other do not.
ASPECTS = ("film", "acting", "plot", "story", "script", "ending", "music", "dialogue", "camera work", "lead actor")
ASIDES = ("popcorn", "weather", "cinema", "bus ride", "seat", "trailer", "coffee", "parking", "town", "hotel")
ADVERBS = ("", "really", "quite", "rather", "truly", "simply")
OPENINGS = ("", "i thought", "to my mind", "for me", "as always", "this time")
NEUTRAL = (
    "we saw it on a {day} with my {person} .",
    "it runs for {number} minutes .",
    "it was made in {number} different places .",
    "my {person} had read the book before .",
    "it is set in a small {place} by the {nature} .",
    "there were {number} people in the room .",
    "we went home by the {nature} after that .",
)
_SLOTS: dict[str, Sequence[str]] = {
    "day": ("monday", "tuesday", "friday", "sunday"),
    "person": ("sister", "brother", "uncle", "neighbour", "teacher"),
    "number": ("seven", "ninety", "twelve", "forty", "two"),
    "place": ("village", "house", "harbour", "station"),
    "nature": ("sea", "river", "forest", "lake"),
}
_NEGATED = 0.3  # share of opinions that are said by denying their opposite


class Reviews(Texts):
    """Reviews of films from a grammar: the class hangs on opinions of the film, among opinions of other things.

    Every review has one to three sentences with an opinion of the film, its acting, its plot, all of one kind; three in
    ten say it by *not* and the opposite. Around them stand sentences without an opinion, and opinions of the popcorn or
    the weather, good or bad at random: which words there are does not tell the class, what they are said of does. An
    opinion of the film, and its *not*, are marked with 1.

    Sample ``i`` is a function of (seed, split, i) alone, the same in any process; half of the samples are positive.

    Args:
        size: number of samples.
        split: ``"train"``, ``"val"`` or ``"test"``, which draw from streams of their own.
        seed: an integer >= 0.
        sentences: fewest and most sentences of a review.

    >>> review = Reviews(30, seed=2)[29]
    >>> " ".join(review.words)
    'it runs for two minutes . the film was not boring . this time the popcorn was simply dreadful .'
    >>> [word for word, mark in zip(review.words, review.marks) if mark], review.label
    (['not', 'boring'], 'positive')
    """

    labels = POLARITY

    def __init__(self, size: int, split: str = "train", *, seed: int = 0, sentences: tuple[int, int] = (3, 6)) -> None:
        super().__init__(split)
        self.size, self.seed = check_integer("Reviews", "size", size, 0), check_integer("Reviews", "seed", seed, 0)
        fewest, most = (check_integer("Reviews", "sentences", each, 1) for each in sentences)
        if fewest > most:
            raise ValueError(f"Reviews: sentences must be the fewest and the most, got {tuple(sentences)}")
        self.sentences = (fewest, most)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TextSample]:
        return map(self.__getitem__, range(self.size))

    def __getitem__(self, index: int) -> TextSample:
        index = range(self.size)[index]
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), index))
        label = POLARITY[index % 2]
        count = int(rng.integers(self.sentences[0], self.sentences[1] + 1))
        telling = min(count, int(rng.integers(1, 4)))
        parts = [_opinion(rng, ASPECTS, label, True) for _ in range(telling)]
        for _ in range(count - telling):
            if rng.random() < 0.5:
                parts.append(_opinion(rng, ASIDES, _one(rng, POLARITY), False))
            else:
                parts.append(_fill(rng, _one(rng, NEUTRAL)))
        pairs = [pair for place in rng.permutation(count) for pair in parts[place]]
        words, marks = zip(*pairs, strict=True)
        return TextSample(words, label, f"reviews-{self.seed}-{self.split}-{index}", tuple(map(float, marks)))


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _opinion(rng: np.random.Generator, things: Sequence[str], polarity: str, matters: bool) -> Marked:
    """Return a sentence with an opinion of one of the things."""
    plain = f"{_one(rng, OPENINGS)} the {_one(rng, things)} was".split()
    if rng.random() < _NEGATED:
        telling = ["not", _one(rng, OPINIONS[OPPOSITE[polarity]])]
    else:
        plain += _one(rng, ADVERBS).split()
        telling = [_one(rng, OPINIONS[polarity])]
    return [*((word, False) for word in plain), *((word, matters) for word in telling), (".", False)]


def _fill(rng: np.random.Generator, template: str) -> Marked:
    """Return a sentence without an opinion."""
    return [(word, False) for word in template.format(**{k: _one(rng, v) for k, v in _SLOTS.items()}).split()]
