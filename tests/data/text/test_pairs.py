"""Generated pairs of sentences: the class follows from the words that belong together."""

import pytest

from omegamax.data.text import SentencePairs
from omegamax.data.text.pairs import SLOTS

COVERED = {word: general for slot in SLOTS.values() for general, words in slot.items() for word in words}


def judge(pairs, index):
    """Tell the class from aligned words alone."""
    pair = pairs[index]
    aligned = [(pair.words[i], pair.second[j]) for i, j in pairs.align(index)]
    relations = set()
    for one, other in aligned:
        if other in (one, COVERED.get(one)):
            relations.add("entailment")
        else:
            relations.add("neutral" if COVERED.get(other) == one else "contradiction")
    return next(each for each in pairs.labels if each in relations)


def test_the_class_is_that_of_the_aligned_words():
    pairs = SentencePairs(300, seed=4)
    assert [judge(pairs, index) for index in range(300)] == [pair.label for pair in pairs]
    labels = [pair.label for pair in pairs]
    assert [labels.count(each) for each in SentencePairs.labels] == [100, 100, 100]


def test_words_that_belong_together_are_of_one_slot_and_not_always_in_order():
    pairs = SentencePairs(60)
    for index, pair in enumerate(pairs):
        for (i, j), groups in zip(pairs.align(index), SLOTS.values(), strict=True):
            known = {*groups, *(word for words in groups.values() for word in words)}
            assert pair.words[i] in known and pair.second[j] in known
    ordered = [sorted(pairs.align(index)) for index in range(60)]
    crossed = [each for each in ordered if [j for _, j in each] != sorted(j for _, j in each)]
    assert 10 < len(crossed) < 50


def test_pairs_are_a_function_of_seed_split_and_index():
    assert list(SentencePairs(5)) == list(SentencePairs(9))[:5] and SentencePairs(5)[-1] == SentencePairs(5)[4]
    words = [[pair.words for pair in pairs] for pairs in (SentencePairs(20), SentencePairs(20, "test"))]
    assert words[0] != words[1] and words[0] != [pair.words for pair in SentencePairs(20, seed=1)]
    assert len({pair.id for split in ("train", "val", "test") for pair in SentencePairs(4, split)}) == 12
    with pytest.raises(IndexError):
        SentencePairs(3)[3]
    with pytest.raises(ValueError, match="SentencePairs: size must be"):
        SentencePairs(-1)
