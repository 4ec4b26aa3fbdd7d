"""BPE dropout: ways to cut words, drawn by seed and epoch."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

pytest.importorskip("tokenizers")

from omegamax.data.translation import EOS, PackedPairs, PairVocabulary, SentencePair, SubwordDraws, Subwords
from omegamax.data.translation.draws import cut_word

TEXTS = ["ein hund läuft schnell .", "eine hündin läuft, ein hund bellt", "der hund hat die hündin gesehen ."]


def rows(drawn: tuple[torch.Tensor, torch.Tensor]) -> list[list[int]]:
    flat, ends = drawn
    return [flat[a:b].tolist() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def test_nothing_left_out_is_what_the_tokenizer_does():
    subwords = Subwords.learn(TEXTS, size=60)
    texts = [*TEXTS, "ein wal 鯨 läuft", "", "  "]
    drawn = rows(SubwordDraws(subwords, texts, 0.0).draw(5))
    assert drawn == [[*subwords.encode(text), EOS] for text in texts]


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_every_way_spells_the_text(dropout):
    subwords = Subwords.learn(TEXTS, size=60)
    draws = SubwordDraws(subwords, TEXTS, dropout)
    for epoch in range(3):
        for row, text in zip(rows(draws.draw(epoch)), TEXTS, strict=True):
            assert row[-1] == EOS and EOS not in row[:-1]
            assert subwords.decode(row) == subwords.decode(subwords.encode(text))


def test_draws_follow_seed_and_epoch():
    subwords = Subwords.learn(TEXTS, size=60)
    first, same, other = (SubwordDraws(subwords, TEXTS * 5, 0.5, seed) for seed in (1, 1, 2))
    assert rows(first.draw(3)) == rows(same.draw(3))
    assert rows(first.draw(3)) != rows(first.draw(4)) and rows(first.draw(3)) != rows(other.draw(3))


def test_cuts_occur_as_often_as_they_should():
    # abc with merges (a b), (ab c): all merged with (1 - p)^2, "ab c" with (1 - p) p, nothing with p.
    ranks, generator, p, count = {("a", "b"): 0, ("ab", "c"): 1}, random.Random(0), 0.3, 20_000
    found = Counter(" ".join(cut_word("abc", ranks, p, generator)) for _ in range(count))
    for cut, share in {"abc": (1 - p) ** 2, "ab c": (1 - p) * p, "a b c": p}.items():
        assert abs(found[cut] / count - share) < 4 * (share * (1 - share) / count) ** 0.5
    assert sum(found.values()) == count and len(found) == 3


def test_packed_pairs_are_cut_anew_and_keep_their_lengths():
    pairs = [SentencePair(text, text, str(number)) for number, text in enumerate(TEXTS)]
    vocabulary = PairVocabulary.learn(pairs, size=60)
    packed = PackedPairs(pairs, vocabulary, dropout=0.5)
    lengths, before = packed.lengths.clone(), [packed[i]["source"].tolist() for i in range(3)]
    packed.draw(1)
    assert [packed[i]["source"].tolist() for i in range(3)] != before
    assert torch.equal(packed.lengths, lengths)
    assert [vocabulary.decode(packed[i]["target"].tolist()) for i in range(3)] == TEXTS


def test_words_have_no_merges_to_leave_out():
    with pytest.raises(ValueError, match="leaves out merges"):
        SubwordDraws(Subwords.learn(TEXTS, kind="words"), TEXTS, 0.1)
