"""What the experiments on explanations share: sets of texts, and networks trained on them without a word."""

from __future__ import annotations

import copy
import functools
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omegamax.data.corpus import SPLITS
from omegamax.data.text import PackedTexts, collate_texts
from omegamax.data.wordllama import DIM, read_wordllama
from omegamax.models.text import TextConfig
from omegamax.tasks.batches import LengthOrder
from omegamax.tasks.experiment import name_device
from omegamax.tasks.text import IMDBData, SentencesData, SICKData, TextData, TextTask, YelpHATData

HERE = Path(__file__).parent
LENGTH = 200  # words of a review of IMDB that are read
WORDS = 10_000  # of IMDB that are known
CLIP = 1.0  # norm of a gradient, most

Batch = dict[str, Any]
MAKE: dict[str, Callable[[Path], TextData]] = {
    "sst2": lambda folder: SentencesData(str(folder / "sentence_classification"), "sst2", least=2),
    "imdb": lambda folder: IMDBData(str(folder / "imdb"), length=LENGTH, most=WORDS),
    "sick": lambda folder: SICKData(str(folder / "sick")),
}
SETS = tuple(MAKE)


@dataclass(frozen=True)
class Place:
    """Where the sets are, where what was read of them is kept, and what to compute on.

    Args:
        data: folder with the folders of the sets.
        device: ``"cpu"``, ``"cuda"``.
        cache: folder with sets as numbers and vectors of their words, made where it has none; None: nothing is kept.
    """

    data: str
    device: str = "cpu"
    cache: str | None = None

    @property
    def name(self) -> str:
        return name_device(self.device)


@dataclass(frozen=True)
class Schedule:
    """How a network is trained: Adam, the best epoch by accuracy in validation.

    Args:
        rate: of Adam.
        epochs: most.
        batch_size: texts in a batch.
        patience: epochs without a better one, after which it ends.
        weight_decay: added to the gradient.
    """

    rate: float = 1e-3
    epochs: int = 10
    batch_size: int = 32
    patience: int = 4
    weight_decay: float = 1e-4


@dataclass(frozen=True)
class TextSet:
    """A set as numbers, and the vectors that the embedding of its words starts from."""

    data: TextData
    vectors: Tensor

    def packed(self, split: str) -> PackedTexts:
        return self.data.split(split)


@functools.cache
def read_set(name: str, place: Place) -> TextSet:
    """Return a set, read once by each process, and from the cache where it is there."""
    path = None if place.cache is None else Path(place.cache, f"{name}.pickle")
    if path is not None and path.exists():
        with path.open("rb") as file:
            data, vectors = pickle.load(file)
        return TextSet(data, vectors.float())
    data = MAKE[name](Path(place.data))
    for split in SPLITS:
        data.split(split)
    vectors = read_wordllama(data.vocabulary.words).embedding().half()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pickle.dump((data, vectors), file)
    return TextSet(data, vectors.float())


@functools.cache
def read_yelp_hat(name: str, place: Place, subset: str = "50words") -> PackedTexts:
    """Return the reviews of Yelp-HAT with their marks, in the words that a set knows."""
    path = None if place.cache is None else Path(place.cache, f"yelp_hat_{subset}_{name}.pickle")
    if path is not None and path.exists():
        with path.open("rb") as file:
            return pickle.load(file)
    texts = YelpHATData(str(Path(place.data, "yelp_hat")), subset, whole=True).read("test")
    packed = PackedTexts(texts, read_set(name, place).data.vocabulary, LENGTH, "yelp_hat")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pickle.dump(packed, file)
    return packed


def make_task(texts: TextSet, network: TextConfig, seed: int, **settings: Any) -> TextTask:
    """Return a network with weights drawn from a seed, and the vectors of words to start from."""
    torch.manual_seed(seed)
    task = TextTask(texts.data.vocabulary, network.replace(word_dim=DIM), **settings)
    with torch.no_grad():
        task.model.embedding.weight.copy_(texts.vectors)
    return task


def batches(packed: PackedTexts, size: int, device: str, seed: int | None = None, epoch: int = 0) -> Iterator[Batch]:
    """Yield the texts in batches of about one length, on a device; shuffled with a seed."""
    order = LengthOrder(packed.lengths, size, seed)
    order.set_epoch(epoch)
    for places in order:
        batch = collate_texts([packed[place] for place in places])
        yield {key: value.to(device) if isinstance(value, Tensor) else value for key, value in batch.items()}


def train(task: TextTask, texts: TextSet, schedule: Schedule, device: str, seed: int) -> dict[str, float]:
    """Train a network, leave it with the weights of its best epoch, and return what validation found."""
    began = time.perf_counter()
    task.to(device)
    adam = torch.optim.Adam(
        [p for p in task.parameters() if p.requires_grad], schedule.rate, weight_decay=schedule.weight_decay
    )
    best: tuple[float, float] = (-1.0, 0.0)
    weights: Mapping[str, Tensor] = {}
    best_epoch = 0
    for epoch in range(schedule.epochs):
        task.train()
        for batch in batches(texts.packed("train"), schedule.batch_size, device, seed, epoch):
            adam.zero_grad()
            task.training_loss(batch).backward()
            torch.nn.utils.clip_grad_norm_(task.parameters(), CLIP)
            adam.step()
        accuracy, loss = validate(task, texts.packed("val"), device)
        if (accuracy, -loss) > best:
            best, best_epoch = (accuracy, -loss), epoch + 1
            weights = copy.deepcopy(task.model.state_dict())
        elif epoch + 1 - best_epoch >= schedule.patience:
            break
    task.model.load_state_dict(weights)
    task.eval()
    found = {"val_accuracy": best[0], "val_loss": -best[1], "best_epoch": best_epoch}
    return {**found, "seconds": round(time.perf_counter() - began, 1)}


@torch.no_grad()
def validate(task: TextTask, packed: PackedTexts, device: str, size: int = 256) -> tuple[float, float]:
    """Return the accuracy and the loss of a network."""
    task.eval()
    right, loss, count = 0, 0.0, 0
    for batch in batches(packed, size, device):
        logits = task(batch).logits
        right += int((logits.argmax(-1) == batch["label"]).sum())
        loss += float(task.label_loss(logits, batch)) * len(logits)
        count += len(logits)
    return right / count, loss / count
