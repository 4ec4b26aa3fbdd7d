"""A training loop for networks on tokens that are on the device already."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
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
    torch.set_float32_matmul_precision("high")
    optimiser = torch.optim.AdamW(network.parameters(), place.rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(1, place.steps // 20)

    def rise_and_fall(step: int) -> float:
        return min((step + 1) / warm, 1.0) * 0.5 * (1 + math.cos(math.pi * step / place.steps))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rise_and_fall)
    start = time.perf_counter()
    network.train()
    for _ in range(place.steps):
        with autocast(place.device):
            value = loss(draw())
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    network.eval()
    if place.device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start
