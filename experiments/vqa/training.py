"""Training of a network on splits that are in memory: what ``omegamax vqa fit`` does, with less between the steps.

A step of these small networks is hundreds of kernels of a few microseconds. Where its sizes never change and it waits
for nothing, a GPU is handed all of them at once, as a CUDA graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from omegamax.data import Ready
from omegamax.nn import MultimodalAttention
from omegamax.tasks.batches import Order
from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.scores import Scores

Batch = dict[str, Any]
LEARNT_FROM = ("question", "features", "feature_mask", "sizes", "grid", "image", "answers")
CHUNK = 500  # questions that are answered at once


@dataclass(frozen=True)
class Schedule:
    """How long and how: steps, steps from one validation to the next, norm of gradients, size and order of batches."""

    steps: int
    every: int
    clip: float
    batch_size: int
    seed: int


@dataclass(frozen=True, eq=False)
class Trained:
    """What came out: validation accuracy over time, the weights of the best, and the seconds it took."""

    curve: list[tuple[int, float]]
    best_step: int
    val_accuracy: float
    seconds: float


class Step:
    """One step of the optimiser: forward, backward, clipped gradients, AdamW."""

    def __init__(self, task: VQATask, clip: float) -> None:
        self.task, self.clip = task, clip
        self.learnt = [p for p in task.parameters() if p.requires_grad]
        device = self.learnt[0].device
        self.capturable = device.type == "cuda"
        self.rate = torch.tensor(task.rate.peak, device=device)
        rate: Any = self.rate if self.capturable else task.rate.peak
        self.optimiser = torch.optim.AdamW(
            self.learnt, rate, task.betas, weight_decay=task.weight_decay, capturable=self.capturable
        )

    def set_rate(self, rate: float) -> None:
        """Set the rate of the next step."""
        if self.capturable:
            self.rate.fill_(rate)
        else:
            self.optimiser.param_groups[0]["lr"] = rate

    def run(self, batch: Batch) -> Tensor:
        """Learn from a batch; return its loss."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.task.loss(self.task(batch).logits, batch["answers"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learnt, self.clip)
        self.optimiser.step()
        return loss.detach()


class Steps(Protocol):
    """What can be captured: steps that change a network by an optimiser."""

    task: VQATask  # one that computes: of several networks, that of all
    optimiser: torch.optim.Optimizer

    def run(self, batch: Batch) -> Tensor: ...


class Captured:
    """A step as a CUDA graph: samples are copied to the batch that it reads."""

    def __init__(self, step: Steps, batch: Batch) -> None:
        self.names = [key for key, value in batch.items() if isinstance(value, Tensor)]
        others = {key: value for key, value in batch.items() if key not in self.names}

        def run(*tensors: Tensor) -> Tensor:
            return step.run({**others, **dict(zip(self.names, tensors, strict=True))})

        self.step = CapturedStep(run, [batch[name] for name in self.names], step.optimiser)

    def run(self, batch: Batch) -> Tensor:
        """Learn from a batch; return the tensor that holds the loss until the next."""
        return self.step(*(batch[name] for name in self.names))


class CapturedEach:
    """Steps of a mixture whose number of components is drawn anew each time: a CUDA graph for each number."""

    def __init__(self, step: Steps, batch: Batch, layer: MultimodalAttention) -> None:
        drawn, most = layer.components, layer.max_components
        self.graphs = []
        layer.components = "fixed"
        for count in range(1, most + 1):
            layer.max_components = count
            self.graphs.append(Captured(step, batch))
        layer.components, layer.max_components = drawn, most

    def run(self, batch: Batch) -> Tensor:
        """Draw a number evenly, and learn from a batch."""
        return self.graphs[int(torch.randint(len(self.graphs), ()))].run(batch)


def capture(step: Steps, batch: Batch) -> Captured | CapturedEach:
    """Capture a step of any attention, in as many graphs as it has forms."""
    layer = step.task.model.output.density
    if isinstance(layer, MultimodalAttention) and layer.components == "random":
        return CapturedEach(step, batch, layer)
    return Captured(step, batch)


def batches(ready: Ready, *schedules: Schedule) -> Iterator[Batch]:
    """Cut batches from a split for as many steps as there are; the last of an epoch, if smaller, is left out.

    With several schedules, which differ in their seeds, a batch is that of the first, then that of the second, ...
    """
    some = Ready({key: value for key, value in ready.batch.items() if key in LEARNT_FROM})
    orders = [_rows(len(some), schedule, some.batch["question"].device) for schedule in schedules]
    for rows in zip(*orders, strict=True):
        yield some.__getitems__(torch.cat(rows))


def _rows(count: int, schedule: Schedule, device: torch.device) -> Iterator[Tensor]:
    """Return which of ``count`` samples make each batch."""
    order, done = Order(count, schedule.batch_size, schedule.seed), 0
    while True:
        whole = [rows for rows in order if len(rows) == schedule.batch_size]
        for rows in torch.tensor(whole, device=device):
            if done == schedule.steps:
                return
            yield rows
            done += 1
        order.set_epoch(order.epoch + 1)


def train(task: VQATask, splits: dict[str, Ready], schedule: Schedule, graph: bool = False) -> Trained:
    """Train a network, validate it every so often, and leave it with the weights of the best validation.

    Args:
        task: on the device of the splits.
        splits: ``"train"`` and ``"val"``.
        schedule: how long, and how.
        graph: capture a step as a CUDA graph.
    """
    task.train()
    step, start = Step(task, schedule.clip), time.perf_counter()
    runner: Step | Captured | CapturedEach = step
    curve: list[tuple[int, float]] = []
    best: dict[str, Tensor] = {}
    for done, batch in enumerate(batches(splits["train"], schedule)):
        if graph and done == 0:
            runner = capture(step, batch)
        step.set_rate(task.rate.peak * task.rate.factor_at(done, schedule.steps))
        runner.run(batch)
        if (done + 1) % schedule.every == 0 or done + 1 == schedule.steps:
            curve.append((done + 1, accuracy(task, splits["val"])))
            if curve[-1][1] >= max(value for _, value in curve):
                best = {name: value.detach().clone() for name, value in task.model.state_dict().items()}
    task.model.load_state_dict(best)
    task.eval()
    return summarise(curve, time.perf_counter() - start)


def summarise(curve: list[tuple[int, float]], seconds: float) -> Trained:
    """Return what came out of a training with these validations; of equals the last is the best."""
    highest = max(value for _, value in curve)
    at = max(number for number, value in curve if value == highest)
    return Trained(curve, at, highest, seconds)


@torch.no_grad()
def accuracy(task: VQATask, ready: Ready) -> float:
    """Share of the questions of a split that are answered rightly."""
    scores = Scores().to(ready.batch["question"].device)
    training = task.training
    task.eval()
    for rows in torch.arange(len(ready)).split(CHUNK):
        batch = ready.__getitems__(rows)
        scores.accuracy.update(task(batch).logits, batch["answers"], batch["kind"])
    task.train(training)
    return float(scores.accuracy.compute()["overall"])
