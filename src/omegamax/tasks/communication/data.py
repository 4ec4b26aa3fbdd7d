"""Pictures to talk about."""

from __future__ import annotations

import lightning as L
import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data import MNIST, DataError
from omegamax.tasks.batches import Batches, Order
from omegamax.tasks.communication.games import ConceptOrder, Games

_GAMES = {"val": 1, "test": 2}  # seeds of the fixed games: the same for all runs


class CommunicationData(L.LightningDataModule):
    """Games about the grey pictures of idx files: Fashion-MNIST, MNIST and their kin.

    The last ``held_out`` training pictures are for validation. In validation and test each picture is the sender's in
    one game, and the games are the same whatever the seed.

    Args:
        folder: with the four files, see :class:`~omegamax.data.MNIST`.
        candidates: pictures that the receiver chooses from.
        batch_size: training pictures in a batch, each shown to the sender once; candidates are of the same batch.
        eval_batch_size: games in a batch of validation and test.
        held_out: pictures for validation.
        seed: of the order of training pictures, and so of games.
        concepts: integers >= 0, one for each training and one for each test picture: candidates are then of different
            concepts, in training too, whose batches have a picture of each of ``batch_size`` concepts. None: candidates
            are any pictures.
    """

    def __init__(
        self,
        folder: str,
        candidates: int = 16,
        batch_size: int = 256,
        eval_batch_size: int = 10_000,
        held_out: int = 10_000,
        seed: int = 0,
        concepts: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__()
        least = {"candidates": 2, "batch_size": 2, "eval_batch_size": 1, "held_out": 2, "seed": 0}
        given = {"candidates": candidates, "batch_size": batch_size, "eval_batch_size": eval_batch_size}
        for argument, value in {**given, "held_out": held_out, "seed": seed}.items():
            check_integer("CommunicationData", argument, value, least[argument])
        if batch_size < candidates:
            raise ValueError(f"CommunicationData: batch_size must be >= candidates = {candidates}, got {batch_size}")
        self.folder, self.candidates, self.held_out, self.seed = folder, candidates, held_out, seed
        self.batch_size, self.eval_batch_size, self.concepts = batch_size, eval_batch_size, concepts
        self._splits: dict[str, Games] = {}

    def split(self, name: str) -> Games:
        """Return the games of ``"train"``, ``"val"`` or ``"test"``."""
        if not self._splits:
            train, test = MNIST(self.folder, "train"), MNIST(self.folder, "test")
            count = len(train) - self.held_out
            if count < self.batch_size:
                raise DataError(
                    f"{self.folder} has {len(train)} training pictures: too few for held_out={self.held_out} and a "
                    f"batch of {self.batch_size}; make one of them smaller"
                )
            pixels = train.images[:count].float() / 255
            scale = {"mean": pixels.mean().item(), "deviation": max(pixels.std().item(), 1e-6)}
            pictures = {
                "train": (train.images[:count], train.labels[:count]),
                "val": (train.images[count:], train.labels[count:]),
                "test": (test.images, test.labels),
            }
            for each, (images, labels) in pictures.items():
                about = self.concepts_of(each, count)
                self._splits[each] = Games(
                    images, labels, self.candidates, _GAMES.get(each), scale["mean"], scale["deviation"], about
                )
        return self._splits[name]

    def concepts_of(self, split: str, count: int) -> Tensor | None:
        """Return the concepts of the pictures of a split, of which the first ``count`` are for training."""
        if self.concepts is None:
            return None
        train, test = self.concepts
        return {"train": train[:count], "val": train[count:], "test": test}[split]

    @property
    def features(self) -> int:
        """Return the number of pixels of a picture."""
        return self.split("train").images.shape[1]

    def train_dataloader(self) -> Batches:
        games = self.split("train")
        concepts = self.concepts_of("train", len(games))
        if concepts is not None:
            return self._batches(games, ConceptOrder(concepts, self.batch_size, self.seed, **_processes()))
        # A last batch with too few pictures for a game is left out.
        rest = len(games) % self.batch_size
        count = len(games) - (rest if rest < self.candidates else 0)
        return self._batches(games, Order(count, self.batch_size, self.seed, **_processes()))

    def val_dataloader(self) -> Batches:
        games = self.split("val")
        return self._batches(games, Order(len(games), self.eval_batch_size, **_processes()))

    def test_dataloader(self) -> Batches:
        games = self.split("test")
        return self._batches(games, Order(len(games), self.eval_batch_size, **_processes()))

    def _batches(self, games: Games, order: Order) -> Batches:
        return Batches(games, order, games.batch)


def _processes() -> dict[str, int]:
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not several:
        return {}
    return {"processes": torch.distributed.get_world_size(), "rank": torch.distributed.get_rank()}
