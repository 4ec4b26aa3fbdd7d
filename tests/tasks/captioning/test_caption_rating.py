"""Captions as a survey: those of all networks, of words that say something, drawn by the seed."""

import pytest
import torch

from omegamax.data import DataError
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions
from omegamax.tasks.captioning.rating import survey_captions

WORDS = ("a", "dog", "is", "running")


def predictions(images, words=WORDS, maps=True):
    made = torch.arange(1.0, 4 * len(words) + 1).reshape(len(words), 2, 2) if maps else None
    return CaptionPredictions(CaptionPrediction(image, " ".join(words), words, maps=made) for image in images)


def read(image):
    return torch.full((3, 4, 6), int(image.removesuffix(".jpg")), dtype=torch.uint8)


def names(count, start=0):
    return [f"{index}.jpg" for index in range(start, start + count)]


def test_words_that_say_something_are_rated_each_with_its_map():
    runs = {"one": predictions(names(9)), "two": predictions(names(9, 3), ("the",))}
    survey = survey_captions(runs, read, 4)
    assert survey.kind == "captions" and survey.key.networks == ("one", "two") and len(survey.pictures) == 4
    for picture in survey.pictures:
        assert picture.id in names(6, 3) and picture.image[0, 0, 0] == int(picture.id.removesuffix(".jpg"))
        assert picture.looks["one"].words == WORDS and picture.looks["one"].rated == (1, 3)
        assert torch.equal(picture.looks["one"].maps, runs["one"][picture.id].maps[[1, 3]])
        assert picture.looks["two"].rated == () and picture.looks["two"].maps.shape == (0, 2, 2)


def test_seed_draws_and_all_are_taken_where_there_are_few():
    runs = {"one": predictions(names(30))}
    drawn = [{p.id for p in survey_captions(runs, read, 8, seed).pictures} for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 8
    assert len(survey_captions(runs, read, 100).pictures) == 30


def test_captions_without_maps_or_of_other_photographs_are_refused():
    with pytest.raises(DataError, match=r"two has no maps of \d\.jpg; write them with `omegamax caption predict`"):
        survey_captions({"one": predictions(names(3)), "two": predictions(names(3), maps=False)}, read, 2)
    with pytest.raises(DataError, match="one, two have no photograph in common"):
        survey_captions({"one": predictions(names(3)), "two": predictions(names(3, 5))}, read, 2)
    with pytest.raises(ValueError, match="survey_captions: runs must have"):
        survey_captions({}, read, 2)
    empty = CaptionPredictions([CaptionPrediction("1.jpg", "", ())])
    assert survey_captions({"one": empty}, read, 2).pictures[0].looks["one"].rated == ()
