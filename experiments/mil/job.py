"""Rows of the tables: networks with one pooling, trained on one set from several seeds, and measured.

What belongs together is trained side by side: the seeds of a row, the ten folds of a cross-validation, values of beta.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax.data import MNIST, BagTable, MILBenchmark
from omegamax.models.bag_classifier import BagClassifier, DigitEncoder, VectorEncoder
from omegamax.tasks.experiment import name_device
from omegamax.tasks.mil.copies import Copies, Measures, Training
from omegamax.tasks.mil.data import SPLITS, MNISTBagsData, fold_parts

HERE = Path(__file__).parent
KINDS: dict[str, tuple[str, dict[str, float]]] = {
    "softmax": ("softmax", {}),
    "entmax15": ("entmax15", {}),
    "sparsemax": ("sparsemax", {}),
    "normmax_2": ("normmax", {"alpha": 2.0}),
    "normmax_5": ("normmax", {"alpha": 5.0}),
    "k_subsets_2": ("k_subsets", {"k": 2}),
    "k_subsets_3": ("k_subsets", {"k": 3}),
    "k_subsets_5": ("k_subsets", {"k": 5}),
}
DIGITS = {"mnist_1": 1, "mnist_2": 2, "mnist_3": 3, "mnist_5": 5}  # K
BENCHMARKS = ("fox", "tiger", "elephant")
SETS = (*DIGITS, *BENCHMARKS)
BETAS = {
    "digits": (0.003, 0.01, 0.03, 0.1, 0.25, 1.0, 2.0, 8.0),
    "benchmarks": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
}
RATES = {"digits": (1e-3, 3e-4), "benchmarks": (1e-3, 3e-3)}
DROPOUTS = {"digits": (0.0,), "benchmarks": (0.0, 0.75)}
FOLDS, HEAD_DIM, INIT_DEVIATION = 10, 32, 0.02
BAGS = (2000, 1000, 1000)  # of digits, for training, validation and test


@dataclass(frozen=True)
class Settings:
    """What is chosen by validation."""

    rate: float = 1e-3
    dropout: float = 0.0
    beta: float = 1.0

    @property
    def columns(self) -> dict[str, float]:
        return {"rate": self.rate, "dropout": self.dropout, "beta": self.beta}


@dataclass(frozen=True)
class Place:
    """Where the sets are, what to compute on, and for how long."""

    data: str
    device: str
    bags: tuple[int, int, int] = BAGS
    epochs: int | None = None
    init_deviation: float | None = INIT_DEVIATION  # None: Xavier's weights

    @property
    def name(self) -> str:
        return name_device(self.device)


def family(name: str) -> str:
    """Return what a set is one of."""
    return "digits" if name in DIGITS else "benchmarks"


def grid(name: str, rates: Sequence[float] | None = None) -> Iterator[Settings]:
    """Settings to try on a set, but for beta; with its own rates or those that are given."""
    for rate in rates or RATES[family(name)]:
        for dropout in DROPOUTS[family(name)]:
            yield Settings(rate, dropout)


def training(name: str, settings: Settings, place: Place, trial: bool) -> Training:
    """How networks are trained on a set."""
    if name in DIGITS:
        epochs, patience = (15, 5) if trial else (40, 8)
        how = Training(settings.rate, batch_size=64, epochs=place.epochs or epochs, patience=patience)
    else:
        how = Training(settings.rate, batch_size=16, epochs=place.epochs or 50, patience=15)
    return how


@functools.cache
def digits(place: Place, split: str) -> MNIST:
    """Those that the bags of a split are drawn from, read once by each process."""
    return MNISTBagsData(str(Path(place.data) / "mnist")).digits(split)


def stack(tables: list[BagTable]) -> BagTable:
    """Bags of the same instances for each network."""
    width = max(table.members.shape[-1] for table in tables)

    def wide(parts: list[Any]) -> Tensor:
        return torch.stack([torch.nn.functional.pad(p, (0, width - p.shape[-1])) for p in parts])

    positive = None if tables[0].positive is None else wide([table.positive for table in tables])
    members, mask = wide([table.members for table in tables]), wide([table.mask for table in tables])
    return BagTable(tables[0].instances, members, mask, torch.stack([table.label for table in tables]), positive)


def bags_of_digits(count: int, seeds: tuple[int, ...], place: Place) -> list[BagTable]:
    """Bags for training (of each seed), validation and test (of all)."""
    folder = str(Path(place.data) / "mnist")
    sets = [MNISTBagsData(folder, count, bags=place.bags, bag_seed=seed) for seed in seeds]
    train = [data.draw("train", digits(place, "train")).table() for data in sets]
    return [stack(train), *(sets[0].draw(split, digits(place, split)).table() for split in SPLITS[1:])]


def bags_of_folds(name: str, seeds: tuple[int, ...], place: Place) -> list[BagTable]:
    """For each seed and fold: eight folds to train on, the next to validate, and the fold itself to test."""
    whole = MILBenchmark(Path(place.data) / "mil", name).table()
    found: dict[str, list[BagTable]] = {split: [] for split in SPLITS}
    for seed in seeds:
        for fold in range(FOLDS):
            for split, rows in fold_parts(whole.label, FOLDS, fold, seed).items():
                found[split].append(BagTable(whole.instances, whole.members[rows], whole.mask[rows], whole.label[rows]))
    return [stack(tables) for tables in found.values()]


def network(
    kind: str, heads: int, settings: Settings, features: int | None, init_deviation: float | None, *seeds: int
) -> BagClassifier:
    """A network with weights drawn from the seeds."""
    torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
    omega, options = KINDS[kind]
    return BagClassifier(
        DigitEncoder() if features is None else VectorEncoder(features),
        omega,
        options,
        beta=torch.full((heads,), settings.beta),
        heads=heads,
        hidden_dim=heads * HEAD_DIM,
        dropout=settings.dropout,
        normalize=True,
        init_deviation=init_deviation,
    )


def train(
    job: Mapping[str, Any], variants: list[tuple[int, Settings]], place: Place, trial: bool
) -> tuple[Copies, list[BagTable], list[dict[str, Any]]]:
    """Train one network for each seed with its settings, or one for each of their folds; and what validation found.

    All settings have the same rate and dropout.
    """
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")  # as convolutions have it; only a GPU minds
    name, kind, heads = job["set"], job["kind"], job["heads"]
    seeds = tuple(seed for seed, _ in variants)
    if name in DIGITS:
        tables, features, copies = bags_of_digits(DIGITS[name], seeds, place), None, 1
    else:
        tables, copies = bags_of_folds(name, seeds, place), FOLDS
        features = tables[0].instances.shape[-1]
    networks = [
        network(kind, heads, settings, features, place.init_deviation, seed, fold)
        for seed, settings in variants
        for fold in range(copies)
    ]
    start = time.perf_counter()
    side_by_side = Copies(networks, place.device)
    how = training(name, variants[0][1], place, trial)
    when, found, epochs = side_by_side.train(tables[0], tables[1], how, seed=seeds[0])
    seconds = time.perf_counter() - start
    measured = means(found, len(variants), prefix="val_")
    same = {"epochs": epochs, "seconds": round(seconds / len(variants), 1), "device": place.name}
    same["parameters"] = sum(p.numel() for p in networks[0].parameters())
    best = when.double().reshape(len(variants), -1).mean(1).tolist()
    rows = [{**row, "best_epoch": round(at, 1), **same} for row, at in zip(measured, best, strict=True)]
    return side_by_side, tables, rows


def means(found: Measures, count: int, prefix: str = "") -> list[dict[str, Any]]:
    """Measures of each variant: means over its folds."""
    there = {name: value for name, value in found._asdict().items() if value is not None}
    columns = {name: value.reshape(count, -1).mean(1).tolist() for name, value in there.items()}
    return [{prefix + key: round(values[i], 6) for key, values in columns.items()} for i in range(count)]


def try_out(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Validation of networks with several betas: a row for each."""
    variants = [(0, Settings(job["rate"], job["dropout"], beta)) for beta in job["betas"]]
    _, _, rows = train(job, variants, place, trial=True)
    named = {key: job[key] for key in ("set", "kind", "heads")}
    return [{**named, **settings.columns, **row} for (_, settings), row in zip(variants, rows, strict=True)]


def run(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Training, the best of the validations, and the test: a row for each of the seeds."""
    settings = Settings(job["rate"], job["dropout"], job["beta"])
    seeds = job["seeds"]
    copies, tables, rows = train(job, [(seed, settings) for seed in seeds], place, trial=False)
    tested = means(copies.measure(tables[2]), len(seeds))
    same: dict[str, Any] = {}
    if tables[2].positive is not None:
        same["positives"] = round(positives(tables[2]), 6)
    same |= {key: job[key] for key in ("set", "kind", "heads")}
    named = [{"seed": seed, **settings.columns} for seed in seeds]
    return [{**a, **b, **c, **same} for a, b, c in zip(named, tested, rows, strict=True)]


def positives(table: BagTable) -> float:
    """Share of the instances that count in positive bags: the mass inside of equal weights."""
    assert table.positive is not None
    shares = table.positive.sum(-1) / table.mask.sum(-1)
    return float(shares[table.label == 1].mean())
