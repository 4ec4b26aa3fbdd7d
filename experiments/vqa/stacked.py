"""Networks with the same attention, trained side by side: other seeds, rates, starts and scales of the scores.

In place of the small kernels of each network a GPU has larger ones of all. Each network has its own weights, order of
batches, dropout, rate and clipping, and keeps the weights of its own best validation; its steps are those it would make
alone. Shared is what is drawn once for a whole batch: the number of components of a random mixture.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from training import CHUNK, Batch, Captured, CapturedEach, Schedule, Trained, batches, capture, summarise

from omegamax.data import Ready
from omegamax.tasks.folded import Folded
from omegamax.tasks.stacked import RatedAdam
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.scores import Scores

EACH = ("model.output.score_scale", "model.output.numbers")
CELLS = 2500 * 196  # that are seen at once in a validation, by all networks together


def can_stack(task: VQATask) -> bool:
    """Tell whether networks like this one can be trained side by side: those with one look, and nothing else learnt."""
    output, learnt = task.network.output, [name for name, value in task.named_parameters() if value.requires_grad]
    own = [name for name in learnt if name.startswith("model.cnn.")]
    plain = output.heads == 1 and output.glimpses == 1 and output.source == "weights"
    return plain and not own and not (output.learnable and output.kind != "entmax")


class StackedStep:
    """One step of M networks: forward, backward, gradients clipped in each, AdamW with a rate for each."""

    def __init__(self, tasks: Sequence[VQATask], clip: float) -> None:
        self.folded, self.clip = Folded(tasks, EACH), clip
        self.task = cast(VQATask, self.folded.make)
        self.size, weights, first = len(tasks), self.folded.weights, tasks[0]
        self.peak = max(task.rate.peak for task in tasks)
        on_gpu = weights.device.type == "cuda"
        settings: dict[str, Any] = {"betas": first.betas, "weight_decay": first.weight_decay}
        settings |= {"decoupled_weight_decay": True, "capturable": on_gpu}
        self.adam = RatedAdam([weights], [task.rate.peak for task in tasks], **settings)
        self.optimiser = self.adam.optimiser
        self.rate = torch.tensor(self.peak, device=weights.device)
        if on_gpu:
            self.optimiser.param_groups[0]["lr"] = self.rate

    def set_rate(self, factor: float) -> None:
        """Set the rates of the next step, as a factor of their peaks."""
        if self.optimiser.param_groups[0]["lr"] is self.rate:
            self.rate.fill_(self.peak * factor)
        else:
            self.optimiser.param_groups[0]["lr"] = self.peak * factor

    def run(self, batch: Batch) -> Tensor:
        """Learn from a batch ``[M B, *]``; return the sum of the networks' losses."""
        # Each network has a part of the batch of the same size: M times the mean of all is the sum of their means.
        loss = self.size * self.task.loss(self.folded(batch).logits, batch["answers"])
        loss.backward()
        gradient = self.folded.weights.grad
        assert gradient is not None
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        gradient.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))  # as torch.nn.utils.clip_grad_norm_ does
        self.adam.step()
        return loss.detach()


def train_stacked(
    tasks: Sequence[VQATask], splits: dict[str, Ready], schedules: Sequence[Schedule], graph: bool = False
) -> list[Trained]:
    """Train networks side by side, as :func:`training.train` does with one; each is left with its best weights.

    Args:
        tasks: of the same attention, on the device of the splits; rates may have other peaks.
        splits: ``"train"`` and ``"val"``.
        schedules: of each, differing in the seed.
        graph: capture a step as a CUDA graph.
    """
    for task in tasks:
        task.train()
    first, rate = schedules[0], tasks[0].rate
    step, start = StackedStep(tasks, first.clip), time.perf_counter()
    runner: StackedStep | Captured | CapturedEach = step
    curves: list[list[tuple[int, float]]] = [[] for _ in tasks]
    best = step.folded.weights.detach().clone()
    for done, batch in enumerate(batches(splits["train"], *schedules)):
        if graph and done == 0:
            runner = capture(step, batch)
        step.set_rate(rate.factor_at(done, first.steps))
        runner.run(batch)
        if (done + 1) % first.every == 0 or done + 1 == first.steps:
            for number, value in enumerate(accuracies(step.folded, splits["val"])):
                curves[number].append((done + 1, value))
                if value >= max(value for _, value in curves[number]):
                    best[number] = step.folded.weights[number].detach()
    step.folded.hand_back(tasks, best)
    for task in tasks:
        task.eval()
    seconds = (time.perf_counter() - start) / len(tasks)  # a network's share
    return [summarise(curve, seconds) for curve in curves]


@torch.no_grad()
def accuracies(folded: Folded, ready: Ready) -> list[float]:
    """Share of the questions of a split that each network answers rightly."""
    device = ready.batch["question"].device
    scores = [Scores().to(device) for _ in range(folded.size)]
    training = folded.training
    folded.eval()
    cells = ready.batch["features"].shape[1] if "features" in ready.batch else 1
    for rows in torch.arange(len(ready)).split(max(1, min(CHUNK, CELLS // (cells * folded.size)))):
        batch = ready.__getitems__(rows)
        logits = folded(repeat(batch, folded.size)).logits.unflatten(0, (folded.size, -1))
        for score, own in zip(scores, logits, strict=True):
            score.accuracy.update(own, batch["answers"], batch["kind"])
    folded.train(training)
    return [float(score.accuracy.compute()["overall"]) for score in scores]


def repeat(batch: Batch, times: int) -> Batch:
    """Return a batch several times, one after the other."""
    return {key: torch.cat([value] * times) if isinstance(value, Tensor) else value for key, value in batch.items()}
