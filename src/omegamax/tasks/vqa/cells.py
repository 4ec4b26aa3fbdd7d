"""A GridCNN that learns to say what is in each cell, before any question is asked."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from omegamax.data.scenes import Cells, Scenes
from omegamax.models import GridCNN
from omegamax.tasks.progress import progress
from omegamax.tasks.rate import Rate

_GROUND = 0.2  # weight of cells with nothing in them: they are most, and easy


class CellsTask(L.LightningModule):
    """A :class:`~omegamax.models.GridCNN` and a linear map from a cell's features to the shape and colour in it.

    Logged: ``train_loss``, and of the cells with something in them the share named rightly, ``val_shape`` and
    ``val_colour``.

    Args:
        dim, grid: of the network.
        shapes, colours: how many there are; one more class each is for ground.
        rate: of the optimiser, Adam.

        >>> task = CellsTask(32, (4, 4), shapes=10, colours=8)
        >>> shape, colour = task(torch.rand(2, 3, 32, 32))
        >>> shape.shape, colour.shape
        (torch.Size([2, 11, 4, 4]), torch.Size([2, 9, 4, 4]))
    """

    def __init__(
        self,
        dim: int,
        grid: tuple[int, int],
        shapes: int,
        colours: int,
        rate: Rate = Rate(3e-3, warmup=20, fall="cosine", interval="step"),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        self.cnn = GridCNN(dim, grid)
        self.name = torch.nn.Linear(dim, shapes + 1 + colours + 1)
        self.shapes, self.rate = shapes, rate

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of shapes and of colours, ``[B, classes, h, w]``."""
        scores = self.name(self.cnn(image)).mT.unflatten(-1, self.cnn.grid)
        return scores[:, : self.shapes + 1], scores[:, self.shapes + 1 :]

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        image, *labels = batch
        loss = image.new_zeros((), dtype=torch.float32)
        for scores, label in zip(self(image.float() / 255), labels, strict=True):
            weight = torch.ones(scores.shape[1], device=scores.device)
            weight[0] = _GROUND
            loss = loss + F.cross_entropy(scores, label, weight)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        image, *labels = batch
        something = labels[0] > 0
        for name, z, y in zip(("shape", "colour"), self(image.float() / 255), labels, strict=True):
            right = (z.argmax(1) == y)[something].float()
            self.log(f"val_{name}", right.mean(), prog_bar=True, batch_size=len(right))

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.parameters(), self.rate.peak)
        return self.rate.schedule(optimiser, self.trainer)


def cells_loader(
    scenes: Scenes, grid: tuple[int, int], batch_size: int, workers: int = 0, shuffle: bool = True
) -> DataLoader[tuple[Tensor, ...]]:
    """Return batches of images, shapes and colours, all made once and kept in memory."""
    made = DataLoader(Cells(scenes, grid), 64, num_workers=workers)
    parts = [(batch["image"], batch["shape"], batch["colour"]) for batch in progress(made, "drawing scenes")]
    tensors = TensorDataset(*(torch.cat(part) for part in zip(*parts, strict=True)))
    return DataLoader(tensors, batch_size, shuffle=shuffle, drop_last=shuffle)
