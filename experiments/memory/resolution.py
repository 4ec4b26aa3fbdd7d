"""Train digits at 28 x 28 pixels, and read them at other resolutions with the same weights.

    python experiments/memory/resolution.py                             # what has no row yet; --data FOLDER with mnist
    python experiments/memory/resolution.py --layers functions --seeds 0 --results /tmp/again

Two transformers whose positions are pixels: one attends between pixels, one between the coefficients of 8 x 8
functions. Rows go to ``results/resolution.csv``, one for each resolution.
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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.basis import grid_positions
from omegamax.data.mnist import MNIST
from omegamax.nn import ContinuousEncoderLayer
from omegamax.tasks.experiment import Arguments, name_device, tell_end
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
LAYERS = ("functions", "positions")
KEYS = ("layer", "seed", "side")
COLUMNS = (*KEYS, "accuracy", "pictures", "milliseconds", "steps", "parameters", "seconds", "device")
WAVES = 4  # that encode a position, along each axis


def rows_of(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "resolution.csv", COLUMNS, KEYS)


class Digits(torch.nn.Module):
    """A transformer over pixels, its attention between 8 x 8 functions or between all pixels."""

    def __init__(self, layer: str, dim: int = 48, heads: int = 4, layers: int = 2):
        super().__init__()
        self.embed = torch.nn.Linear(1 + 4 * WAVES, dim)
        settings: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        if layer == "functions":
            own: dict[str, Any] = {"functions": (8, 8), "transform": "softmax"}
            made = [ContinuousEncoderLayer(dim, heads, 2 * dim, **settings, **own) for _ in range(layers)]
        else:
            made = [torch.nn.TransformerEncoderLayer(dim, heads, 2 * dim, **settings) for _ in range(layers)]
        self.layers = torch.nn.ModuleList(made)
        self.out = torch.nn.Sequential(torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 10))

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores ``[B, 10]`` of images ``[B, H, W]``."""
        t = grid_positions(tuple(images.shape[1:]), device=images.device)
        angles = (math.pi * t[..., None] * torch.arange(1, WAVES + 1, device=t.device)).flatten(-2)
        places = torch.cat([angles.sin(), angles.cos()], -1).expand(len(images), -1, -1)
        x = self.embed(torch.cat([images.flatten(1).unsqueeze(-1), places], -1))
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1))


@lru_cache(maxsize=2)
def read(folder: str, split: str) -> tuple[Tensor, Tensor]:
    """Return pictures ``[N, 28, 28]`` in [0, 1] and their classes."""
    data = MNIST(Path(folder) / "mnist", split)
    return data.images.float() / 255, data.labels


def run(job: Mapping[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train one network, and measure it at each resolution: a row for each."""
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    network = Digits(job["layer"]).to(options.device)
    optimiser = torch.optim.Adam(network.parameters(), options.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total_steps=options.steps)
    images, labels = (t.to(options.device) for t in read(options.data, "train"))
    start = time.perf_counter()
    for _ in range(options.steps):
        chosen = torch.randint(len(images), (options.batch,), device=images.device)
        loss = F.cross_entropy(network(images[chosen]), labels[chosen])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    if options.device.startswith("cuda"):
        torch.cuda.synchronize()
    about = {"steps": options.steps, "seconds": round(time.perf_counter() - start, 1)}
    about |= {"parameters": sum(p.numel() for p in network.parameters()), "device": name_device(options.device)}
    same = {"layer": job["layer"], "seed": job["seed"]}
    return [{**same, "side": side, **measure(network, side, options), **about} for side in options.sides]


@torch.no_grad()
def measure(network: Digits, side: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return accuracy and time for each picture, where pictures are scaled to ``side`` pixels by averages or lines."""
    network.eval()
    # Attention between pixels takes the fourth power of the side: on a CPU fewer pictures, lest it take all day.
    dear = options.device == "cpu" and side > 28 and not isinstance(network.layers[0], ContinuousEncoderLayer)
    count = min(options.test, max(1, round(options.test * (28 / side) ** 4))) if dear else options.test
    images, labels = (t[:count].to(options.device) for t in read(options.data, "test"))
    right, batch, seconds = 0, max(1, 64 * 784 // side**2), 0.0
    batches = list(zip(images.split(batch), labels.split(batch), strict=True))
    mode = "area" if side < 28 else "bilinear"
    for place, (some, wanted) in enumerate(batches[:1] + batches):
        if place == 1:  # the first batch comes twice: what is made ready for it takes no time of a picture
            right, seconds = 0, 0.0
        scaled = F.interpolate(some.unsqueeze(1), (side, side), mode=mode).squeeze(1)
        start = time.perf_counter()
        right += int((network(scaled).argmax(-1) == wanted).sum())
        seconds += time.perf_counter() - start
    network.train()
    found = {"accuracy": round(right / count, 5), "pictures": count}
    return {**found, "milliseconds": round(1000 * seconds / count, 3)}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    add = parser.add_argument
    add("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    add("--sides", nargs="+", type=int, default=[14, 28, 56, 112], help="pixels of a side when measured")
    add("--steps", type=int, default=1500, help="of training (1500)")
    add("--batch", type=int, default=64, help="pictures in a step (64)")
    add("--rate", type=float, default=3e-3, help="of learning, at most (0.003)")
    add("--test", type=int, default=2000, help="pictures to measure with (2000)")
    return parser.parse_args()


def main() -> int:
    """Run what has no row yet."""
    options = parse()
    table = rows_of(options.results)
    jobs = [
        {"layer": layer, "seed": seed, "side": options.sides[0]}
        for seed, layer in product(options.seeds, options.layers)
    ]
    work = partial(run, options=options)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
