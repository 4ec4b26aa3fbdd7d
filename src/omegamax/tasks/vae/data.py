"""Pictures of black and white pixels, which stay in the memory of the device."""

from __future__ import annotations

from collections.abc import Iterator

import lightning as L
import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data import DataError
from omegamax.data.files import FilePath
from omegamax.data.mnist import MNIST

_SPLITS = ("train", "val", "test")


class PictureBatches:
    """Batches ``[B, H, W]`` of zeros and ones.

    With a seed, pictures ``[N, H, W]`` are bytes: they come in an order, and each pixel is white as often as it is
    bright, by seed and epoch alone. Without one they are taken as they are.

        >>> grey = torch.full((4, 2, 2), 128, dtype=torch.uint8)
        >>> [len(batch) for batch in PictureBatches(grey, 3, seed=0)]
        [3, 1]
    """

    def __init__(self, pictures: Tensor, batch_size: int, seed: int | None = None) -> None:
        self.pictures, self.batch_size, self.seed, self.epoch = pictures, batch_size, seed, 0
        self.sampler = self.batch_sampler = self  # by these names Lightning looks for what wants to know the epoch

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before an epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.pictures) // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        if self.seed is None:
            yield from (batch.float() for batch in self.pictures.split(self.batch_size))
            return
        order, noise = (int(n) for n in np.random.SeedSequence([self.seed, self.epoch]).generate_state(2))
        samples = torch.randperm(len(self.pictures), generator=torch.Generator().manual_seed(order))
        generator = torch.Generator(self.pictures.device).manual_seed(noise)
        for chosen in samples.to(self.pictures.device).split(self.batch_size):
            yield black_and_white(self.pictures[chosen], generator)


class PictureData(L.LightningDataModule):
    """MNIST, or a set in its files, with pixels made black or white at random: white as often as they are bright.

    Pixels of the training part are drawn anew in each epoch, those of the validation and test parts once and for all:
    every network is measured on the same pictures. The last ``held_out`` training pictures are the validation part.

    Args:
        folder: with the four idx files, see :class:`~omegamax.data.MNIST`.
        batch_size: of training; twice that otherwise.
        held_out: number of training pictures that are for validation.
        train_size: number of training pictures to use; None: all.
        seed: of the order and the pixels of the training part.

    Reference: Salakhutdinov and Murray (ICML 2008), on the pixels.
    """

    def __init__(
        self,
        folder: FilePath,
        batch_size: int = 256,
        held_out: int = 5000,
        train_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        integers = {"batch_size": batch_size, "held_out": held_out, "train_size": train_size, "seed": seed}
        for name, value in integers.items():
            if value is not None:
                check_integer("PictureData", name, value, least=0 if name == "seed" else 1)
        self.folder, self.batch_size, self.held_out, self.train_size = folder, batch_size, held_out, train_size
        self.seed = seed
        self._splits: dict[str, Tensor] = {}

    def setup(self, stage: str | None = None) -> None:
        device = torch.device("cpu") if self.trainer is None else self.trainer.strategy.root_device
        if not self._splits:
            self._splits = {name: self.split(name) for name in _SPLITS}
        self._splits = {name: pictures.to(device) for name, pictures in self._splits.items()}

    def split(self, name: str) -> Tensor:
        """Return pictures ``[N, H, W]``: bytes of ``"train"``, zeros and ones of ``"val"`` and ``"test"``."""
        images = MNIST(self.folder, "test" if name == "test" else "train").images
        if name == "test":
            return black_and_white(images, torch.Generator().manual_seed(_SPLITS.index(name))).bool()
        if len(images) <= self.held_out:
            count = f"{self.folder} has {len(images)} training pictures"
            raise DataError(f"{count}, and {self.held_out} are to be held out; hold out fewer")
        kept, held = images[: -self.held_out], images[-self.held_out :]
        if name == "train":
            return kept[: self.train_size]
        return black_and_white(held, torch.Generator().manual_seed(_SPLITS.index(name))).bool()

    @property
    def brightness(self) -> Tensor:
        """Return the mean training picture, ``[H, W]`` in [0, 1]."""
        return self._splits["train"].float().mean(0) / 255

    def train_dataloader(self) -> PictureBatches:
        return PictureBatches(self._splits["train"], self.batch_size, self.seed)

    def val_dataloader(self) -> PictureBatches:
        return PictureBatches(self._splits["val"], 2 * self.batch_size)

    def test_dataloader(self) -> PictureBatches:
        return PictureBatches(self._splits["test"], 2 * self.batch_size)


def black_and_white(images: Tensor, generator: torch.Generator) -> Tensor:
    """Zeros and ones of bytes: a pixel is one with its brightness as the probability."""
    noise = torch.rand(images.shape, generator=generator, device=images.device)
    return (255 * noise < images).float()
