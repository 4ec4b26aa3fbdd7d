"""Captions in files: what is written is read again, and what is broken is refused."""

import json

import numpy as np
import pytest
import torch

from omegamax.data import DataError
from omegamax.tasks.captioning import CaptionPrediction, CaptionPredictions


def make(image="a.jpg", words=("a", "dog"), **settings):
    maps = torch.rand(len(words), 3, 4, generator=torch.Generator().manual_seed(0)).clamp(min=0.5) - 0.5
    return CaptionPrediction(image, " ".join(words), words, **{"log_probability": -2.5, "maps": maps, **settings})


def test_what_is_written_is_read(tmp_path):
    written = CaptionPredictions([make(references=("one dog", "a pup")), make("sub/b.jpg", ("grün",))])
    written.save(tmp_path / "run")
    read = CaptionPredictions.load(tmp_path / "run")
    assert read.images == ("a.jpg", "sub/b.jpg") and len(read) == 2 and "a.jpg" in read
    for a, b in zip(written, read, strict=True):
        assert a.to_dict() == b.to_dict()
        assert torch.equal(a.maps.half().float(), b.maps) and torch.equal(a.maps == 0, b.maps == 0)
    assert read["sub/b.jpg"] is read[1] and read[1:].images == ("sub/b.jpg",)


def test_nothing_positive_becomes_zero(tmp_path):
    maps = torch.tensor([[[1e-20, 0.0, 1.0]]])
    CaptionPredictions([make(words=("a",), maps=maps)]).save(tmp_path)
    read = CaptionPredictions.load(tmp_path)[0].maps
    assert (read > 0).tolist() == [[[True, False, True]]] and read.max() == 1
    assert np.load(tmp_path / "maps.npz")["a.jpg"].dtype == np.float16


def test_maps_of_before_do_not_stay(tmp_path):
    CaptionPredictions([make()]).save(tmp_path)
    CaptionPredictions([make(maps=None, log_probability=None)]).save(tmp_path)
    read = CaptionPredictions.load(tmp_path / "captions.jsonl")[0]
    assert read.maps is None and read.log_probability is None


def test_caption_without_words(tmp_path):
    CaptionPredictions([make(words=(), maps=torch.zeros(0, 3, 4))]).save(tmp_path)
    read = CaptionPredictions.load(tmp_path)[0]
    assert read.tokens == () and read.maps.shape == (0, 3, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": "a dog"}, "'tokens' must be list"),
        ({"tokens": ["a", 1]}, "list of texts"),
        ({"caption": None}, "'caption' must be str"),
        ({"image": 3}, "'image' must be str"),
        ({"log_probability": 0.5}, "at most 0"),
        ({"tokens": ["a"]}, r"shape \(1, h, w\)"),
    ],
)
def test_broken_line_is_refused(tmp_path, change, message):
    CaptionPredictions([make()]).save(tmp_path)
    path = tmp_path / "captions.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        CaptionPredictions.load(tmp_path)


def test_same_picture_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'a\.jpg' more than once"):
        CaptionPredictions([make(), make()])
    CaptionPredictions([make()]).save(tmp_path)
    path = tmp_path / "captions.jsonl"
    path.write_text(path.read_text() * 2)
    with pytest.raises(DataError, match="more than once"):
        CaptionPredictions.load(tmp_path)


def test_maps_of_another_length_and_missing_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a map for each word"):
        make(maps=torch.zeros(3, 3, 4))
    with pytest.raises(FileNotFoundError, match="caption predict"):
        CaptionPredictions.load(tmp_path)
