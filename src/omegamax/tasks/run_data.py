"""Splits of a set as batches, whatever the task, and limits of the settings of data.

The file of a network says what it was trained on, and may come from anyone: its settings are held to the limits.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping, Sized
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import lightning as L
import torch
from torch.utils.data import Dataset

from omegamax._arguments import check_choice, is_integer, is_number
from omegamax.data.files import short
from omegamax.tasks.batches import Batches, Order

Kind = TypeVar("Kind", bound="RunData")
File = TypeVar("File", bound="str | None")


class Limit(NamedTuple):
    """What a setting may be: one number or several, from ``least`` to ``most``, integers unless ``real``."""

    least: int
    most: int
    numbers: int = 1
    real: bool = False

    def describe_fault(self, value: Any) -> str | None:
        """Say what is wanted in place of a value; None if it is within the limit."""
        noun = "number" if self.real else "integer"
        article = "a" if self.real else "an"
        what = f"{article} {noun}" if self.numbers == 1 else f"{self.numbers} {noun}s"
        values = (value,) if self.numbers == 1 else value
        sequence = isinstance(values, (tuple, list)) and len(values) == self.numbers
        if sequence and all(is_number(each) and (self.real or isinstance(each, Integral)) for each in values):
            if any(each < self.least for each in values):
                return f"{what} >= {self.least:,}"
            if all(each <= self.most for each in values):  # NaN is not
                return None
        return f"{what} from {self.least:,} to {self.most:,}"


def check_limits(name: str, settings: Mapping[str, Any], limits: Mapping[str, Limit]) -> None:
    """Refuse a setting beyond its limit before anything of its size is made; None stands for what is not known.

    >>> limits = {"workers": Limit(0, 512), "size": Limit(1, 8192, numbers=2)}
    >>> check_limits("MyData", {"workers": 4, "size": (64, 96), "folder": "here"}, limits)
    >>> check_limits("MyData", {"workers": 10**6}, limits)
    Traceback (most recent call last):
        ...
    ValueError: MyData: workers must be an integer from 0 to 512, got 1000000
    """
    for key, limit in limits.items():
        given = settings.get(key)
        if given is not None and (wanted := limit.describe_fault(given)):
            raise ValueError(f"{name}: {key} must be {wanted}, got {short(given)}")


class RunData(L.LightningDataModule, abc.ABC):
    """Samples for training, validation and test; a subclass for each set, which keeps its arguments by their names.

    The order of the training part is a function of seed and epoch alone: two processes with half a batch each see what
    one with the whole batch does.

    Args:
        batch_size: samples in a batch, of each process.
        workers: processes that read samples.
        seed: of the order of the training part.
    """

    limits: ClassVar[Mapping[str, Limit]] = {"batch_size": Limit(1, 1 << 20), "workers": Limit(0, 512)}

    def __init__(self, batch_size: int = 64, workers: int = 0, seed: int = 0) -> None:
        super().__init__()
        for argument, value, least in (("batch_size", batch_size, 1), ("workers", workers, 0), ("seed", seed, 0)):
            if not is_integer(value) or value < least:
                name = type(self).__name__
                raise ValueError(f"{name}: {argument} must be an integer >= {least}, got {value!r}")
        self.check({"batch_size": batch_size, "workers": workers})
        self.batch_size, self.workers, self.seed = batch_size, workers, seed

    @abc.abstractmethod
    def split(self, name: str) -> Dataset[Any]:
        """Return the samples of ``"train"``, ``"val"`` or ``"test"``."""

    @property
    @abc.abstractmethod
    def collate(self) -> Callable[[Any], Any]:
        """Return the function that makes a batch of a list of samples."""

    @classmethod
    def of(cls: type[Kind], settings: Mapping[str, Any], **changes: Any) -> Kind:
        """Build the data from :attr:`settings`, some of them changed."""
        given = {**settings, **changes}
        kinds = cls.known()
        name = given.pop("class", None)
        check_choice(f"{cls.__name__}.of", "class", name, tuple(kinds))
        kinds[name].check(given)
        return kinds[name](**given)

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings beyond the ``limits`` of their class, or of this one if that is not known."""
        kind: type[RunData] = next((k for name, k in cls.known().items() if name == settings.get("class")), cls)
        check_limits(kind.__name__, settings, kind.limits)

    @classmethod
    def known(cls: type[Kind]) -> dict[str, type[Kind]]:
        """Return the sets of this kind, by the names of their classes."""
        found = {} if inspect.isabstract(cls) else {cls.__name__: cls}
        for each in cls.__subclasses__():
            found |= each.known()
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """Return the class by name as ``"class"``, and its arguments: what a trained network's file keeps."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, RunData)]
        arguments = [each for kind in kinds for each in inspect.signature(kind).parameters.values()]
        names = sorted({each.name for each in arguments if each.kind is not each.VAR_KEYWORD})
        found = {name: getattr(self, name) for name in names}
        self.check(found)  # a file with others would be refused
        return {"class": type(self).__name__, **found}

    @property
    def title(self) -> str:
        """Return what a page about the data calls it."""
        return type(self).__name__.removesuffix("Data")

    def train_dataloader(self) -> Batches:
        return self._batches("train", self.seed)

    def val_dataloader(self) -> Batches:
        return self._batches("val")

    def test_dataloader(self) -> Batches:
        return self._batches("test")

    def predict_dataloader(self) -> Batches:
        return self._batches("test")

    def loader(self, split: str) -> Batches:
        """Return the batches of ``"train"``, ``"val"`` or ``"test"``, as a trainer sees them."""
        return {"train": self.train_dataloader, "val": self.val_dataloader, "test": self.test_dataloader}[split]()

    def batches(self, samples: Dataset[Any], order: Order) -> Batches:
        """Return batches of samples in the order given."""
        return Batches(samples, order, self.collate, self.workers)

    def _batches(self, name: str, seed: int | None = None) -> Batches:
        samples = self.split(name)
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        processes, rank = (torch.distributed.get_world_size(), torch.distributed.get_rank()) if several else (1, 0)
        return self.batches(samples, self.order(samples, seed, processes, rank))

    def order(self, samples: Dataset[Any], seed: int | None, processes: int, rank: int) -> Order:
        """Return which samples make the batches of this process; without a seed they stay in order."""
        return Order(len(cast(Sized, samples)), self.batch_size, seed, processes=processes, rank=rank)


def choose_file(
    split: str, train: File, val: str | None, test: str | None, held_out: float
) -> tuple[str, File | str, float | None]:
    """Return the part to read, its file, and the share that validation takes of it, where it has no file.

    >>> choose_file("test", "a", None, None, 0.1), choose_file("train", "a", "b", None, 0.1)
    (('val', 'a', 0.1), ('train', 'a', None))
    """
    if split == "test" and test is not None:
        return split, test, None
    if split != "train" and val is not None:
        return split, val, None
    if val is not None:
        return "train", train, None
    return ("train" if split == "train" else "val"), train, held_out
