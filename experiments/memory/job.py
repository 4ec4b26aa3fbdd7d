"""Rows of the tables: a network with one kind of memory, trained and measured on the sorting task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from network import Sorter
from sequences import draw_sequences, sort_symbols
from torch import Tensor

from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.experiment import name_device
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
KEYS = ("length", "segment", "slots", "kind", "seed")
COLUMNS = (*KEYS, "accuracy", "loss", "steps", "batch", "rate", "parameters", "seconds", "device")
TEST = 800  # sequences


@dataclass(frozen=True)
class Place:
    """What to compute on, and for how long."""

    device: str
    steps: int
    batch: int = 32
    rate: float = 1e-3
    test: int = TEST
    plain: bool = False  # launch every kernel by itself on a GPU, too

    @property
    def captured(self) -> bool:
        """Tell whether a step of training is replayed as a CUDA graph."""
        return self.device.startswith("cuda") and not self.plain


def runs_of(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def run(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Train one network and measure it on sequences that were not seen; return its row."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # only a GPU minds
    torch.manual_seed(job["seed"])
    network = Sorter(job["kind"], job["segment"], job["slots"]).to(place.device)
    rate = torch.tensor(place.rate, device=place.device) if place.captured else place.rate
    fused = place.device.startswith("cuda")
    optimiser = torch.optim.Adam(network.parameters(), rate, fused=fused, capturable=place.captured)
    warm = max(1, place.steps // 20)
    generator = torch.Generator(place.device).manual_seed(1000 + job["seed"])
    half = torch.autocast("cuda", torch.bfloat16, enabled=place.device.startswith("cuda"))

    def take(sequences: Tensor, wanted: Tensor) -> Tensor:
        with half:
            scores = network(sequences, wanted)
        loss = F.cross_entropy(scores.float().flatten(0, 1), wanted.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        return loss.detach()

    step: Callable[..., Tensor] = take
    start = time.perf_counter()
    for done in range(place.steps):
        sequences = draw_sequences(place.batch, job["length"], generator)
        wanted = sort_symbols(sequences)
        if place.captured and step is take:
            step = CapturedStep(take, (sequences, wanted), optimiser)
        now = place.rate * min((done + 1) / warm, (place.steps - done) / (place.steps - warm + 1))
        for group in optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(now)
            else:
                group["lr"] = now
        step(sequences, wanted)
    if fused:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    about = {"steps": place.steps, "batch": place.batch, "rate": place.rate, "seconds": round(seconds, 1)}
    about |= {"parameters": sum(p.numel() for p in network.parameters()), "device": name_device(place.device)}
    return {**{name: job[name] for name in KEYS}, **measure(network, job["length"], place), **about}


@torch.no_grad()
def measure(network: Sorter, length: int, place: Place) -> dict[str, float]:
    """Return the share of symbols that are told right, and the loss; test sequences are the same for all."""
    network.eval()
    generator = torch.Generator(place.device).manual_seed(0)
    right, loss, seen = 0, 0.0, 0
    while seen < place.test:
        sequences = draw_sequences(min(place.batch, place.test - seen), length, generator)
        wanted = sort_symbols(sequences)
        scores = network(sequences, wanted).float()
        right += int((scores.argmax(-1) == wanted).sum())
        loss += float(F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum"))
        seen += len(sequences)
    network.train()
    return {"accuracy": round(right / (seen * wanted.shape[1]), 5), "loss": round(loss / (seen * wanted.shape[1]), 5)}


def count_last(length: int, last: int, test: int = TEST) -> float:
    """Return the accuracy of who counts the last symbols alone, and fills in those that are told like the networks.

    At each step the most frequent symbol that has not been told yet is named.
    """
    generator = torch.Generator().manual_seed(0)
    right = 0
    for _ in range(test):
        sequence = draw_sequences(1, length, generator)
        wanted, guess = sort_symbols(sequence)[0].tolist(), sort_symbols(sequence[:, -last:])[0].tolist()
        for symbol in wanted:
            right += guess[0] == symbol
            guess.remove(symbol)
    return right / (test * len(wanted))
