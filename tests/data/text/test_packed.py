"""The generator of reviews, and texts as numbers: in rows, in batches, and what is warned of."""

import warnings
from collections import Counter

import pytest
import torch

from omegamax.data import DataError
from omegamax.data.text import NO_LABEL, PackedTexts, Reviews, TextSample, TextWarning, collate_texts
from omegamax.data.text import collect_vocabulary as collect
from omegamax.data.text.reviews import ASPECTS, BAD, GOOD

DENIALS = {"not", "hardly", "far", "from", "nothing", "agree"}


def test_a_review_is_a_function_of_seed_split_and_index():
    reviews = Reviews(50, "val", seed=7)
    assert list(reviews) == [Reviews(1000, "val", seed=7)[i] for i in range(50)]
    assert list(reviews) != list(Reviews(50, "test", seed=7)) != list(Reviews(50, "test", seed=8))
    assert sum(each.label == "positive" for each in reviews) == 25
    assert reviews[-1] == reviews[49]
    with pytest.raises(IndexError):
        reviews[50]
    with pytest.raises(ValueError, match="fewest and the most"):
        Reviews(1, sentences=(4, 2))


def test_the_marked_words_tell_the_class_and_no_others_do():
    """The marks are the writer's opinions of the film: their polarity, turned by what denies it, is the class."""
    right, contrasts, denied = 0, 0, 0
    for review in Reviews(400, seed=1):
        wanted = 1 if review.label == "positive" else -1
        count = 0
        for sentence, marks in split_sentences(review):
            marked = [word for word, mark in zip(sentence, marks, strict=True) if mark]
            opinions = [word for word in marked if word in GOOD + BAD]
            assert len(opinions) <= 1 and set(marked) - set(opinions) <= DENIALS
            if opinions:  # the writer's, and of the film
                sign = (1 if opinions[0] in GOOD else -1) * (-1 if set(marked) & DENIALS else 1)
                said = " ".join(sentence)
                assert sign == wanted and any(f" {aspect} " in f" {said} " for aspect in ASPECTS)
                assert not any(said.startswith(other) for other in ("my ", "the paper", "we had", "with more"))
                contrasts += " , but " in said or " , although " in said
                denied += len(marked) > 1
            signs = [1 if word in GOOD else -1 for word in sentence if word in GOOD + BAD]
            count += sum(signs) * (-1 if set(sentence) & DENIALS else 1)
        right += (count * wanted > 0) + 0.5 * (count == 0)
    assert right < 0.75 * 400  # who counts the opinions of all words is often misled
    assert contrasts > 100 and denied > 200


def split_sentences(review):
    """Words and marks of each sentence."""
    begin = 0
    for place, word in enumerate(review.words):
        if word == ".":
            yield review.words[begin:place], review.marks[begin:place]
            begin = place + 1


def test_frequent_opinions_are_drawn_more_often():
    count = Counter(word for review in Reviews(300) for word in review.words)
    assert count[GOOD[0]] > 4 * count[GOOD[-1]] > 0 and count[BAD[0]] > 4 * count[BAD[-1]] > 0


def texts():
    return [
        TextSample.of("A good film.", "1", "a"),
        TextSample.of("bad", "0", "b"),
        TextSample.of("", None, "c"),
        TextSample.of("A good, good film, a good film", "1", "d"),
    ]


def test_rows_and_batches():
    vocabulary = collect(texts())
    with pytest.warns(TextWarning, match="1 of 4 texts have no words, and count as one unknown word") as caught:
        packed = PackedTexts(texts(), vocabulary)
    assert caught[0].filename == __file__  # the line of the user, and none of the package
    assert packed.lengths.tolist() == [4, 1, 1, 9] and len(packed) == 4 and not packed.pairs
    assert packed[2] == {"words": torch.tensor([1]), "label": NO_LABEL, "id": "c"}
    batch = collate_texts([packed[i] for i in (0, 2)])
    assert batch["words"].shape == (2, 4) and batch["words"][1].tolist() == [1, 0, 0, 0]
    assert batch["label"].tolist() == [1, NO_LABEL] and batch["id"] == ["a", "c"]
    assert packed[-1]["words"].tolist() == vocabulary.find_words(texts()[-1].words)


def test_long_texts_are_cut_off_with_a_warning():
    samples = [each for each in texts() if each.id in "ad"]
    with pytest.warns(TextWarning, match="train: 1 of 2 texts have more than 4 words, and are cut off there"):
        packed = PackedTexts(samples, collect(texts()), 4, "train")
    assert packed.lengths.tolist() == [4, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PackedTexts(samples, collect(texts()), 9)


def test_marks_and_pairs_go_along():
    samples = [
        TextSample(("a", "b", "c"), "1", "x", (0.0, 0.5, 1.0), ("b",)),
        TextSample(("b",), "0", "y", (1.0,), ("a", "c")),
    ]
    packed = PackedTexts(samples, collect(samples))
    batch = collate_texts([packed[0], packed[1]])
    assert batch["marks"].tolist() == [[0.0, 0.5, 1.0], [1.0, 0.0, 0.0]]
    assert batch["second"].shape == (2, 2) and packed.lengths.tolist() == [3, 2]


def test_what_cannot_be_packed_is_refused():
    vocabulary = collect(texts())
    with pytest.raises(DataError, match="val: there is no text"):
        PackedTexts([], vocabulary, what="val")
    with pytest.raises(DataError, match="two texts have the id 'a'"):
        PackedTexts([texts()[0]] * 2, vocabulary)
    with pytest.raises(DataError, match="is of the class 'x', of which no text to learn from is"):
        PackedTexts([TextSample.of("a", "x", "1")], vocabulary)
    mixed = [texts()[0], TextSample(("a",), "1", "z", (1.0,))]
    with pytest.raises(DataError, match="1 of 2 texts have marks; all must, or none"):
        PackedTexts(mixed, vocabulary)


def test_words_of_a_vocabulary():
    samples = [TextSample.of("US us Us film film", "1", "a"), TextSample.of("film gaffer", "0", "b")]
    assert collect(samples, least=2).words == ("film", "us")
    assert collect(samples, most=1).words == ("film",)
    cased = collect(samples, ["0", "1"], cased=True)
    assert cased.words == ("film", "US", "Us", "gaffer", "us")
    assert cased.find_words(["US", "FILM", "none"]) == [3, 2, 1]
