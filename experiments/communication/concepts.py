"""Divide the pictures of clothes into concepts: 46 kinds of each of the ten classes, by their pixels.

python experiments/communication/concepts.py --data FOLDER

writes ``concepts.npz``: the concept of each training and of each test picture. The file comes with the experiment; this
is how it was made. Candidates of a game are of different concepts, and ten classes are too few for sixteen of them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from settings import CLASSES, SET
from torch import Tensor

from omegamax.data import MNIST

FILE = Path(__file__).with_name("concepts.npz")
KINDS_OF_CLASS, ROUNDS = 46, 30


def divide(pictures: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return ``count`` centres of pictures ``[N, D]`` by k-means, from pictures that are drawn."""
    centres = pictures[torch.randperm(len(pictures), generator=generator)[:count]]
    for _ in range(ROUNDS):
        nearest = find_nearest(pictures, centres)
        size = nearest.bincount(minlength=count)
        total = torch.zeros_like(centres).index_add(0, nearest, pictures)
        centres = torch.where(size[:, None] > 0, total / size.clamp(min=1)[:, None], centres)
    return centres


def find_nearest(pictures: Tensor, centres: Tensor) -> Tensor:
    """Return the index of the centre nearest to each picture."""
    return (centres.square().sum(1) - 2 * pictures @ centres.T).argmin(1)


def make_concepts(folder: Path, kinds: int = KINDS_OF_CLASS) -> dict[str, Tensor]:
    """Return the concepts of the training and of the test pictures: centres are those of the training pictures."""
    generator = torch.Generator().manual_seed(0)
    parts = {split: MNIST(folder, split) for split in ("train", "test")}
    found = {split: torch.zeros(len(part), dtype=torch.long) for split, part in parts.items()}
    for label in range(CLASSES):
        own = {split: part.labels == label for split, part in parts.items()}
        pixels = {split: part.images[own[split]].flatten(1).float() / 255 for split, part in parts.items()}
        centres = divide(pixels["train"], kinds, generator)
        for split in parts:
            found[split][own[split]] = label * kinds + find_nearest(pixels[split], centres)
    return found


def read_concepts(path: Path = FILE) -> tuple[Tensor, Tensor]:
    """Return the concepts of the training and of the test pictures."""
    with np.load(path) as file:
        return torch.from_numpy(file["train"].astype(np.int64)), torch.from_numpy(file["test"].astype(np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("OMEGAMAX_DATA"), help="folder with the folder of the set")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    if options.data is None:
        parser.error("give the folder with the sets, --data or the variable OMEGAMAX_DATA")
    found = make_concepts(Path(options.data) / SET)
    np.savez_compressed(options.out, **{split: each.numpy().astype(np.uint16) for split, each in found.items()})
    for split, each in found.items():
        size = each.bincount()
        print(f"{split}: {int((size > 0).sum())} concepts of {int(size.min())} to {int(size.max())} pictures")


if __name__ == "__main__":
    main()
