"""Sets of bags, as batches."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice, is_integer
from omegamax.data import MNIST, Bag, MILBenchmark, MNISTBags, collate_bags, folds
from omegamax.tasks.run_data import Limit, RunData

SPLITS = ("train", "val", "test")
# Seeds of the bags of digits for validation and test: the same whatever the seed of those for training.
_VAL, _TEST = 1000, 2000


class NamedBag(NamedTuple):
    """A bag, and what it is called."""

    id: str
    bag: Bag


class NamedBags(Dataset[NamedBag]):
    """Some of the bags of a set, with names.

    Args:
        name: of the set.
        bags: with a length.
        chosen: their numbers; None: all.
    """

    def __init__(self, name: str, bags: Dataset[Bag], chosen: Sequence[int] | None = None) -> None:
        self.name, self.bags = name, bags
        self.chosen = list(range(len(bags)) if chosen is None else chosen)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int) -> NamedBag:
        number = self.chosen[index]
        return NamedBag(f"{self.name}-{number}", self.bags[number])


def collate_named(bags: Sequence[NamedBag]) -> dict[str, Any]:
    """Make a batch by :func:`~omegamax.data.collate_bags`, and add ``id``, a list."""
    return {**collate_bags([each.bag for each in bags]), "id": [each.id for each in bags]}


class BagsData(RunData):
    """Bags for training, validation and test; a subclass for each set.

    Args:
        batch_size: bags in a batch, of each process.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    features: int | None = None  # of an instance that is a vector; None: instances are digits

    def __init__(self, batch_size: int = 64, **settings: Any) -> None:
        super().__init__(batch_size=batch_size, **settings)
        self._splits: dict[str, NamedBags] = {}

    @abc.abstractmethod
    def read(self, split: str) -> NamedBags:
        """Return the bags of ``"train"``, ``"val"`` or ``"test"``."""

    def split(self, name: str) -> NamedBags:
        check_choice(type(self).__name__, "split", name, SPLITS)
        if name not in self._splits:
            self._splits[name] = self.read(name)
        return self._splits[name]

    @property
    def collate(self) -> Callable[[Any], dict[str, Any]]:
        return collate_named


class MNISTBagsData(BagsData):
    """:class:`~omegamax.data.MNISTBags`: is a digit there at least K times?

    No digit is in bags of two splits: those for validation are drawn from the last ``held_out`` of the training digits.

    Args:
        folder: with the four idx files.
        positives: K, how often the target must be there.
        target: the digit.
        bags: numbers of bags for training, validation and test.
        mean: of the number of digits in a bag; None: 9 + K.
        deviation: of that number; None: K.
        held_out: digits for validation.
        bag_seed: of the bags for training; those for validation and test are always the same.
        settings: as for :class:`BagsData`.
    """

    limits: ClassVar[Mapping[str, Limit]] = {
        **BagsData.limits,
        "bags": Limit(0, 1 << 28, numbers=3),
        "positives": Limit(1, 1 << 20),
        "mean": Limit(0, 1 << 20, real=True),
        "deviation": Limit(0, 1 << 20, real=True),
    }

    def __init__(
        self,
        folder: str,
        positives: int = 1,
        target: int = 9,
        bags: tuple[int, int, int] = (2000, 1000, 1000),
        mean: float | None = None,
        deviation: float | None = None,
        held_out: int = 10000,
        bag_seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.folder, self.positives, self.target, self.bags = folder, positives, target, tuple(bags)
        self.mean, self.deviation, self.held_out, self.bag_seed = mean, deviation, held_out, bag_seed

    def read(self, split: str) -> NamedBags:
        return NamedBags(f"{split}-{self.positives}", self.draw(split, self.digits(split)))

    def draw(self, split: str, digits: MNIST) -> MNISTBags:
        """Draw bags of these digits."""
        size = dict(zip(SPLITS, self.bags, strict=True))[split]
        seed = {"train": self.bag_seed, "val": _VAL, "test": _TEST}[split]
        about: dict[str, Any] = {"target": self.target, "mean": self.mean, "deviation": self.deviation}
        return MNISTBags(digits, size, self.positives, seed=seed, **about)

    def digits(self, split: str) -> MNIST:
        """Return the digits that the bags of a split are drawn from."""
        if split == "test":
            return MNIST(self.folder, "test")
        every = MNIST(self.folder, "train")
        if not is_integer(self.held_out) or not 0 < self.held_out < len(every):
            wanted = f"an integer from 1 to {len(every) - 1}"
            raise ValueError(f"MNISTBagsData: held_out must be {wanted}, got {self.held_out!r}")
        first = len(every) - self.held_out
        return every.part(0, first) if split == "train" else every.part(first, len(every))


class MILBenchmarkData(BagsData):
    """:class:`~omegamax.data.MILBenchmark`, one fold of a cross-validation: it is the test, the next the validation.

    Args:
        folder: with ``fox.npz`` and so on.
        benchmark: its name.
        fold: from 0 to ``folds`` - 1.
        folds: how many.
        fold_seed: of which bag is in which fold.
        batch_size: bags in a batch, of each process.
        settings: as for :class:`BagsData`.
    """

    def __init__(
        self,
        folder: str,
        benchmark: str = "fox",
        fold: int = 0,
        folds: int = 10,
        fold_seed: int = 0,
        batch_size: int = 16,
        **settings: Any,
    ) -> None:
        super().__init__(batch_size=batch_size, **settings)
        if not is_integer(folds) or folds < 3 or not is_integer(fold) or not 0 <= fold < folds:
            given = f"{fold!r} of {folds!r}"
            raise ValueError(f"MILBenchmarkData: fold must be 0 <= fold < folds, and folds at least 3, got {given}")
        self.folder, self.benchmark, self.fold, self.folds, self.fold_seed = folder, benchmark, fold, folds, fold_seed
        self._bags: MILBenchmark | None = None

    @property
    def features(self) -> int:  # type: ignore[override]
        """Return the number of entries of an instance."""
        return self._all.dim

    def read(self, split: str) -> NamedBags:
        chosen = fold_parts(self._all.labels, self.folds, self.fold, self.fold_seed)[split]
        return NamedBags(self.benchmark, self._all, chosen.tolist())

    @property
    def _all(self) -> MILBenchmark:
        if self._bags is None:
            self._bags = MILBenchmark(self.folder, self.benchmark)
        return self._bags


def fold_parts(labels: Tensor, count: int, fold: int, seed: int = 0) -> dict[str, Tensor]:
    """Split bags by index: the fold is the test, the next one the validation, the rest for training.

    >>> parts = fold_parts(torch.tensor([0, 1] * 3), 3, 2)
    >>> {split: len(numbers) for split, numbers in parts.items()}
    {'train': 2, 'val': 2, 'test': 2}
    """
    parts = folds(labels, count, seed)
    val = (fold + 1) % count
    rest = torch.cat([part for number, part in enumerate(parts) if number not in (fold, val)])
    return {"train": rest, "val": parts[val], "test": parts[fold]}
