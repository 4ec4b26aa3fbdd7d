"""IBM model 1: its EM is the textbook's, and it finds the words of a language that it was made for."""

import itertools

import pytest
import torch

from omegamax.data import DataError
from omegamax.data.translation import Lexicon, PackedPairs, PairVocabulary, TinyPairs
from omegamax.data.translation.tiny import PARTICIPLES, PEOPLE, STATES, THINGS

PAIRS = [([4, 5], [6, 7]), ([4, 8], [6, 9]), ([5], [7, 7])]
CONTENT = {noun.english for noun in (*PEOPLE, *THINGS)} | set(PARTICIPLES.values()) | set(STATES.values())


def step_by_hand(t):
    """One step of EM, with dicts."""
    counts = dict.fromkeys(t, 0.0)
    for source, target in PAIRS:
        for e in target:
            total = sum(t[f, e] for f in (0, *source))
            for f in (0, *source):
                counts[f, e] += t[f, e] / total
    mass = {f: sum(c for (g, _), c in counts.items() if g == f) for f, _ in t}
    return {(f, e): c / mass[f] for (f, e), c in counts.items()}


@pytest.mark.parametrize("iterations", [1, 4])
def test_learning_is_em_by_hand(iterations):
    t = {(f, e): 1.0 for source, target in PAIRS for f in (0, *source) for e in target}
    for _ in range(iterations):
        t = step_by_hand(t)
    lexicon = Lexicon(PAIRS, 10, iterations)
    for f, e in itertools.product(range(10), range(10)):
        found = float(lexicon.probability(torch.tensor(f), torch.tensor(e)))
        assert found == pytest.approx(t.get((f, e), 0.0), abs=1e-12)


def test_words_of_the_embedded_pair_are_found():
    pairs = TinyPairs(800)
    vocabulary = PairVocabulary.learn(pairs, kind="words", joint=False)
    packed = PackedPairs(pairs, vocabulary)
    lexicon = Lexicon(packed.rows(), len(vocabulary.target), 8)
    nouns = {"hund": "dog", "ball": "ball", "gesehen": "seen", "heute": "today", "nicht": "not"}
    for german, english in nouns.items():
        (f,), (e,) = vocabulary.source.encode(german), vocabulary.target.encode(english)
        assert float(lexicon.probability(torch.tensor(f), torch.tensor(e))) > 0.8
    right = every = 0
    for pair, rows in zip(list(pairs)[:100], packed.rows(), strict=False):
        # Words that always occur together, or twice, are told apart by their places alone, which the model has not.
        found = [(i, j) for i, j in lexicon.align(*rows) if pair.target.split()[j] in CONTENT]
        right += len(set(found) & set(pair.alignment))
        every += len(found)
    assert right / every > 0.95 and every > 250
    table = lexicon.fertilities(itertools.islice(packed.rows(), 100), len(vocabulary.source), 9.0)
    assert table[0] == 9 and table[vocabulary.source.encode("hund")[0]] == 1


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(DataError, match="no pair of words"):
        Lexicon([([], []), ([4], [])], 5)
    assert Lexicon(PAIRS, 10).align([], [6]) == [] == Lexicon(PAIRS, 10).align([99], [8])
