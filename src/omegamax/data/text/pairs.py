"""The embedded set of pairs: two short sentences, does one follow from the other, and which words belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from omegamax.data.corpus import SPLITS, DrawnCorpus
from omegamax.data.text.sample import TextSample
from omegamax.data.text.sick import SICK
from omegamax.data.text.texts import Texts

Words = Mapping[str, str]  # the word in each slot of a sentence

# In each slot, general words and the particular ones that they cover.
SLOTS: dict[str, dict[str, tuple[str, ...]]] = {
    "who": {"animal": ("dog", "cat", "horse", "rabbit"), "person": ("boy", "woman", "singer", "farmer")},
    "doing": {"moving": ("running", "walking", "jumping"), "resting": ("sleeping", "sitting", "lying")},
    "place": {"building": ("kitchen", "church", "school"), "landscape": ("forest", "meadow", "desert")},
}
# Only of the first sentence: what is left out still follows.
ADJECTIVES = ("", "old", "young", "tired", "happy")


class SentencePairs(DrawnCorpus[TextSample], Texts):
    """Pairs from a grammar: who does what in which place, in particular or general words, the place first or last.

    The second sentence follows if each of its words is that of the first or a more general one (*dog*, *animal*); it
    contradicts the first if one word is another particular one (*dog*, *cat*); and it is neutral if one is more
    particular (*animal*, *dog*). One pair of words tells the class, and the two of it may be far apart.

    Sample ``i`` is a function of (seed, split, i) alone, the same in any process; a third of the samples are of each
    class, which are those of :class:`SICK`.

    Args:
        size: number of samples.
        split: ``"train"``, ``"val"`` or ``"test"``, which draw from streams of their own.
        seed: an integer >= 0.

    >>> pairs = SentencePairs(6)
    >>> pair = pairs[5]
    >>> " ".join(pair.words), " ".join(pair.second), pair.label
    ('in the building the tired person is lying', 'the person is resting in the building', 'entailment')
    >>> [(pair.words[i], pair.second[j]) for i, j in pairs.align(5)]
    [('person', 'person'), ('lying', 'resting'), ('building', 'building')]
    """

    labels = SICK.labels

    def __getitem__(self, index: int) -> TextSample:
        index = range(self.size)[index]
        (first, _), (second, _) = self._make(index)
        name = f"pairs-{self.seed}-{self.split}-{index}"
        return TextSample(tuple(first), self.labels[index % 3], name, second=tuple(second))

    def align(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return the positions of words that belong together, in the first and in the second sentence of a pair."""
        (_, places), (_, others) = self._make(range(self.size)[index])
        return tuple((places[slot], others[slot]) for slot in SLOTS)

    def _make(self, index: int) -> tuple[tuple[list[str], dict[str, int]], tuple[list[str], dict[str, int]]]:
        """Return the words of both sentences, and where the slots are in each."""
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), index))
        label = self.labels[index % 3]
        telling = _one(rng, tuple(SLOTS))
        first, second = {}, {}
        for slot in SLOTS:
            relation = label if slot == telling else "entailment"
            first[slot], second[slot] = _relate(rng, slot, relation)
        return _write(rng, first, _one(rng, ADJECTIVES)), _write(rng, second)


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _relate(rng: np.random.Generator, slot: str, relation: str) -> tuple[str, str]:
    """Return two words of a slot, of which the second stands in the relation to the first."""
    general = _one(rng, tuple(SLOTS[slot]))
    particular = _one(rng, SLOTS[slot][general])
    if relation == "neutral":
        return general, particular
    if relation == "contradiction":
        others = [word for words in SLOTS[slot].values() for word in words if word != particular]
        return particular, _one(rng, others)
    first = _one(rng, (general, particular))
    return first, _one(rng, (general, first))


def _write(rng: np.random.Generator, words: Words, adjective: str = "") -> tuple[list[str], dict[str, int]]:
    """Return a sentence with these words, and the position of each slot."""
    place = ["in", "the", words["place"]]
    rest = ["the", *adjective.split(), words["who"], "is", words["doing"]]
    sentence = [*place, *rest] if rng.random() < 0.5 else [*rest, *place]
    return sentence, {slot: sentence.index(word) for slot, word in words.items()}
