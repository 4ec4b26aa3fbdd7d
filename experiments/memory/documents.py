"""Tell praise from blame in long reviews, with attention between functions or between words.

    python experiments/memory/documents.py                              # what has no row yet; --data FOLDER with imdb
    python experiments/memory/documents.py --layers functions --steps 20 --test 20 --seeds 0 --results /tmp/again

Two transformers over the words of a review as they stand in [0, 1]: one attends between all words, one between the
coefficients of 64 functions, whatever the length. Words are numbered once, in the file ``--words``; where it is there,
the reviews are not needed. Rows go to ``results/documents.csv``, one for each range of lengths.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.data.text import IMDB, PackedTexts, collect_vocabulary
from omegamax.nn import ContinuousEncoderLayer
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
LAYERS = ("functions", "positions")
RANGES = (0, 200, 400, 800)  # words of a review, from each on
SPANS = tuple(zip(RANGES, (*RANGES[1:], math.inf), strict=True))
KEYS = ("layer", "seed", "words_from")
COLUMNS = (*KEYS, "accuracy", "reviews", "milliseconds", "longest", "steps", "batch", "parameters", "seconds", "device")
WAVES, FUNCTIONS = 8, 64


def rows_of(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "documents.csv", COLUMNS, KEYS)


class Reviewer(torch.nn.Module):
    """A transformer over words, its attention between 64 functions or between all words."""

    def __init__(self, layer: str, words: int, dim: int = 64, heads: int = 4, layers: int = 2):
        super().__init__()
        self.words = torch.nn.Embedding(words, dim)
        torch.nn.init.normal_(self.words.weight, std=0.5)
        self.places = torch.nn.Linear(2 * WAVES, dim)
        settings: dict[str, Any] = {"dropout": 0.1, "batch_first": True, "norm_first": True}
        if layer == "functions":
            own: dict[str, Any] = {"functions": FUNCTIONS, "transform": "softmax"}
            made = [ContinuousEncoderLayer(dim, heads, 2 * dim, **settings, **own) for _ in range(layers)]
        else:
            made = [torch.nn.TransformerEncoderLayer(dim, heads, 2 * dim, **settings) for _ in range(layers)]
        self.layers = torch.nn.ModuleList(made)
        self.out = torch.nn.Sequential(torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 2))

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Return the scores ``[B, 2]`` of reviews ``[B, L]``, of which the first ``lengths`` words are there."""
        steps = torch.arange(words.shape[1], device=words.device)
        t = (steps + 0.5) / lengths[:, None]
        angles = math.pi * t[..., None] * torch.arange(1, WAVES + 1, device=t.device)
        x = self.words(words) + self.places(torch.cat([angles.sin(), angles.cos()], -1))
        padding = steps >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        there = (~padding).unsqueeze(-1).to(x.dtype)
        return self.out((x * there).sum(1) / there.sum(1))


