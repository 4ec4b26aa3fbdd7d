"""Answers to questions about pictures, and where networks looked, for people to rate."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from omegamax.data import DataError, Sample, SkipBroken
from omegamax.metrics import on_grid
from omegamax.tasks.progress import progress
from omegamax.tasks.rating import RatedLook, RatedPicture, Survey
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.vqa.explain import VQAExplanation, explain
from omegamax.tasks.vqa.task import VQATask

_CELLS, _SAMPLES = 24, 4  # of the map of a density: cells along each side, and points in a cell along each side


def survey_answers(
    tasks: Mapping[str, VQATask], data: VQAData, count: int, seed: int = 0, split: str = "test"
) -> Survey:
    """Return a survey of the answers of networks to ``count`` questions of a split, drawn at random.

    Of each answer the attention is rated once, for all its words. A question whose picture cannot be shown is passed
    over.

    Args:
        tasks: by the names of the table, none of them blind.
        data: with the vocabulary that all were trained with.
        seed: of the draw, and of the orders in the survey.
    """
    for name, task in tasks.items():
        if task.blind:
            raise DataError(f"{name} sees no picture: there is no attention to rate; leave it out")
        if task.vocabulary != data.vocabulary:
            raise DataError(f"{name} knows other words or answers than the data; rate networks of the same data")
    samples: Any = data.read(split)
    if data.skip_broken:
        samples = SkipBroken(samples, data.skip_broken)
    order = random.Random(seed).sample(range(len(samples)), len(samples))
    chosen = _choose(samples, order, data, count)
    if not chosen:
        raise DataError(f"no picture of the {split} part can be shown; give the pictures, --pictures")
    pictures = []
    for sample, image in progress(list(chosen.values()), "answering"):
        looks = {name: _look(explain(task, sample, 1)) for name, task in tasks.items()}
        pictures.append(RatedPicture(sample.id, image, looks, sample.question))
    return Survey(pictures, seed, "answers")


def _choose(samples: Any, order: Sequence[int], data: VQAData, count: int) -> dict[str, tuple[Sample, Tensor]]:
    """Return the first samples in this order whose pictures can be shown, with these, by their names."""
    chosen: dict[str, tuple[Sample, Tensor]] = {}
    for index in order:
        sample = samples[index]
        image, note = data.photographs.of(sample)
        if note is None:
            chosen.setdefault(sample.id, (sample, image))
        if len(chosen) == count:
            break
    return chosen


def _look(said: VQAExplanation) -> RatedLook:
    answer = said.answers[0][0]
    maps = said.look if isinstance(said.look, Tensor) else on_grid(said.look, (_CELLS, _CELLS), samples=_SAMPLES)
    return RatedLook(tuple(answer.split() or [answer]), (0,), maps.detach().cpu())
