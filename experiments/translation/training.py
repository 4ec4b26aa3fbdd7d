"""The loop that trains a network on pairs which lie on its device as a whole.

It makes the steps that ``omegamax translate fit`` makes with the same batches (Adam, the loss of the network, gradients
cut to a norm); batches are padded to few lengths, so that on a GPU the steps of each length are one CUDA graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.data.translation import PackedPairs
from omegamax.models.translation import Translator
from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.epoch_average import EpochEnds
from omegamax.tasks.rate import Rate

LENGTHS = (10, 14, 18, 22, 28, 36, 48, 64)  # that batches are padded to; longer pairs are left out
Side = tuple[Tensor, Tensor]  # all tokens, and where each sentence begins and ends


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Args:
        rate: learning rate over time.
        steps: of them.
        tokens: of a batch, of the longer side, padding included.
        dropout: whether merges of subwords are left out at random.
        average: epochs at the end whose last weights are averaged.
        validations: how often the loop looks at the validation part.
        clip: norm that gradients are cut to.
    """

    rate: Rate
    steps: int
    tokens: int = 4096
    dropout: bool = True
    average: int = 8
    validations: int = 4
    clip: float = 1.0


def plan(lengths: Tensor, tokens: int, seed: int, epoch: int) -> list[tuple[int, Tensor]]:
    """Return the batches of an epoch: the length they are padded to, and their rows, as many for each length.

    Of the shortest pairs some occur again, so that the last batch is full.

    >>> batches = plan(torch.tensor([3, 9, 12, 70, 5]), 20, seed=0, epoch=0)
    >>> sorted((length, sorted(rows.tolist())) for length, rows in batches)
    [(10, [0, 0]), (10, [1, 4]), (14, [2])]
    """
    generator = torch.Generator().manual_seed((seed << 32) + epoch)
    order = torch.randperm(len(lengths), generator=generator)
    order = order[lengths[order] <= LENGTHS[-1]]
    order = order[lengths[order].argsort(stable=True, descending=True)]
    batches, first = [], 0
    while first < len(order):
        length = next(each for each in LENGTHS if each >= int(lengths[order[first]]))
        count = max(1, tokens // length)
        rows = order[first : first + count]
        batches.append((length, rows[torch.arange(count) % len(rows)]))
        first += count
    return [batches[place] for place in torch.randperm(len(batches), generator=generator)]


def take(side: Side, rows: Tensor, length: int) -> Tensor:
    """Return rows of a side, ``[B, length]``, 0 behind them."""
    flat, ends = side
    begin = ends[rows].unsqueeze(1)
    place = torch.arange(length, device=flat.device)
    there = begin + place < ends[rows + 1].unsqueeze(1)
    return flat[torch.where(there, begin + place, 0)].long() * there


class Loop:
    """Trains a network; ``fit`` leaves it with the mean of its weights at the ends of the last epochs.

    Args:
        model: on its device.
        how: settings.
        captured: replay CUDA graphs; the network must make no choice by values that are on the device.
    """

    def __init__(self, model: Translator, how: Training, captured: bool) -> None:
        self.model, self.how, self.captured = model, how, captured
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.device = self.weights[0].device
        gpu = self.device.type == "cuda"
        rate = torch.tensor(how.rate.peak, device=self.device) if captured else how.rate.peak
        settings: dict[str, Any] = {"betas": (0.9, 0.98), "fused": gpu, "capturable": captured}
        self.adam = torch.optim.Adam(self.weights, rate, **settings)
        self.steps: dict[int, CapturedStep[Tensor]] = {}

    def step(self, source: Tensor, target: Tensor) -> Tensor:
        """Take one step; return the loss."""
        self.adam.zero_grad(set_to_none=True)
        loss = self.model.loss({"source": source, "target": target})
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, self.how.clip)
        self.adam.step()
        return loss.detach()

    def capture(self) -> None:
        """Make the graph of each length, the longest first: the others fit into its memory."""
        self.model.train()
        for length in reversed(LENGTHS):
            tokens = torch.full((max(1, self.how.tokens // length), length), 5, device=self.device)
            pool = self.steps[LENGTHS[-1]].pool if self.steps else None
            self.steps[length] = CapturedStep(self.step, [tokens, tokens], self.adam, pool=pool)

    def set_rate(self, done: int) -> None:
        """Set the rate of a step."""
        rate = self.how.rate.peak * self.how.rate.factor_at(done, self.how.steps)
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def fit(self, pairs: PackedPairs, seed: int, validate: Callable[[], float]) -> dict[str, Any]:
        """Train; return the validations on the way, the last loss, the number of epochs and the seconds."""
        how, start, done, epoch = self.how, time.perf_counter(), 0, 0
        if self.captured:
            self.capture()
        ends = EpochEnds(how.average)
        curve: list[float] = []
        while done < how.steps:
            self.model.train()
            if how.dropout:
                pairs.draw(epoch)
            sides = [tuple(each.to(self.device) for each in side) for side in pairs.sides]
            lengths = torch.maximum(*(side[1].diff() for side in pairs.sides))
            batches = plan(lengths, how.tokens, seed, epoch)[: how.steps - done]
            index = torch.cat([rows for _, rows in batches]).to(self.device).split([len(rows) for _, rows in batches])
            for (length, _), rows in zip(batches, index, strict=True):
                self.set_rate(done)
                source, target = (take(side, rows, length) for side in sides)  # type: ignore[arg-type]
                loss = self.steps[length](source, target) if self.captured else self.step(source, target)
                done += 1
            epoch += 1
            ends.keep(done, self.weights)
            if done >= how.steps * (len(curve) + 1) / how.validations and done < how.steps:
                curve.append(round(validate(), 2))
        with torch.no_grad():
            for weight, mean in zip(self.weights, ends.mean(done, self.weights), strict=True):
                weight.copy_(mean)
        return {
            "curve": " ".join(map(str, curve)),
            "train_loss": round(float(loss), 4),
            "epochs": epoch,
            "train_seconds": round(time.perf_counter() - start, 1),
        }
