"""A training loop for networks on tokens that are on the device already; on a GPU a step is one CUDA graph."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.tasks.captured import CapturedStep


@dataclass(frozen=True)
class Place:
    """What to compute on, and for how long."""

    device: str
    steps: int
    batch: int
    length: int
    rate: float
    plain: bool = False  # launch every kernel by itself on a GPU, too

    @property
    def captured(self) -> bool:
        """Tell whether a step of training is replayed as a CUDA graph: batches then have one shape."""
        return self.device.startswith("cuda") and not self.plain


def autocast(device: str) -> torch.autocast:
    """Return the context of half precision, on a GPU alone."""
    return torch.autocast("cuda", torch.bfloat16, enabled=device.startswith("cuda"))


def in_half(loss: Callable[[Tensor], Tensor], device: str) -> Callable[[Tensor], Tensor]:
    """Return a loss that is computed in half precision on a GPU."""

    def halved(batch: Tensor) -> Tensor:
        with autocast(device):
            return loss(batch)

    return halved


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a run script says of training."""
    parser.add_argument("--plain", action="store_true", help="no CUDA graphs")


def train(network: torch.nn.Module, place: Place, draw: Callable[[], Any], loss: Callable[[Any], Tensor]) -> float:
    """Train by AdamW with a rate that rises over a twentieth of the steps and falls as a cosine; return the seconds."""
    warm = max(1, place.steps // 20)

    def rise_and_fall(step: int) -> float:
        return min((step + 1) / warm, 1.0) * 0.5 * (1 + math.cos(math.pi * step / place.steps))

    start = time.perf_counter()
    network.train()
    for _ in _take_steps(network, place, draw, loss, rise_and_fall):
        pass
    return _end(network, place, start)


def train_until(
    network: torch.nn.Module,
    place: Place,
    draw: Callable[[], Any],
    loss: Callable[[Any], Tensor],
    is_learnt: Callable[[], bool],
) -> tuple[int, float]:
    """Train by AdamW until the task is learnt, then a quarter as long with a rate that falls to 0.

    The rate rises over 50 steps and stays until ``is_learnt``, asked every hundred steps in evaluation mode, says so.
    There are ``place.steps`` at most, the last fifth of which has the falling rate in any case.

    Returns:
        how many steps were taken, and the seconds.
    """
    falls_from = max(1, place.steps * 4 // 5)

    def rise_and_fall(step: int) -> float:
        return min((step + 1) / 50, 1.0, max(0.0, 1 - (step - falls_from) / (falls_from / 4)))

    start, taken = time.perf_counter(), 0
    network.train()
    for taken in _take_steps(network, place, draw, loss, rise_and_fall):
        if taken % 100 == 0 and taken < falls_from:
            network.eval()
            falls_from = taken if is_learnt() else falls_from
            network.train()
        if taken >= falls_from * 5 // 4:
            break
    return taken, _end(network, place, start)


def _take_steps(
    network: torch.nn.Module,
    place: Place,
    draw: Callable[[], Any],
    loss: Callable[[Any], Tensor],
    factor: Callable[[int], float],
) -> Iterator[int]:
    """Take steps of AdamW with the rate times a factor; yield how many there were, after each."""
    torch.set_float32_matmul_precision("high")
    rate = torch.tensor(place.rate, device=place.device) if place.captured else place.rate
    settings: dict[str, Any] = {"betas": (0.9, 0.98), "weight_decay": 0.01, "capturable": place.captured}
    optimiser = torch.optim.AdamW(network.parameters(), rate, fused=place.device.startswith("cuda"), **settings)

    def step(*batch: Tensor) -> Tensor:
        value = loss(batch if len(batch) > 1 else batch[0])
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        return value.detach()

    take: Callable[..., Tensor] = step
    for done in range(place.steps):
        drawn = draw()
        batch = drawn if isinstance(drawn, tuple) else (drawn,)
        if place.captured and take is step:
            take = CapturedStep(step, batch, optimiser)
        for group in optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(place.rate * factor(done))
            else:
                group["lr"] = place.rate * factor(done)
        take(*batch)
        yield done + 1


def _end(network: torch.nn.Module, place: Place, start: float) -> float:
    """Return the seconds since ``start``, once all is computed; the network is ready to be asked."""
    network.eval()
    if place.device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start
