"""Subwords give the text back, and nothing in a text passes for a special token."""

import pytest
import torch

from omegamax.data import DataError
from omegamax.data.translation import (
    EOS,
    UNK,
    PackedPairs,
    PairVocabulary,
    PairWarning,
    SentencePair,
    Subwords,
    TextForm,
    TinyPairs,
    collate_pairs,
)

PAIRS = list(TinyPairs(200))


def test_text_comes_back_from_its_subwords():
    texts = ["Ein Hund, der läuft - schnell!", "„Wie?“ fragt (er)", "a.b,c 3.14"]
    subwords = Subwords.learn(texts, size=100)
    for text in texts:
        assert subwords.decode([*subwords.encode(text), EOS]) == text


@pytest.mark.parametrize("run", ["x", " ", "\n"])
def test_long_runs_are_learnt_from_in_parts(run):
    """The whole of them would take a time that grows with the square of their length."""
    text = f"a {5000 * run} b"
    subwords = Subwords.learn([text], "bytes", size=300)
    assert 1024 <= max(map(len, subwords.tokens)) <= 1025  # with the blank before a word
    assert subwords.decode(subwords.encode(text)) == text
    assert Subwords.learn([text.strip()], "words").tokens[4:] == tuple(sorted(text.split()))


def test_learning_is_deterministic_and_joint_or_not():
    joint = PairVocabulary.learn(PAIRS, size=150)
    assert joint == PairVocabulary.learn(PAIRS, size=150) and joint.source is joint.target and len(joint.source) <= 150
    apart = PairVocabulary.learn(PAIRS, size=150, joint=False)
    assert apart != joint and apart.source != apart.target
    for vocabulary in (joint, apart, PairVocabulary.learn(PAIRS, kind="words")):
        assert PairVocabulary.from_dict(vocabulary.to_dict()) == vocabulary


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_text_cannot_spell_a_special_token(kind):
    subwords = Subwords.learn(["ein hund </s> bellt <pad>"], kind=kind, size=60)
    assert min(subwords.encode("</s> <pad> <s> ein")) >= UNK
    assert subwords.encode("日本") and set(subwords.encode("日本")) <= {UNK, *range(4, len(subwords))}
    assert subwords.encode("") == []


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": ["a"], "merges": None},
        {"tokens": ["<pad>", "<s>", "</s>", "<unk>", "a", "a"], "merges": None},
        {"tokens": ["<pad>", "<s>", "</s>", "<unk>", "a"], "merges": [["a", "b"]]},
        {"tokens": ["<pad>", "<s>", "</s>", "<unk>", 7], "merges": None},
    ],
)
def test_record_that_is_none_is_refused(record):
    with pytest.raises(ValueError, match="Subwords"):
        Subwords.from_dict(record)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(DataError, match="no text"):
        Subwords.learn([" ", ""])


def test_form_is_stated():
    assert TextForm(True, "NFKC", True).label == "lower-cased, NFKC, plain punctuation"
    assert TextForm(False, "none").label == "cased"
    assert TextForm(normalise="NFKC")("ﬁn\u00a0 e") == "fin e" and TextForm(normalise="none")("ﬁn") == "ﬁn"


def test_training_leaves_out_what_is_empty_or_long_and_a_test_does_not():
    pairs = [SentencePair("ein hund", "a dog", "1"), SentencePair("", "a", "2"), SentencePair("ein " * 9, "a", "3")]
    vocabulary = PairVocabulary.learn(pairs, kind="words")
    with pytest.warns(PairWarning) as said:
        kept = PackedPairs(pairs, vocabulary, 5, training=True)
    assert len(kept) == 1 and {str(w.message).split(":")[1][:2] for w in said} == {" 1"}
    with pytest.warns(PairWarning):
        every = PackedPairs(pairs, vocabulary, 5)
    batch = collate_pairs([every[i] for i in range(3)])
    assert batch["source"].shape == (3, 5) and batch["id"] == ["1", "2", "3"] and batch["reference"][0] == "a dog"
    assert batch["source"][1].tolist() == [EOS, 0, 0, 0, 0] and int(batch["source"][2, -1]) == EOS
    assert torch.equal(every.lengths, torch.tensor([3, 2, 5]))


def test_pairs_that_cannot_be_told_apart_are_refused():
    pairs = [SentencePair("a", "b", "1"), SentencePair("b", "a", "1")]
    with pytest.raises(DataError, match="same id"):
        PackedPairs(pairs, PairVocabulary.learn(pairs, kind="words"))
