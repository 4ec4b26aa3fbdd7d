"""A training loop for networks on tokens that are on the device already."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Place:
    """What to compute on, and for how long."""

    device: str
    steps: int
    batch: int
    length: int
    rate: float


def autocast(device: str) -> torch.autocast:
    """Return the context of half precision, on a GPU alone."""
    return torch.autocast("cuda", torch.bfloat16, enabled=device.startswith("cuda"))


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
    optimiser = torch.optim.AdamW(network.parameters(), place.rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
    for step in range(1, place.steps + 1):
        with autocast(place.device):
            value = loss(draw())
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        yield step


def _end(network: torch.nn.Module, place: Place, start: float) -> float:
    """Return the seconds since ``start``, once all is computed; the network is ready to be asked."""
    network.eval()
    if place.device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start
