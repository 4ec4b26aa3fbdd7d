"""One line of the goals: what is computed, beside what, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from on_gpu.clock import Reading, Run

Key = tuple[str, str]  # what is computed, and by whom


@dataclass(frozen=True)
class Goal:
    """Rivals that are made when they are needed, and the most that ours should take.

    ``unit``: ``"over"`` for a multiple of the baseline, ``"ms"``, or ``"MiB"`` at the peak.
    """

    work: str
    shape: str
    dtype: str
    way: str
    make: Callable[[], dict[Key, Run]]
    baseline: Key
    aim: float | None = None
    before: str = ""
    unit: str = "over"

    @property
    def ours(self) -> Key:
        return self.work, "omegamax"

    @property
    def title(self) -> str:
        return f"{self.work} {self.shape} {self.dtype} {self.way}"

    def names(self) -> list[Key]:
        """The keys of ours, which are those that have to be compiled."""
        return [self.ours]

    def rivals(self) -> dict[Key, Run]:
        return self.make()

    def value(self, reading: Reading, peak: float) -> float:
        """What the aim is compared with."""
        return {"over": reading.over, "ms": reading.ms, "MiB": peak}[self.unit]


def both_ways(function: Callable[..., Tensor], *leaves: Tensor) -> Run:
    """A forward pass and the gradients of its mean of squares."""
    given = [leaf.clone().requires_grad_() for leaf in leaves]

    def run() -> object:
        return torch.autograd.grad(function(*given).float().square().mean(), given)

    return run


def forward(function: Callable[..., Tensor], *inputs: Tensor) -> Run:
    """A forward pass without gradients."""

    def run() -> Tensor:
        with torch.no_grad():
            return function(*inputs)

    return run


WAYS = {"forward": forward, "forward+backward": both_ways}
