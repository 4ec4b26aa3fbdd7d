"""The embedded pair of languages: a fragment of German and its English, made as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omegamax.data.corpus import SPLITS, DrawnCorpus
from omegamax.data.translation.pair import ParallelCorpus, SentencePair


class Noun(NamedTuple):
    """A noun in both languages, its gender, and the pronouns that stand for it."""

    word: str
    english: str
    gender: str
    pronoun: str = ""


# Who can do something, with the English pronoun; the German one follows the gender.
PEOPLE = (
    Noun("mann", "man", "m", "he"),
    Noun("hund", "dog", "m", "it"),
    Noun("junge", "boy", "m", "he"),
    Noun("frau", "woman", "f", "she"),
    Noun("katze", "cat", "f", "it"),
    Noun("lehrerin", "teacher", "f", "she"),
    Noun("kind", "child", "n", "it"),
    Noun("mädchen", "girl", "n", "she"),
)
THINGS = (
    Noun("ball", "ball", "m"),
    Noun("schlüssel", "key", "m"),
    Noun("lampe", "lamp", "f"),
    Noun("blume", "flower", "f"),
    Noun("buch", "book", "n"),
    Noun("haus", "house", "n"),
    Noun("auto", "car", "n"),
)
SUBJECT_ARTICLES = {"m": "der", "f": "die", "n": "das"}
OBJECT_ARTICLES = {"m": "den", "f": "die", "n": "das"}
PRONOUNS = {"m": "er", "f": "sie", "n": "es"}
ADJECTIVES = {"alt": "old", "klein": "small", "groß": "big", "rot": "red", "blau": "blue", "neu": "new"}
PARTICIPLES = {
    "gesehen": "seen",
    "gekauft": "bought",
    "gefunden": "found",
    "verloren": "lost",
    "gemalt": "painted",
    "getragen": "carried",
}
TIMES = {"heute": "today", "gestern": "yesterday", "manchmal": "sometimes", "danach": "then"}
PLACES = {
    "im garten": "in the garden",
    "im wald": "in the forest",
    "am bahnhof": "at the station",
    "auf dem markt": "at the market",
}
STATES = {"müde": "tired", "glücklich": "happy", "allein": "alone", "krank": "ill"}
Words = list[tuple[str, int]]  # each with the number of the thing that it says


class TinyPairs(DrawnCorpus[SentencePair], ParallelCorpus):
    """Sentences from a grammar, German and English, each with the one translation that it has.

    German puts the verb second and the participle last, the place before the object and *nicht* before the participle;
    English does none of this, so that words move far: *heute hat der alte mann im garten den roten ball nicht gesehen ,
    weil er müde war .* is *today the old man has not seen the red ball in the garden , because he was tired .*
    Articles, endings and pronouns follow the gender of nouns, which English does not have. Which words belong
    together is known.

    Sample ``i`` is a function of (seed, split, i) alone, the same in any process.

    Args:
        size: number of pairs.
        split: ``"train"``, ``"val"`` or ``"test"``, which draw from streams of their own.
        seed: an integer >= 0.

    >>> pair = TinyPairs(3, seed=3)[2]
    >>> pair.source
    'danach hat das mädchen das buch gekauft , weil es müde war .'
    >>> pair.target
    'then the girl has bought the book , because she was tired .'
    """

    def __getitem__(self, index: int) -> SentencePair:
        index = range(self.size)[index]
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), index))
        german, english = _draw(rng)
        alignment = tuple(
            (i, j) for i, (_, one) in enumerate(german) for j, (_, other) in enumerate(english) if one == other
        )
        source, target = (" ".join(word for word, _ in words) for words in (german, english))
        return SentencePair(source, target, f"tiny-{self.seed}-{self.split}-{index}", alignment)


def _draw(rng: np.random.Generator) -> tuple[Words, Words]:
    """Draw a sentence and its translation; words that say the same have the same number."""
    who, what = PEOPLE[int(rng.integers(len(PEOPLE)))], THINGS[int(rng.integers(len(THINGS)))]
    time, place = _maybe(rng, TIMES, 0.5), _maybe(rng, PLACES, 0.4)
    participle = _one(rng, tuple(PARTICIPLES))
    not_, because = rng.random() < 0.25, rng.random() < 0.3
    subject, subject_english = _phrase(rng, who, SUBJECT_ARTICLES, 1, "e")
    thing, thing_english = _phrase(rng, what, OBJECT_ARTICLES, 4, "en" if what.gender == "m" else "e")
    verb, last = [("hat", 7)], [(participle, 8)]
    begin = [(time, 9)] if time else []
    german: Words = [*begin, *verb, *subject] if begin else [*subject, *verb]
    german += [(word, 10) for word in place.split()] + thing + ([("nicht", 11)] if not_ else []) + last
    english: Words = [*([(TIMES[time], 9)] if time else []), *subject_english, ("has", 7)]
    english += ([("not", 11)] if not_ else []) + [(PARTICIPLES[participle], 8), *thing_english]
    english += [(word, 10) for word in PLACES[place].split()] if place else []
    if because:
        state = _one(rng, tuple(STATES))
        german += [(",", 12), ("weil", 13), (PRONOUNS[who.gender], 14), (state, 15), ("war", 16)]
        english += [(",", 12), ("because", 13), (who.pronoun, 14), ("was", 16), (STATES[state], 15)]
    return [*german, (".", 17)], [*english, (".", 17)]


def _phrase(
    rng: np.random.Generator, noun: Noun, articles: dict[str, str], number: int, ending: str
) -> tuple[Words, Words]:
    """Draw an article, perhaps an adjective, and the noun, in both languages."""
    adjective = _maybe(rng, ADJECTIVES, 0.5)
    german: Words = [(articles[noun.gender], number)]
    english: Words = [("the", number)]
    if adjective:
        german.append((adjective + ending, number + 1))
        english.append((ADJECTIVES[adjective], number + 1))
    return [*german, (noun.word, number + 2)], [*english, (noun.english, number + 2)]


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _maybe(rng: np.random.Generator, values: dict[str, str], share: float) -> str:
    """Draw one of the keys, or nothing, which is an empty text."""
    return _one(rng, tuple(values)) if rng.random() < share else ""
