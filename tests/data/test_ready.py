"""Splits kept in memory, against what the loader makes of them each time."""

import pytest
import torch
from torch.utils.data import DataLoader

from omegamax.data import Collate, Ready, Sample, Scenes, Vocabulary
from omegamax.models import GridCNN

VOCABULARY = Vocabulary(["what", "is", "it", "here"], ["yes", "no"])


def sample(number, grid=None, question="what is it", relevance=True, image=None):
    maps = torch.zeros(4, 4) if relevance else None
    if relevance:
        maps[number % 4, 0] = 1
    features = None if grid is None else torch.full((*grid, 3), float(number))
    return Sample(question, {"yes": 1.0}, "yes/no", f"s{number}", features=features, image=image, relevance=maps)


def same(one, other):
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else value == other[key], key


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_batches_are_those_of_the_loader(chunk):
    scenes = Scenes(7, image_size=32, questions=["exists", "count_shape", "shape_beside"])
    collate = Collate(scenes.vocabulary, grid=(4, 4), length=20)
    ready = Ready.of(scenes, collate, chunk=chunk)
    whole = collate([scenes[i] for i in range(7)])
    same(ready.__getitems__(range(7)), whole)
    assert len(ready) == 7 and ready.batch["image"].dtype == torch.uint8  # a quarter of the space
    some = ready.__getitems__([5, 0])
    assert torch.equal(some["image"], whole["image"][[5, 0]]) and some["id"] == [whole["id"][5], whole["id"][0]]
    same(ready[-1], ready.__getitems__([6]))
    with pytest.raises(IndexError):
        ready[7]
    batches = list(DataLoader(ready, 3, collate_fn=Ready.collate))
    assert torch.equal(torch.cat([batch["question"] for batch in batches]), whole["question"])


def test_images_that_are_no_bytes_stay_as_they_are():
    samples = [sample(i, image=torch.rand(3, 4, 4)) for i in range(2)]
    ready = Ready.of(samples, Collate(VOCABULARY, grid=(2, 2)))
    assert ready.batch["image"].dtype == torch.float32
    assert torch.equal(ready.__getitems__([1])["image"][0], samples[1].image)


def test_bytes_and_finer_images_are_joined_as_what_they_show():
    samples = [
        sample(0, image=torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1).expand(3, 4, 4)),
        sample(1, image=torch.rand(3, 4, 4)),
    ]
    collate = Collate(VOCABULARY, grid=(2, 2))
    same(Ready.of(samples, collate, chunk=1).__getitems__(range(2)), collate(samples))


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_grids_of_all_sizes_are_joined(chunk):
    samples = [sample(0, (2, 3)), sample(1, (4, 1), "what is it here"), sample(2, (1, 1)), sample(3, (3, 3))]
    collate = Collate(VOCABULARY)
    same(Ready.of(samples, collate, chunk=chunk).__getitems__(range(4)), collate(samples))


def test_chunks_without_maps_have_empty_ones_beside_others():
    samples = [sample(0, (2, 2), relevance=False), sample(1, (2, 2))]
    joined = Ready.of(samples, Collate(VOCABULARY), chunk=1).batch
    assert not joined["relevance"][0].any() and joined["relevance"][1].sum() == 1
    assert "relevance" not in Ready.of(samples[:1], Collate(VOCABULARY)).batch


def test_features_replace_images():
    scenes = Scenes(5, image_size=32)
    ready = Ready.of(scenes, Collate(scenes.vocabulary, grid=(2, 2)))
    cnn = GridCNN(6, (2, 2))
    made = ready.featurise(cnn, chunk=2)
    batch, wanted = made.__getitems__([4, 1]), ready.__getitems__([4, 1])
    assert "image" not in batch and batch["grid"] == (2, 2) and not batch["features"].requires_grad
    torch.testing.assert_close(batch["features"], cnn(wanted["image"]).detach(), rtol=1e-5, atol=1e-6)
    assert batch["id"] == wanted["id"] and "image" in ready.batch  # the first is as it was


def test_progress_is_reported_for_each_chunk():
    seen = []

    def count(batches):
        for batch in batches:
            seen.append(len(batch["question"]))
            yield batch

    Ready.of([sample(i, (1, 1)) for i in range(5)], Collate(VOCABULARY), chunk=2, progress=count)
    assert seen == [2, 2, 1]
