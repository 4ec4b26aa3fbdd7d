"""Games: fair, distinct, the same each time."""

from __future__ import annotations

import pytest
import torch
from tests.tasks.communication.pictures import bright_spots

from omegamax.data import DataError
from omegamax.tasks.communication import CommunicationData, ConceptOrder, Games, draw_concept_games, draw_games


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("count, candidates", [(2, 2), (16, 16), (17, 16), (40, 5), (3000, 16)])
def test_candidates_are_distinct_and_the_right_one_is_among_them(count, candidates):
    pictures, target = draw_games(count, candidates, seeded())
    assert pictures.shape == (count, candidates) and pictures.min() >= 0 and pictures.max() < count
    assert bool((pictures.sort(1).values.diff(dim=1) > 0).all())
    assert torch.equal(pictures.gather(1, target[:, None]).flatten(), torch.arange(count))


def test_all_sets_of_other_pictures_and_all_indices_are_equally_likely():
    generator, rounds = seeded(3), 4000
    drawn = [draw_games(5, 3, generator) for _ in range(rounds)]
    pictures = torch.stack([each[0] for each in drawn])  # [rounds, 5, 3]
    for game in range(5):
        mask = torch.nn.functional.one_hot(pictures[:, game], 5).sum(1)
        mask[:, game] = 0
        sets = mask @ (2 ** torch.arange(5))
        _, count = sets.unique(return_counts=True)
        assert len(count) == 6
        assert float(((count - rounds / 6) ** 2 / (rounds / 6)).sum()) < 25  # chi square, 5 degrees: p = 1e-4
    targets = torch.stack([each[1] for each in drawn]).flatten().bincount()
    assert float(((targets - targets.sum() / 3) ** 2 / (targets.sum() / 3)).sum()) < 20


@pytest.mark.parametrize("candidates", [1, 6, 2.5])
def test_impossible_games_are_refused(candidates):
    with pytest.raises(ValueError, match="candidates must be an integer from 2 to 5"):
        draw_games(5, candidates)
    with pytest.raises(ValueError, match="candidates must be an integer from 2 to 5"):
        Games(torch.zeros(5, 2, dtype=torch.uint8), torch.zeros(5), candidates)


def pixels(count=30):
    return torch.arange(count, dtype=torch.uint8)[:, None, None].expand(count, 2, 2), torch.arange(count) % 3


@pytest.mark.parametrize("seed", [None, 4])
def test_batch_shows_the_picture_that_is_the_target(seed):
    images, labels = pixels()
    games = Games(images, labels, 4, seed, mean=0.5, deviation=0.25)
    own = [7, 3, 29, 11, 0]
    batch = games.batch(own)
    shown = batch["images"][batch["shown"]]
    torch.testing.assert_close(shown, ((images[own].flatten(1).float() / 255) - 0.5) / 0.25)
    chosen = batch["candidates"].gather(1, batch["target"][:, None]).flatten()
    assert torch.equal(chosen, batch["shown"])
    assert torch.equal(batch["label"], labels[own])
    rows = batch["images"][batch["candidates"]]  # distinct pictures, not only distinct indices
    assert all(len(row.unique(dim=0)) == 4 for row in rows)


def test_fixed_games_do_not_depend_on_the_batch():
    games = Games(*pixels(), 4, seed=1)
    whole = games.batch(range(30))
    for size in (1, 7):
        parts = [games.batch(list(range(30))[start : start + size]) for start in range(0, 30, size)]
        seen = torch.cat([part["images"][part["candidates"]] for part in parts])
        assert torch.equal(seen, whole["images"][whole["candidates"]])
        assert torch.equal(torch.cat([part["target"] for part in parts]), whole["target"])


def test_candidates_of_a_training_batch_are_of_the_batch():
    games = Games(*pixels(), 4)
    batch = games.batch([1, 5, 9, 13, 17])
    assert batch["images"].shape == (5, 4) and batch["candidates"].max() < 5
    again, other = games.batch([1, 5, 9, 13, 17]), games.batch([1, 5, 9, 17, 13])
    assert torch.equal(batch["candidates"], again["candidates"])
    assert not torch.equal(batch["candidates"], other["candidates"])


