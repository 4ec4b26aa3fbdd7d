"""Vocabulary, scenes with captions, and batches."""

import numpy as np
import pytest
import torch

from omegamax.data import DataError
from omegamax.data.captions import CaptionCollate, CaptionPairs, CaptionSample, CaptionVocabulary, SceneCaptions
from omegamax.data.captions.pairs import KeptPictures


def test_vocabulary_keeps_frequent_words(tmp_path):
    vocabulary = CaptionVocabulary.of([["b", "a"], ["a", "c"], ["b"], ["d"]], least=2)
    assert vocabulary.words == ("a", "b") and vocabulary.size == 6
    assert vocabulary.encode(["b", "x"]) == [2, 5, 1, 3]
    assert vocabulary.decode([2, 5, 1, 3, 4]) == ["b", "<unknown>"] and vocabulary.decode([0, 4]) == []
    vocabulary.save(tmp_path / "words.json")
    assert CaptionVocabulary.load(tmp_path / "words.json") == vocabulary
    (tmp_path / "words.json").write_text('{"words": ["a", "a"]}')
    with pytest.raises(DataError, match="more than once"):
        CaptionVocabulary.load(tmp_path / "words.json")
    with pytest.raises(ValueError, match="lower least"):
        CaptionVocabulary.of([["a"]], least=2)


def test_scenes_are_functions_of_their_number():
    one, two = SceneCaptions(50, seed=3, image_size=48, most=3), SceneCaptions(20, seed=3, image_size=48, most=3)
    for index in (0, 7):
        a, b = one[index], two[index]
        assert a.captions == b.captions and torch.equal(a.image, b.image) and torch.equal(a.masks, b.masks)
    assert one[0].captions != SceneCaptions(50, seed=4, image_size=48)[0].captions
    assert one[0].captions != SceneCaptions(50, seed=3, split="val", image_size=48)[0].captions
    with pytest.raises(IndexError, match="out of range"):
        one[50]
    with pytest.raises(ValueError, match="most must be an integer from 1 to 3"):
        SceneCaptions(5, most=4)


def test_captions_tell_what_is_in_the_scene():
    """Each caption names shape, colour and number of both groups, and the side is where the things are."""
    scenes = SceneCaptions(60, seed=5, image_size=48, most=3)
    names, words = {"a": 1, "an": 1, "the": 1, "two": 2, "three": 3}, set(scenes.words)
    for index in range(len(scenes)):
        told, sample = scenes.tell(index), scenes[index]
        for caption, mentions in zip(sample.captions, sample.mentions, strict=True):
            assert set(caption) <= words
            named = {}
            for word, about in zip(caption, mentions, strict=True):
                things = [told.scene.things[i] for i in about]
                if word in scenes.colours:
                    assert {thing.colour for thing in things} == {word}
                    named[about] = [word]
                elif word in names and word != "the":
                    assert len(about) == names[word]
            assert len(named) == 2
            first, second = (np.mean([(told.scene.things[i].y, told.scene.things[i].x) for i in g], 0) for g in named)
            text = " ".join(caption)
            if "above" in text or "below" in text:
                assert (first[0] < second[0]) == ("above" in text)
            else:
                assert (first[1] < second[1]) == ("left of" in text)
        assert sample.masks.shape == (len(told.scene.things), 48, 48)
        assert bool((sample.masks.sum(0) <= 1).all())


def test_batch_of_scenes():
    scenes = SceneCaptions(6, image_size=32)
    vocabulary = CaptionVocabulary(scenes.words)
    pairs = CaptionPairs(scenes, [5] * 6, every=True)
    assert len(pairs) == 30 and pairs[7][1] == 2 and pairs[7][0].id == "scenes-0-train-1"
    batch = CaptionCollate(vocabulary, (4, 4))([pairs[0], pairs[7]])
    assert batch["image"].shape == (2, 3, 32, 32) and batch["image"].max() <= 1
    for row, (sample, which) in enumerate((pairs[0], pairs[7])):
        words = sample.captions[which]
        assert vocabulary.decode(batch["caption"][row].tolist()) == list(words)
        assert batch["references"][row] == list(sample.references)
        for place in range(len(words)):
            region = sample.region(which, place)
            cells = region.float().view(4, 8, 4, 8).mean((1, 3))
            assert torch.allclose(batch["regions"][row, place], cells, atol=1e-6)
        assert not batch["regions"][row, len(words) :].any()


def test_captions_are_cut_and_features_stacked():
    features = torch.rand(2, 3, 5)
    sample = CaptionSample("a.jpg", (("a", "b", "c"), ("b",)), features=features)
    batch = CaptionCollate(CaptionVocabulary(["a", "b", "c"]), length=2)([(sample, 0), (sample, 1)])
    assert batch["caption"].tolist() == [[2, 4, 5], [2, 5, 3]]
    assert batch["features"].shape == (2, 6, 5) and batch["grid"] == (2, 3) and "regions" not in batch
    with pytest.raises(ValueError, match="no samples"):
        CaptionCollate(CaptionVocabulary(["a"]))([])
    with pytest.raises(ValueError, match="either image or features"):
        CaptionSample("a.jpg", (("a",),))


def test_kept_pictures_become_features():
    kept = KeptPictures(SceneCaptions(5, image_size=32))
    made = kept.replace_images(lambda images: images.float().mean((1, 2, 3)).view(-1, 1, 1, 1), chunk=2)
    assert len(made) == 5 and made[3].image is None and made[3].captions == kept[3].captions
    assert made[3].features.item() == pytest.approx(kept[3].image.float().mean().item(), rel=1e-5)
