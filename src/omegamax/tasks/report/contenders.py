"""Trained networks that are compared: loaded with their curves, timed in turns, told apart on the same examples."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from omegamax.data import DataError
from omegamax.tasks.callbacks import read_curve
from omegamax.tasks.progress import progress
from omegamax.tasks.run_task import RunTask, load_tasks

SAME_DATA = "compare networks that were trained on the same data"
Kind = TypeVar("Kind", bound=RunTask)


@dataclass(frozen=True, eq=False)
class Contender(Generic[Kind]):
    """A trained network, and its learning curve: points with ``"step"`` and what was logged."""

    task: Kind
    curve: Sequence[Mapping[str, float]] = field(default_factory=list)


def load_contenders(kind: type[Kind], paths: Sequence[Path]) -> dict[str, Contender[Kind]]:
    """Load trained networks from folders of runs or files, with the curves beside them, by name."""
    tasks = load_tasks(kind, paths)
    return {name: Contender(task, read_curve(path)) for (name, task), path in zip(tasks.items(), paths, strict=True)}


def time_steps(
    tasks: Mapping[str, Kind], batch: Mapping[str, Any], rounds: int, loss: Callable[[Kind, dict[str, Any]], Tensor]
) -> dict[str, float]:
    """Time a training step of each network in milliseconds, without the optimiser; the median of ``rounds``.

    They take turns, so that all see the same machine.
    """
    if not rounds:
        return {}
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in progress(range(rounds + 1), "timing"):
        for name, task in tasks.items():
            task.train()
            there = move_batch(batch, task.device)
            _wait(task.device)
            start = time.perf_counter()
            loss(task, there).backward()
            _wait(task.device)
            if turn:  # the first prepares what later ones find ready
                spent[name].append(1e3 * (time.perf_counter() - start))
            task.zero_grad(set_to_none=True)
            task.eval()
    return {name: statistics.median(times) for name, times in spent.items()}


def compare_paired(scores: Tensor, first: Tensor) -> tuple[float, float, float]:
    """Return the mean difference of scores ``[N]`` from others on the same examples, and the ends of its 95 % interval.

    Differences are paired: their mean, and 1.96 standard errors to both sides.

    >>> compare_paired(torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 0.0, 1.0]))
    (0.25, -0.24, 0.74)
    """
    gaps = (scores - first).double()
    mean, error = float(gaps.mean()), float(gaps.std() / len(gaps) ** 0.5) if len(gaps) > 1 else math.inf
    return mean, mean - 1.96 * error, mean + 1.96 * error


def check_vocabulary(name: str, task: Any, data: Any, answers: str) -> None:
    """Refuse a network that knows other words or answers than the data, by its name.

    Args:
        task, data: with a ``vocabulary`` each.
        answers: what they are, ``"classes"``.
    """
    if task.vocabulary != data.vocabulary:
        known = f"{task.vocabulary}, not {data.vocabulary}"
        raise DataError(f"{name} knows other words or {answers} than the data: {known}; {SAME_DATA}")


def move_batch(batch: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the batch with its tensors on the device."""
    return {key: value.to(device) if isinstance(value, Tensor) else value for key, value in batch.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