class Reviews(NamedTuple):
    """Words of reviews one behind the other, on the device; where each begins; on the CPU, lengths and classes."""

    words: Tensor
    begin: Tensor
    lengths: Tensor
    labels: Tensor

    def take(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return words ``[B, L]``, 0 behind a review, lengths and classes of some reviews."""
        device, lengths = self.words.device, self.lengths[index]
        place = torch.arange(int(lengths.max()), device=device)
        index, lengths, labels = (each.to(device) for each in (index, lengths, self.labels[index]))
        there = place < lengths[:, None]
        at = torch.where(there, self.begin[index][:, None] + place, 0)
        return self.words[at].long() * there, lengths, labels


def write_words(folder: str, longest: int, test: int, out: Path) -> None:
    """Number the words of the reviews, cut at the longest; of the test part those of :func:`choose`."""
    train = IMDB(Path(folder) / "imdb", "train", held_out=0.01)
    vocabulary = collect_vocabulary(train, least=5)
    arrays: dict[str, Any] = {"count": vocabulary.num_words}
    for part, texts in (("train", train), ("test", IMDB(Path(folder) / "imdb", "test"))):
        packed = PackedTexts(texts, vocabulary, longest)
        kept = list(range(len(packed)))
        if part == "test":
            kept = sorted(index for low, high in SPANS for index in choose(packed.lengths, low, high, test))
        arrays[f"{part}_words"] = np.concatenate([packed[index]["words"].numpy() for index in kept]).astype(np.uint16)
        arrays[f"{part}_lengths"] = packed.lengths[kept].numpy().astype(np.int16)
        arrays[f"{part}_labels"] = packed.label[kept].numpy().astype(np.int8)
    assert arrays["count"] < 1 << 16
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **arrays)


@lru_cache(maxsize=2)
def read(path: Path, device: str) -> tuple[int, Reviews, Reviews]:
    """Return the number of words that are known, and the reviews of training and test."""
    with np.load(path) as file:
        found = []
        for part in ("train", "test"):
            lengths, labels = (
                torch.from_numpy(file[f"{part}_{name}"].astype(np.int64)) for name in ("lengths", "labels")
            )
            words = torch.from_numpy(file[f"{part}_words"].astype(np.int32)).to(device)
            found.append(Reviews(words, (lengths.cumsum(0) - lengths).to(device), lengths, labels))
        return int(file["count"]), *found


def choose(sizes: Tensor, low: float, high: float, most: int) -> list[int]:
    """Return reviews of ``low`` words and more, and less than ``high``.

    Classes stand one behind the other in the set: every n-th review, so that both are there.
    """
    mine = [index for index, size in enumerate(sizes.tolist()) if low <= size < high]
    return mine[:: max(1, len(mine) // most)][:most]


def run(job: Mapping[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train one network, and measure it on reviews of each range of lengths: a row for each."""
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    words, train, test = read(options.words, options.device)
    network = Reviewer(job["layer"], words).to(options.device)
    optimiser = torch.optim.Adam(network.parameters(), options.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total_steps=options.steps)
    start = time.perf_counter()
    for _ in range(options.steps):
        texts, lengths, labels = train.take(torch.randint(len(train.lengths), (options.batch,)))
        loss = F.cross_entropy(network(texts, lengths), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    if options.device.startswith("cuda"):
        torch.cuda.synchronize()
    about = {"longest": options.longest, "steps": options.steps, "batch": options.batch}
    about |= {"seconds": round(time.perf_counter() - start, 1), "device": name_device(options.device)}
    about |= {"parameters": sum(p.numel() for p in network.parameters())}
    rows = []
    for low, high in SPANS:
        found = measure(network, test, torch.tensor(choose(test.lengths, low, high, options.test)), options.batch)
        rows.append({"layer": job["layer"], "seed": job["seed"], "words_from": low, **found, **about})
    return rows


@torch.no_grad()
def measure(network: Reviewer, texts: Reviews, index: Tensor, batch: int) -> dict[str, Any]:
    """Return accuracy and time for each review."""
    network.eval()
    right, seconds = 0, 0.0
    for place, some in enumerate((index[:batch], *index.split(batch))):
        words, lengths, labels = texts.take(some)
        if place == 1:  # the first batch comes twice: what is made ready for it takes no time of a review
            right, seconds = 0, 0.0
        start = time.perf_counter()
        right += int((network(words, lengths).argmax(-1) == labels).sum())
        seconds += time.perf_counter() - start
    network.train()
    count = max(1, len(index))
    return {"accuracy": round(right / count, 5), "reviews": len(index), "milliseconds": round(1e3 * seconds / count, 3)}


def main() -> int:
    """Run what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    add("--words", type=Path, default=Path("words.npz"), help="file of words, made if it is not there (words.npz)")
    add("--longest", type=int, default=2000, help="words of a review that are read (2000)")
    add("--steps", type=int, default=1500, help="of training (1500)")
    add("--batch", type=int, default=32, help="reviews in a step (32)")
    add("--rate", type=float, default=2e-3, help="of learning, at most (0.002)")
    add("--test", type=int, default=1000, help="reviews of each range to measure with (1000)")
    options = parser.parse_args()
    if not options.words.exists():
        if options.data is None:
            parser.error(f"{options.words} is not there: give the folder with imdb in it, --data")
        write_words(options.data, options.longest, options.test, options.words)
    table = rows_of(options.results)
    jobs = [
        {"layer": layer, "seed": seed, "words_from": RANGES[0]}
        for seed, layer in product(options.seeds, options.layers)
    ]
    work = partial(run, options=options)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
