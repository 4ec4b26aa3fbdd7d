"""The tokens of IMDB's reviews in one file, and the windows that networks read.

    python experiments/language/corpus.py --data FOLDER --out tokens.npz

makes the file once: 8,000 byte-level tokens are learnt from the training part, and all parts are written with them.
Where it is there, neither the reviews nor the ``tokenizers`` library are needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omegamax.tasks.language import IMDBReviewsData

END = 2  # the token behind each review, and before the first
PARTS = ("train", "val", "test")


def write_tokens(folder: str, out: Path, size: int) -> None:
    """Learn tokens, and write those of all parts, two bytes each, and the vocabulary beside them."""
    data = IMDBReviewsData(folder, size=size)
    streams = {part: data.stream(part).tokens.numpy().astype(np.uint16) for part in PARTS}
    np.savez_compressed(out, size=len(data.vocabulary), **streams)
    out.with_suffix(".json").write_text(json.dumps(data.vocabulary.to_dict(), ensure_ascii=False), encoding="utf-8")


def read_tokens(path: str | Path, device: str = "cpu") -> tuple[int, dict[str, Tensor]]:
    """Return the number of tokens there are, and the streams of the parts, int64."""
    with np.load(path) as file:
        streams = {part: torch.from_numpy(file[part].astype(np.int64)).to(device) for part in PARTS}
        return int(file["size"]), streams


def draw_windows(stream: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """Return windows ``[batch, length + 1]`` from random places of a stream."""
    first = torch.randint(len(stream) - length, (batch, 1), generator=generator, device=stream.device)
    return stream[first + torch.arange(length + 1, device=stream.device)]


def list_windows(stream: Tensor, length: int, most: int | None = None) -> Tensor:
    """Return windows ``[N, length + 1]`` one behind the other, of whole ones the first ``most``."""
    return stream.unfold(0, length + 1, length)[:most]


def list_reviews(stream: Tensor, length: int, most: int | None = None) -> Tensor:
    """Return the beginnings ``[N, length + 1]`` of the reviews that are as long as that, the first ``most``."""
    ends = (stream == END).nonzero()[:, 0]
    first = ends[:-1][ends.diff() >= length][:most]
    return stream[first[:, None] + torch.arange(length + 1, device=stream.device)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of IMDB's files")
    parser.add_argument("--out", type=Path, default=Path("tokens.npz"))
    parser.add_argument("--size", type=int, default=8000)
    given = parser.parse_args()
    write_tokens(given.data, given.out, given.size)