def test_splits_do_not_overlap_and_games_are_fixed(tmp_path):
    folder = str(bright_spots(tmp_path))
    one, two = (CommunicationData(folder, batch_size=32, held_out=80, seed=seed) for seed in (0, 1))
    train, val = one.split("train"), one.split("val")
    assert len(train) == 320 and len(val) == 80 and len(one.split("test")) == 100 and one.features == 16
    rows = {bytes(row) for row in train.images.numpy()}
    assert not rows & {bytes(row) for row in val.images.numpy()}
    for split in ("val", "test"):
        for a, b in zip(getattr(one, f"{split}_dataloader")(), getattr(two, f"{split}_dataloader")(), strict=True):
            assert all(torch.equal(a[key], b[key]) for key in a)
    first, second = next(iter(one.train_dataloader())), next(iter(two.train_dataloader()))
    assert not torch.equal(first["images"], second["images"])
    again = next(iter(CommunicationData(folder, batch_size=32, held_out=80).train_dataloader()))
    assert all(torch.equal(first[key], again[key]) for key in first)
    scaled = torch.cat([batch["images"] for batch in one.train_dataloader()])
    assert abs(float(scaled.mean())) < 1e-5 and abs(float(scaled.std()) - 1) < 1e-3


@pytest.mark.parametrize("held_out, batches", [(80, 10), (70, 10), (60, 11)])
def test_last_batch_is_left_out_if_too_small_for_a_game(tmp_path, held_out, batches):
    data = CommunicationData(str(bright_spots(tmp_path)), batch_size=32, held_out=held_out)
    sizes = [len(batch["target"]) for batch in data.train_dataloader()]
    assert len(sizes) == batches and min(sizes) >= 16


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"candidates": 1}, "candidates must be an integer >= 2, got 1"),
        ({"batch_size": 8}, "batch_size must be >= candidates = 16, got 8"),
        ({"held_out": 2.5}, "held_out must be an integer >= 2, got 2.5"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        CommunicationData("somewhere", **settings)


def test_too_few_pictures_are_refused(tmp_path):
    with pytest.raises(DataError, match="has 400 training pictures: too few for held_out=390"):
        CommunicationData(str(bright_spots(tmp_path)), batch_size=32, held_out=390).split("train")


def test_all_sets_of_concepts_and_all_pictures_of_each_are_equally_likely():
    concepts = torch.tensor([0, 2, 2, 5, 5, 5])  # numbers may be left out
    pictures, target = draw_concept_games(concepts, 6000, 2, seeded(1))
    assert bool((concepts[pictures[:, 0]] != concepts[pictures[:, 1]]).all())
    pairs = concepts[pictures].sort(1).values @ torch.tensor([10, 1])
    for _, count in zip(*pairs.unique(return_counts=True), strict=True):
        assert abs(int(count) - 2000) < 200  # 36 is a deviation
    for concept, size in ((2, 2), (5, 3)):
        drawn = pictures[concepts[pictures] == concept].bincount(minlength=6)[concepts == concept]
        assert bool(((drawn - drawn.sum() / size).abs() < 200).all())
    assert abs(int(target.sum()) - 3000) < 200


def test_batches_of_concepts_are_of_different_ones_and_go_on_where_they_stopped():
    concepts = torch.arange(60) % 12
    order = ConceptOrder(concepts, 8, seed=3)
    whole = list(order)
    assert len(whole) == len(order) == 7
    assert all(len(set(concepts[batch].tolist())) == 8 for batch in whole)
    order.first = 4
    assert list(order) == whole[4:]
    order.first = 0
    order.set_epoch(1)
    assert list(order) != whole
    with pytest.raises(ValueError, match="batch_size must be an integer from 1 to 12"):
        ConceptOrder(concepts, 13)


def test_data_with_concepts_plays_games_of_different_ones(tmp_path):
    folder = str(bright_spots(tmp_path))
    concepts = (torch.arange(400) % 40, torch.arange(100) % 40)
    data = CommunicationData(folder, candidates=8, batch_size=32, held_out=80, concepts=concepts)
    batches = list(data.train_dataloader())
    assert len(batches) == 10 and all(len(batch["images"]) == 32 for batch in batches)
    games = data.split("test")
    assert bool((concepts[1][games.games[0]].sort(1).values.diff(dim=1) > 0).all())
    with pytest.raises(ValueError, match="as many concepts as images"):
        CommunicationData(folder, batch_size=32, held_out=80, concepts=(concepts[0], concepts[0])).split("test")
