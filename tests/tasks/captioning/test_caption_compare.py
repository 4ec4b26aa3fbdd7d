"""Captions of several networks: numbers by hand, photographs that are picked, and what cannot be compared."""

import base64

import pytest
import torch

from omegamax.data import DataError
from omegamax.metrics import jensen_shannon, rep_score, zero_area
from omegamax.tasks.captioning.compare import (
    DIFFER,
    REPEATS,
    CaptionRun,
    compare,
    describe_tokeniser,
    measure_captions,
    pick_images,
)
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions

REFERENCES = ("a dog runs on the grass", "the dog is running")


def make_maps(count, seed, size=(2, 3)):
    weights = torch.rand(count, *size, generator=torch.Generator().manual_seed(seed))
    weights = weights.where(weights > 0.4, 0)
    weights[:, 0, 0] += 0.1
    return weights / weights.sum((-2, -1), keepdim=True)


def prediction(image, text, seed=0, references=REFERENCES, maps=True):
    words = tuple(text.split())
    return CaptionPrediction(image, text, words, -1.0, references, make_maps(len(words), seed) if maps else None)


def runs():
    texts = {
        "softmax": ["a dog runs", "a dog a dog a dog", "a man", "the dog runs on the grass"],
        "tvmax": ["a dog runs", "a dog runs", "two red cars", "a dog is running"],
    }
    made = {}
    for place, (name, some) in enumerate(texts.items()):
        found = CaptionPredictions(prediction(f"{i}.jpg", text, 10 * place + i) for i, text in enumerate(some))
        made[name] = CaptionRun(found, name, 100, 50.0, [{"step": 1, "val_bleu4": 0.1}])
    return made


def read(image):
    return torch.zeros(3, 30, 40, dtype=torch.uint8)


def test_numbers_are_those_of_the_metrics():
    some = runs()["softmax"].predictions
    found = measure_captions(some, {"0.jpg": ["dog", "person"], "2.jpg": ["person"]})
    tokens = [each.tokens for each in some]
    split = [[text.split() for text in REFERENCES]] * len(tokens)
    assert found["rep"] == pytest.approx(float(rep_score(tokens, split)), abs=1e-9)
    assert found["objects"] == pytest.approx(2 / 3)
    assert found["words"] == pytest.approx(sum(map(len, tokens)) / 4)
    maps = [each.maps for each in some]
    assert found["zero"] == pytest.approx(float(torch.cat([zero_area(m, dim=(-2, -1)) for m in maps]).double().mean()))
    between = torch.cat([jensen_shannon(m[:-1], m[1:], dim=(-2, -1)) for m in maps])
    assert found["js"] == pytest.approx(float(between.double().mean()))
    assert 0 < found["BLEU-4"] < found["BLEU-1"] < 1  # with pycocoevalcap or without


def test_comparison_has_rows_photographs_and_says_how_words_were_cut():
    made = compare(runs(), read, objects={"1.jpg": ["dog"]}, examples=2, themed=1, settings={"part": "test"})
    assert [(row.name, row.parameters, row.scores["rate"]) for row in made.rows] == [
        ("softmax", 100, 50),
        ("tvmax", 100, 50),
    ]
    assert made.settings == {"part": "test", "tokeniser": describe_tokeniser()}
    assert len({example.id for example in made.examples}) == len(made.examples) >= 3
    look = made.examples[0].looks["tvmax"]
    zeros = [level == 0 for level in base64.b64decode(look.maps[0])]
    assert zeros == (runs()["tvmax"].predictions[made.examples[0].id].maps[0] == 0).flatten().tolist()
    assert look.log_probability == -1 and look.size == (2, 3) and made.examples[0].references == list(REFERENCES)
    assert compare(runs(), read, examples=0).examples == []


def test_photographs_are_picked_for_repetitions_and_differences():
    predictions = {name: run.predictions for name, run in runs().items()}
    assert pick_images(predictions, 1, []) == {"1.jpg": REPEATS, "2.jpg": DIFFER}
    assert pick_images(predictions, 1, ["1.jpg", "2.jpg"]) == {"3.jpg": DIFFER}
    assert pick_images(predictions, 0, []) == {}


def test_captions_without_references_or_maps_are_shown_all_the_same():
    bare = CaptionPredictions(
        [prediction("0.jpg", "a dog runs", references=(), maps=False), prediction("1.jpg", "", 1, ())]
    )
    made = compare({"mine": CaptionRun(bare, "softmax")}, read, examples=2)
    assert made.missing == {} and "tokeniser" not in made.settings
    looks = {example.id: example.looks["mine"] for example in made.examples}
    assert looks["0.jpg"].maps == [] and looks["0.jpg"].rep is None and looks["1.jpg"].words == []
    assert "BLEU-4" not in made.rows[0].scores


def test_captions_of_different_photographs_are_refused():
    some = runs()
    fewer = CaptionRun(some["tvmax"].predictions[:3], "tvmax")
    with pytest.raises(DataError, match=r"tvmax has captions of 3 photographs, softmax of 4; 3\.jpg is of one alone"):
        compare({**some, "tvmax": fewer}, read)
    with pytest.raises(DataError, match="mine has no caption"):
        compare({"mine": CaptionRun(CaptionPredictions([]), "softmax")}, read)
    with pytest.raises(ValueError, match="compare: runs must have a network"):
        compare({}, read)
