"""Small sets in the formats of the real ones."""

from __future__ import annotations

import numpy as np
import torch
from tests.data.test_mnist import write_idx


def write_digits(folder, count=120, test=60, packed=True):
    """Pictures whose class is how many rows of them are white: easily told apart. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    end = ".gz" if packed else ""
    for part, size in (("train", count), ("t10k", test)):
        labels = torch.arange(size) % 10
        images = torch.randint(60, (size, 28, 28), generator=torch.Generator().manual_seed(size))
        images += 190 * (torch.arange(28)[:, None] < 2 * labels[:, None, None])
        write_idx(folder / f"{part}-images-idx3-ubyte{end}", images, packed)
        write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels, packed)
    return str(folder)


def write_benchmark(folder, name="fox", bags=24, dim=6):
    """Vectors of noise; positive bags have one with a large first feature. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    sizes, labels = rng.integers(1, 6, bags), np.arange(bags) % 2
    ids = np.repeat(np.arange(1, bags + 1), sizes)
    features = rng.normal(size=(len(ids), dim)).astype(np.float32)
    first = np.r_[0, sizes.cumsum()[:-1]]
    features[first, 0] += 6 * labels
    np.savez(folder / f"{name}.npz", features=features, bag_ids=ids.astype(np.int16), bag_labels=labels.astype(np.int8))
    return str(folder)
