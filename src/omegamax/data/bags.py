"""Bags of instances with one label for all: multiple-instance learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice, check_integer, check_number
from omegamax.data.arrays import read_array
from omegamax.data.files import DataError, FilePath, check_folder, find
from omegamax.data.mnist import MNIST

BENCHMARKS = ("fox", "tiger", "elephant", "musk1", "musk2")
_FEWEST = 2  # instances in a bag of digits


class Bag(NamedTuple):
    """Instances ``[n, *]`` and the label of them all, 0 or 1; ``positive [n]`` where it is known which count."""

    instances: Tensor
    label: int
    positive: Tensor | None = None


class BagTable(NamedTuple):
    """All bags at once, by the numbers of their instances.

    ``instances [I, *]`` are those of all bags; ``members [N, n]`` says which are in a bag, where ``mask [N, n]`` is
    True; ``label [N]`` is 0 or 1; ``positive [N, n]``, where it is known, says which instances count.
    """

    instances: Tensor
    members: Tensor
    mask: Tensor
    label: Tensor
    positive: Tensor | None = None


def collate_bags(bags: Sequence[Bag]) -> dict[str, Tensor]:
    """Return ``instances [B, n, *]``, ``mask [B, n]`` (True: an instance), ``label [B]`` in 0 and 1, float.

    >>> batch = collate_bags([Bag(torch.ones(2, 3), 1), Bag(torch.ones(1, 3), 0)])
    >>> batch["instances"].shape, batch["mask"].tolist(), batch["label"].tolist()
    (torch.Size([2, 2, 3]), [[True, True], [True, False]], [1.0, 0.0])
    """
    instances = torch.nn.utils.rnn.pad_sequence([bag.instances for bag in bags], batch_first=True)
    sizes = torch.tensor([len(bag.instances) for bag in bags])
    mask = torch.arange(instances.shape[1]) < sizes[:, None]
    batch = {"instances": instances, "mask": mask, "label": torch.tensor([float(bag.label) for bag in bags])}
    positive = [bag.positive for bag in bags if bag.positive is not None]
    if len(positive) == len(bags):
        batch["positive"] = torch.nn.utils.rnn.pad_sequence(positive, batch_first=True)
    return batch


class MNISTBags(Dataset[Bag]):
    """Bags of digits, positive if at least K of them are of one class; as many positive as negative ones.

    A positive bag has from K to all of its digits in the class, a negative one from none to K - 1, each number as
    often as any other. Bag ``i`` is a function of (seed, i) alone.

    Args:
        digits: to draw from.
        size: number of bags.
        positives: K.
        target: the class.
        mean, deviation: of the number of digits in a bag, normal and rounded down; at least K, and 2. By default 9 + K
            and K: with bags of one size the share of digits in the class would tell how many they are.
        seed: an integer.

    Reference: K = 1: Ilse et al. (ICML 2018); K > 1: Santos et al. (ICML 2024), whose code draws bags in this way too.
    """

    def __init__(
        self,
        digits: MNIST,
        size: int,
        positives: int = 1,
        *,
        target: int = 9,
        mean: float | None = None,
        deviation: float | None = None,
        seed: int = 0,
    ) -> None:
        for argument, value, least in (("size", size, 1), ("positives", positives, 1), ("seed", seed, 0)):
            check_integer("MNISTBags", argument, value, least)
        mean, deviation = 9.0 + positives if mean is None else mean, positives if deviation is None else deviation
        check_number("MNISTBags", "mean", mean, above=0)
        check_number("MNISTBags", "deviation", deviation, least=0)
        inside = digits.labels == target
        if not bool(inside.any()) or bool(inside.all()):
            raise ValueError(f"MNISTBags: target must be a class that some digits are of, and others not, got {target}")
        self.digits, self.size, self.positives, self.target = digits, int(size), int(positives), target
        self.mean, self.deviation, self.seed = mean, deviation, int(seed)
        self._inside, self._outside = (np.flatnonzero(part.numpy()) for part in (inside, ~inside))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Bag:
        if not -self.size <= index < self.size:
            raise IndexError(f"MNISTBags: index {index} is out of range for {self.size} bags")
        chosen, positive, label = self._draw(index % self.size)
        images = self.digits.images[chosen][:, None].float() / 255
        return Bag(images, label, positive)

    def table(self) -> BagTable:
        """Return all bags, with the pictures in bytes, ``[I, 28, 28]``."""
        drawn = [self._draw(index) for index in range(self.size)]
        members, positive = _pad([each[0] for each in drawn]), _pad([each[1] for each in drawn])
        mask = _pad([torch.ones(len(each[0]), dtype=torch.bool) for each in drawn])
        label = torch.tensor([each[2] for each in drawn])
        return BagTable(self.digits.images, members, mask, label, positive)

    def _draw(self, index: int) -> tuple[Tensor, Tensor, int]:
        """Draw the indices of the digits of a bag; return them, which are in the class, and the label."""
        rng = np.random.default_rng((self.seed, index))
        count = max(int(rng.normal(self.mean, self.deviation)), self.positives, _FEWEST)
        label = index % 2
        low, high = (self.positives, count) if label else (0, min(self.positives - 1, count))
        inside = int(rng.integers(low, high + 1))
        chosen = np.concatenate([rng.choice(self._inside, inside), rng.choice(self._outside, count - inside)])
        order = rng.permutation(count)
        return torch.from_numpy(chosen[order]), torch.from_numpy(order < inside), label


class MILBenchmark(Dataset[Bag]):
    """One of the small benchmarks: fox, tiger, elephant (segments of photographs), musk1, musk2 (shapes of molecules).

    ``folder`` holds ``fox.npz`` and so on, with ``features`` (instances x D), ``bag_ids`` (1, 2, ..., one for each
    instance) and ``bag_labels`` (0 or 1). Features are brought to mean 0 and deviation 1 over all instances.

    Args:
        folder: with these files.
        name: of the benchmark.

    References: Andrews et al. (NIPS 2002); Dietterich et al. (1997), "Solving the multiple instance problem with
    axis-parallel rectangles".
    """

    def __init__(self, folder: FilePath, name: str) -> None:
        check_choice("MILBenchmark", "name", name, BENCHMARKS)
        path = find("MILBenchmark", check_folder("MILBenchmark", folder), [f"{name}.npz"])
        features, ids, labels = (read_array(path, key) for key in ("features", "bag_ids", "bag_labels"))
        if features.ndim != 2 or ids.shape != features.shape[:1] or not set(np.unique(labels)) <= {0, 1}:
            shapes = f"{features.shape}, {ids.shape} and {labels.shape}"
            raise DataError(f"{path} must hold features (n, D), bag_ids (n) and bag_labels of 0 and 1, got {shapes}")
        if set(np.unique(ids)) != set(range(1, len(labels) + 1)):
            raise DataError(f"{path}: bag_ids must be 1 to {len(labels)}, each at least once; get the file again")
        self.name = name
        self.labels = torch.from_numpy(labels.astype(np.int64))
        scaled = torch.from_numpy(features.astype(np.float64))
        deviation = scaled.std(0, correction=0)
        scaled = (scaled - scaled.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
        numbers = torch.from_numpy(ids.astype(np.int64))
        self._bags = [scaled[numbers == bag + 1].float() for bag in range(len(labels))]

    @property
    def dim(self) -> int:
        """Return the number of features of an instance."""
        return self._bags[0].shape[1]

    def __len__(self) -> int:
        return len(self._bags)

    def __getitem__(self, index: int) -> Bag:
        return Bag(self._bags[index], int(self.labels[index]))

    def table(self) -> BagTable:
        """Return all bags, with the features of all instances, ``[I, D]``."""
        sizes = torch.tensor([len(bag) for bag in self._bags])
        ends = sizes.cumsum(0).tolist()
        members = _pad([torch.arange(end - size, end) for end, size in zip(ends, sizes.tolist(), strict=True)])
        mask = torch.arange(members.shape[1]) < sizes[:, None]
        return BagTable(torch.cat(self._bags), members, mask, self.labels)


def _pad(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def folds(labels: Tensor, count: int = 10, seed: int = 0) -> list[Tensor]:
    """Return the indices of the parts of a cross-validation, each with its share of positive and negative bags.

    >>> [part.tolist() for part in folds(torch.tensor([0, 1, 0, 1]), 2)]
    [[0, 3], [1, 2]]
    """
    check_integer("folds", "count", count, 2, len(labels))
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[int]] = [[] for _ in range(count)]
    place = 0
    for label in labels.unique().tolist():
        members = torch.nonzero(labels == label).flatten()
        for member in members[torch.randperm(len(members), generator=generator)].tolist():
            parts[place % count].append(member)
            place += 1
    return [torch.tensor(sorted(part)) for part in parts]
