"""Bags: their labels follow from their instances, each is drawn from its number alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from omegamax.data import MNIST, Bag, DataError, MILBenchmark, MNISTBags, collate_bags, folds

from .test_mnist import write_digits


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder, 200, labels=torch.arange(200) % 10)
    return MNIST(folder)


@pytest.mark.parametrize("positives", [1, 2, 3, 5])
def test_label_says_whether_at_least_k_are_of_the_class(digits, positives):
    found = []
    for bag in (MNISTBags(digits, 60, positives)[i] for i in range(60)):
        flat = digits.images.flatten(1).float() / 255
        classes = [int(digits.labels[(flat == image.flatten()).all(1)][0]) for image in bag.instances]
        inside = torch.tensor(classes) == 9
        assert torch.equal(inside, bag.positive)
        assert bag.label == int(inside.sum() >= positives)
        found.append(bag.label)
    assert sum(found) == 30


def test_bags_depend_on_seed_and_index_alone(digits):
    first, again, other = (MNISTBags(digits, 10, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first[7].instances, again[7].instances) and torch.equal(first[-3].instances, first[7].instances)
    assert not all(torch.equal(first[i].instances, other[i].instances) for i in range(10))


@pytest.mark.parametrize("positives", [1, 3])
def test_table_has_every_bag(digits, positives):
    bags = MNISTBags(digits, 12, positives, seed=2)
    table = bags.table()
    for number, (members, mask, positive) in enumerate(zip(table.members, table.mask, table.positive, strict=True)):
        bag = bags[number]
        assert torch.equal(table.instances[members[mask]], (255 * bag.instances[:, 0]).round().to(torch.uint8))
        assert torch.equal(positive[mask], bag.positive) and not positive[~mask].any()
        assert int(table.label[number]) == bag.label


def test_sizes_have_the_mean_and_deviation_asked_for(digits):
    sizes = torch.tensor([len(MNISTBags(digits, 400, mean=20, deviation=3)[i].instances) for i in range(400)]).float()
    assert abs(sizes.mean() - 19.5) < 0.6 and abs(sizes.std() - 3) < 0.4  # rounded down
    by_default = torch.tensor([len(MNISTBags(digits, 400, 5)[i].instances) for i in range(400)]).float()
    assert abs(by_default.mean() - 13.6) < 0.8 and abs(by_default.std() - 4.9) < 0.6  # 14 ± 5, at least 5
    assert {len(MNISTBags(digits, 9, 5, mean=1, deviation=0)[i].instances) for i in range(9)} == {5}


def test_every_number_of_positives_occurs(digits):
    bags = MNISTBags(digits, 400, 3, mean=6, deviation=0)
    counts = {int(bags[i].positive.sum()) for i in range(400)}
    assert counts == set(range(7))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"size": 0}, "size"),
        ({"positives": 0}, "positives"),
        ({"mean": -1.0}, "mean"),
        ({"target": 11}, "target"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_make_no_sense_are_named(digits, changes, message):
    with pytest.raises(ValueError, match=f"MNISTBags: {message}"):
        MNISTBags(digits, **{"size": 4, **changes})


def test_batch_pads_with_a_mask():
    positive = torch.tensor([True, False, True])
    bags = [Bag(torch.randn(3, 2), 1, positive), Bag(torch.randn(1, 2), 0, torch.tensor([False]))]
    batch = collate_bags(bags)
    assert batch["mask"].tolist() == [[True] * 3, [True, False, False]] and batch["label"].tolist() == [1.0, 0.0]
    assert torch.equal(batch["instances"][0], bags[0].instances) and not batch["instances"][1, 1:].any()
    assert batch["positive"].tolist() == [[True, False, True], [False] * 3]
    assert "positive" not in collate_bags([bags[0], Bag(torch.randn(1, 2), 0)])


def save(path, **changes):
    rng = np.random.default_rng(0)
    content = {
        "features": rng.normal(3, 2, (7, 4)).astype(np.float32),
        "bag_ids": np.array([1, 1, 2, 2, 2, 3, 3], np.int16),
        "bag_labels": np.array([1, 0, 1], np.int8),
    }
    np.savez(path, **{**content, **changes})
    return content["features"]


def test_benchmark_is_read_and_scaled(tmp_path):
    features = save(tmp_path / "fox.npz")
    bags = MILBenchmark(tmp_path, "fox")
    assert [len(bags[i].instances) for i in range(3)] == [2, 3, 2] and [bags[i].label for i in range(3)] == [1, 0, 1]
    assert bags.dim == 4 and len(bags) == 3
    together = torch.cat([bags[i].instances for i in range(3)]).double()
    wanted = (features - features.mean(0, dtype=np.float64)) / features.std(0, dtype=np.float64)
    torch.testing.assert_close(together, torch.from_numpy(wanted), atol=1e-6, rtol=1e-6)


def test_table_of_a_benchmark_has_every_bag(tmp_path):
    save(tmp_path / "fox.npz")
    bags = MILBenchmark(tmp_path, "fox")
    table = bags.table()
    assert table.label.tolist() == [1, 0, 1] and table.mask.sum(1).tolist() == [2, 3, 2] and table.positive is None
    for number in range(3):
        found = table.instances[table.members[number][table.mask[number]]]
        assert torch.equal(found, bags[number].instances)


def test_constant_feature_does_not_divide_by_zero(tmp_path):
    save(tmp_path / "fox.npz", features=np.ones((7, 4), np.float32))
    assert not MILBenchmark(tmp_path, "fox")[0].instances.any()


@pytest.mark.parametrize(
    "changes",
    [
        {"features": np.ones(7, np.float32)},
        {"bag_labels": np.array([1, 2, 0])},
        {"bag_ids": np.array([1, 1, 2, 2, 2, 4, 4])},
    ],
)
def test_benchmark_of_another_form_is_refused_by_name(tmp_path, changes):
    save(tmp_path / "fox.npz", **changes)
    with pytest.raises(DataError, match=r"fox\.npz"):
        MILBenchmark(tmp_path, "fox")


def test_folds_are_disjoint_and_balanced():
    labels = torch.tensor([0] * 33 + [1] * 28)
    parts = folds(labels, 10, seed=3)
    assert sorted(torch.cat(parts).tolist()) == list(range(61))
    assert {len(part) for part in parts} == {6, 7}
    assert {int(labels[part].sum()) for part in parts} <= {2, 3}
    assert [p.tolist() for p in folds(labels, 10, seed=3)] == [p.tolist() for p in parts]
    assert [p.tolist() for p in folds(labels, 10, seed=4)] != [p.tolist() for p in parts]
    with pytest.raises(ValueError, match="count"):
        folds(labels, 1)


@pytest.mark.skipif("OMEGAMAX_DATA" not in os.environ, reason="reads real sets from the folder OMEGAMAX_DATA")
def test_real_sets_have_their_known_counts():
    root = Path(os.environ["OMEGAMAX_DATA"])
    assert (len(MNIST(root / "mnist")), len(MNIST(root / "mnist", "test"))) == (60000, 10000)
    for name, bags, dim in (("fox", 200, 230), ("tiger", 200, 230), ("elephant", 200, 230), ("musk1", 92, 166)):
        read = MILBenchmark(root / "mil", name)
        assert (len(read), read.dim) == (bags, dim)
