"""Sets of bags: splits that share nothing, the same from the same settings."""

from __future__ import annotations

import json

import pytest
import torch
from tests.tasks.mil.sets import write_benchmark, write_digits

from omegamax.tasks.mil import BagsData, MILBenchmarkData, MNISTBagsData
from omegamax.tasks.mil.data import fold_parts


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    return write_benchmark(tmp_path_factory.mktemp("benchmark"))


def pictures(data, split):
    return {tuple(image.flatten().tolist()) for each in data.split(split) for image in each.bag.instances}


def test_no_digit_is_in_bags_of_two_splits(digits):
    data = MNISTBagsData(digits, 2, bags=(20, 10, 10), held_out=40)
    seen = [pictures(data, split) for split in ("train", "val", "test")]
    assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]
    assert [len(data.split(split)) for split in ("train", "val", "test")] == [20, 10, 10]


def test_seed_of_bags_changes_those_for_training_alone(digits):
    one, other = (MNISTBagsData(digits, bags=(8, 8, 8), held_out=40, bag_seed=seed) for seed in (0, 1))
    assert not torch.equal(one.split("train")[0].bag.instances, other.split("train")[0].bag.instances)
    for split in ("val", "test"):
        assert torch.equal(one.split(split)[0].bag.instances, other.split(split)[0].bag.instances)


def test_batches_have_names_and_masks(digits):
    data = MNISTBagsData(digits, bags=(8, 4, 4), held_out=40, batch_size=4)
    batch = next(iter(data.val_dataloader()))
    assert batch["id"] == [f"val-1-{number}" for number in range(4)]
    assert batch["instances"].shape[2:] == (1, 28, 28) and batch["mask"].shape == batch["positive"].shape
    assert batch["label"].tolist() == [0.0, 1.0, 0.0, 1.0] and data.features is None


def test_folds_of_a_benchmark_cover_it_once(benchmark):
    sets = [MILBenchmarkData(benchmark, fold=fold, folds=4) for fold in range(4)]
    tested = [each.id for data in sets for each in data.split("test")]
    assert sorted(tested) == sorted(f"fox-{number}" for number in range(24))
    for data in sets:
        names = [{each.id for each in data.split(split)} for split in ("train", "val", "test")]
        assert len(set.union(*names)) == sum(map(len, names)) == 24 and data.features == 6


def test_folds_depend_on_their_seed():
    labels = torch.tensor([0, 1] * 20)
    one, other = (fold_parts(labels, 10, 0, seed) for seed in (0, 1))
    assert one["test"].tolist() != other["test"].tolist()
    assert one["val"].tolist() == fold_parts(labels, 10, 1, 0)["test"].tolist()


def test_settings_make_the_data_again(digits, benchmark):
    for data in (MNISTBagsData(digits, 3, bags=(4, 4, 4)), MILBenchmarkData(benchmark, fold=2, folds=5)):
        again = BagsData.of(json.loads(json.dumps(data.settings)), batch_size=3)
        assert type(again) is type(data) and {**again.settings, "batch_size": data.batch_size} == data.settings
    with pytest.raises(ValueError, match="class must be one of 'MNISTBagsData'"):
        BagsData.of({"class": "Other"})


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda d, b: MNISTBagsData(d, held_out=0).split("val"), "held_out must be an integer from 1 to 119"),
        (lambda d, b: MNISTBagsData(d, held_out=120).split("train"), "held_out"),
        (lambda d, b: MNISTBagsData(d, batch_size=0), "batch_size"),
        (lambda d, b: MNISTBagsData(d).split("all"), "split must be one of"),
        (lambda d, b: MILBenchmarkData(b, fold=10), "fold must be 0 <= fold < folds"),
        (lambda d, b: MILBenchmarkData(b, folds=2), "folds at least 3"),
        (lambda d, b: MILBenchmarkData(b, "ox").split("test"), "name must be one of"),
    ],
)
def test_settings_that_make_no_sense_are_named(digits, benchmark, make, said):
    with pytest.raises(ValueError, match=said):
        make(digits, benchmark)
