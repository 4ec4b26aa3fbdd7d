"""Several networks on the same questions: the numbers of a table, and examples to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch

from omegamax.data import KINDS, DataError
from omegamax.tasks.progress import progress
from omegamax.tasks.report.contenders import SAME_DATA, Contender, check_vocabulary, move_batch, time_steps
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.vqa.examples import draw_examples
from omegamax.tasks.vqa.outcomes import Outcomes
from omegamax.tasks.vqa.report import Comparison, Row
from omegamax.tasks.vqa.scores import Scores
from omegamax.tasks.vqa.task import BLIND, VQATask


def compare(
    contenders: Mapping[str, Contender[VQATask]],
    data: VQAData,
    *,
    split: str = "test",
    baseline: Contender[VQATask] | None = None,
    examples: int = 24,
    themed: int = 3,
    rounds: int = 10,
    title: str = "Where models look to answer",
    about: str = "",
    settings: Mapping[str, str] | None = None,
) -> Comparison:
    """Measure networks on a split, and draw where each looks.

    Args:
        contenders: by the name of their row.
        data: with the vocabulary that all were trained with.
        baseline: a network that sees the question only.
        examples: how many to draw, of all kinds of questions and regions in turn, the first of each.
        themed: how many to draw beside them for each theme that there are examples of, see
            :func:`~omegamax.tasks.vqa.outcomes.pick`; none without ``examples``.
        rounds: training steps of each network to time, in turns, so that all see the same machine; 0: none.
        title, about, settings: of the report.
    """
    everyone = dict(contenders)
    if baseline is not None:
        if not baseline.task.blind:
            raise DataError("the baseline sees the picture; give one that was trained blind, --model.blind true")
        if BLIND in everyone:
            raise DataError(f"a network is called {BLIND!r}, as the baseline is; give it once")
        everyone[BLIND] = baseline
    first = next(iter(data.loader(split)))
    for name, contender in everyone.items():
        _check(name, contender.task, data, first)
    if not any(bool(batch["answers"].any()) for batch in data.loader(split)):
        raise DataError(f"no question of the {split} part has a known answer; take another part, --split val")
    times = step_times({name: each.task for name, each in everyone.items()}, first, rounds)
    outcomes = {name: Outcomes() for name in everyone}
    rows = {name: _row(name, each, data, split, times.get(name), outcomes[name]) for name, each in everyone.items()}
    ahead = next(iter(contenders))
    for name in list(contenders)[1:]:
        rows[name] = replace(rows[name], difference=outcomes[name].difference(outcomes[ahead]))
    seeing = {name: each.task for name, each in contenders.items() if not each.task.blind}
    return Comparison(
        title,
        about,
        [rows[name] for name in contenders],
        None if baseline is None else rows[BLIND],
        draw_examples(seeing, data, split, examples, outcomes, themed) if seeing else [],
        dict(settings or {}),
    )


@torch.no_grad()
def evaluate(
    task: VQATask, data: VQAData, split: str = "test", what: str = "answering", outcomes: Outcomes | None = None
) -> Scores:
    """Return the measures of a network on a split; what it made of each question is added to ``outcomes``."""
    task.eval()
    scores = Scores().to(task.device)
    for batch in progress(data.loader(split), what):
        batch = move_batch(batch, task.device)
        answer = task(batch)
        scores.update(answer, batch, maps=not task.blind)
        if outcomes is not None:
            outcomes.update(answer, batch, maps=not task.blind)
    return scores


def step_times(tasks: Mapping[str, VQATask], batch: Mapping[str, Any], rounds: int) -> dict[str, float]:
    """Time a training step of each network in milliseconds, without the optimiser; the median of ``rounds``."""
    return time_steps(tasks, batch, rounds, lambda task, there: task.loss(task(there).logits, there["answers"]))


def _check(name: str, task: VQATask, data: VQAData, batch: Mapping[str, Any]) -> None:
    """Refuse a network that the data are not for, by its name."""
    check_vocabulary(name, task, data, "answers")
    if task.blind:
        return
    if "image" in batch:
        if task.model.cnn is None:
            raise DataError(f"{name} was trained on features, and the data have pictures; {SAME_DATA}")
        if task.network.grid != data.grid:
            raise DataError(f"{name} lays a grid {task.network.grid} over pictures, the data {data.grid}; {SAME_DATA}")
    elif batch["features"].shape[-1] != task.network.image_dim:
        given = batch["features"].shape[-1]
        raise DataError(f"{name} takes {task.network.image_dim} features of a cell, the data have {given}; {SAME_DATA}")


def _row(
    name: str, contender: Contender[VQATask], data: VQAData, split: str, milliseconds: float | None, outcomes: Outcomes
) -> Row:
    task = contender.task
    scores = evaluate(task, data, split, name, outcomes)
    confidence = outcomes.confidence()
    found: dict[str, Any] = scores.compute()
    accuracy = {"overall": found.get("accuracy")}
    accuracy |= {kind: found.get(f"accuracy_{kind.replace('/', '_')}") for kind in KINDS}
    return Row(
        name,
        "blind" if task.blind else task.network.output.kind,
        accuracy,
        sum(p.numel() for p in task.parameters()),
        milliseconds,
        found.get("divergence"),
        found.get("inside"),
        found.get("zero"),
        components=scores.components() or None,
        curve=[dict(point) for point in contender.curve],
        reliability=[asdict(each) for each in outcomes.reliability()],
        auc=None if confidence is None else confidence.auc,
    )
