"""The embedded set: short reviews of films, made as they are asked for, with the words that matter marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omegamax._arguments import check_integer
from omegamax.data.corpus import SPLITS, DrawnCorpus
from omegamax.data.text.imdb import POLARITY
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import Texts

Marked = list[tuple[str, bool]]  # words, and whether they matter

# The frequent ones first: the n-th is drawn 1 / n as often as the first, so that some are hardly ever seen in training.
GOOD = tuple(
    "good great superb charming brilliant moving clever delightful gripping lovely witty subtle elegant warm thrilling "
    "touching fresh honest graceful splendid inspired rousing tender radiant".split()
)
BAD = tuple(
    "bad awful dull clumsy boring dreadful silly tedious weak horrible bland shallow lifeless cold predictable "
    "grating stale false wooden dismal lazy sluggish crude dreary".split()
)
OPINIONS = {"negative": BAD, "positive": GOOD}
OPPOSITE = {"negative": "positive", "positive": "negative"}
# What a review is about, and what it mentions by the way: opinions of the one count, those of the other do not.
ASPECTS = ("film", "acting", "plot", "story", "script", "ending", "music", "dialogue", "camera work", "lead actor")
ASIDES = ("popcorn", "weather", "cinema", "bus ride", "seat", "trailer", "coffee", "parking", "town", "hotel")
# Opinions of one kind, own or by denying the other; words that matter have an asterisk.
PLAIN = ("{opening} the {thing} was {adverb} *{own} .", "the {thing} seemed {adverb} *{own} to me .")
DENIED = (
    "{opening} the {thing} was *not {adverb} *{other} .",
    "{opening} the {thing} was *hardly *{other} .",
    "{opening} the {thing} was *far *from *{other} .",
    "i would *not call the {thing} *{other} .",
    "there was *nothing *{other} about the {thing} .",
    "i do *not *agree with my {person} , who found the {thing} *{other} .",
)
# Opinions that are not the writer's, or of a film that never was.
HEARSAY = (
    "my {person} thought the {thing} was {own} .",
    "my {person} would not call the {thing} {own} .",
    "the paper had called the {thing} {adverb} {own} .",
    "we had been told how {own} the {thing} was .",
    "with more money the {thing} might have been {own} .",
)
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
    "adverb": ("", "really", "quite", "rather", "truly", "simply"),
    "opening": ("", "i thought", "to my mind", "for me", "as always", "this time"),
    "day": ("monday", "tuesday", "friday", "sunday"),
    "person": ("sister", "brother", "uncle", "neighbour", "teacher"),
    "number": ("seven", "ninety", "twelve", "forty", "two"),
    "place": ("village", "house", "harbour", "station"),
    "nature": ("sea", "river", "forest", "lake"),
}
_DENIED = 0.4  # share of opinions that are said by denying the other kind
_CONTRASTED = 0.3  # share of the opinions that count that stand beside one of the other kind, which does not


class Reviews(DrawnCorpus[TextSample], Texts):
    """Reviews of films from a grammar: the class hangs on what the writer thinks of the film, among other opinions.

    Every review has one or two sentences with the writer's opinion of the film, its acting, its plot, all of one kind.
    Four in ten say it by denying the other kind, *hardly good*, *i would not call the ending good*; in three of ten it
    follows a *but* that puts aside another one, or has an *although* behind it that does. Around them stand sentences
    without an opinion, and opinions that do not count, good or bad at random: of the popcorn or the weather, of an
    uncle or a newspaper, of what might have been. Which words there are does not tell the class; what they are said
    of, and by whom, does. An opinion that counts is marked with 1, and so is what denies it.

    Sample ``i`` is a function of (seed, split, i) alone, the same in any process; half of the samples are positive.

    Args:
        size: number of samples.
        split: ``"train"``, ``"val"`` or ``"test"``, which draw from streams of their own.
        seed: an integer >= 0.
        sentences: fewest and most sentences of a review.

    >>> review = Reviews(60, sentences=(2, 2))[41]
    >>> " ".join(review.words)
    'i thought the camera work was hardly wooden . my uncle would not call the plot brilliant .'
    >>> [word for word, mark in zip(review.words, review.marks) if mark], review.label
    (['hardly', 'wooden'], 'positive')
    """

    labels = POLARITY

    def __init__(self, size: int, split: str = "train", *, seed: int = 0, sentences: tuple[int, int] = (4, 8)) -> None:
        super().__init__(size, split, seed=seed)
        fewest, most = (check_integer("Reviews", "sentences", each, 1) for each in sentences)
        if fewest > most:
            raise ValueError(f"Reviews: sentences must be the fewest and the most, got {tuple(sentences)}")
        self.sentences = (fewest, most)

    def __getitem__(self, index: int) -> TextSample:
        index = range(self.size)[index]
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), index))
        label = POLARITY[index % 2]
        count = int(rng.integers(self.sentences[0], self.sentences[1] + 1))
        telling = min(count, int(rng.integers(1, 3)))
        parts = [_verdict(rng, label) for _ in range(telling)]
        parts += [_digress(rng) for _ in range(count - telling)]
        pairs = [pair for place in rng.permutation(count) for pair in parts[place]]
        words, marks = zip(*pairs, strict=True)
        return TextSample(words, label, f"reviews-{self.seed}-{self.split}-{index}", tuple(map(float, marks)))


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _verdict(rng: np.random.Generator, polarity: str) -> Marked:
    """Return a sentence with the writer's opinion of the film."""
    own = _opinion(rng, ASPECTS, polarity)
    if rng.random() >= _CONTRASTED:
        return own
    aside = _unmark(_opinion(rng, ASPECTS, OPPOSITE[polarity]))[:-1]
    if rng.random() < 0.5:
        return [*aside, (",", False), ("but", False), *own]
    return [*own[:-1], (",", False), ("although", False), *aside, own[-1]]


def _digress(rng: np.random.Generator) -> Marked:
    """Return a sentence that does not tell the class."""
    which, polarity = rng.random(), _one(rng, POLARITY)
    if which < 0.3:
        return _unmark(_opinion(rng, ASIDES, polarity))
    return _fill(rng, HEARSAY if which < 0.7 else NEUTRAL, ASPECTS, polarity)


def _opinion(rng: np.random.Generator, things: Sequence[str], polarity: str) -> Marked:
    """Return a sentence with an opinion of one of the things, marked."""
    return _fill(rng, DENIED if rng.random() < _DENIED else PLAIN, things, polarity)


def _fill(rng: np.random.Generator, templates: Sequence[str], things: Sequence[str], polarity: str) -> Marked:
    """Return one of the templates, with its slots filled."""
    slots = {name: _one(rng, values) for name, values in {**_SLOTS, "thing": things}.items()}
    slots["own"], slots["other"] = _often(rng, OPINIONS[polarity]), _often(rng, OPINIONS[OPPOSITE[polarity]])
    words = _one(rng, templates).format(**slots).split()
    return [(word.removeprefix("*"), word.startswith("*")) for word in words]


def _often(rng: np.random.Generator, values: Sequence[str]) -> str:
    """Draw a word, the n-th one 1 / n as often as the first."""
    weights = 1 / np.arange(1, len(values) + 1)
    return values[int(rng.choice(len(values), p=weights / weights.sum()))]


def _unmark(sentence: Marked) -> Marked:
    return [(word, False) for word, _ in sentence]
