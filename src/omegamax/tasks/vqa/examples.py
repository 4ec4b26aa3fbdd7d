"""Examples for a report: questions of every kind, and where each network looked."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from omegamax import viz
from omegamax.data import KINDS, REGIONS, Sample, SkipBroken
from omegamax.data.collate import pool
from omegamax.metrics import jensen_shannon, mass_inside
from omegamax.tasks.progress import progress
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.vqa.explain import VQAExplanation, explain
from omegamax.tasks.vqa.photographs import Photographs
from omegamax.tasks.vqa.report import Example, Look
from omegamax.tasks.vqa.task import VQATask
from omegamax.viz.picture import scale_ticks

_INCHES, _DPI = 2.6, 120  # of a picture, sharp at twice the size it is shown in
_SEARCHED = 2000  # samples among which examples are found


def draw_examples(tasks: Mapping[str, VQATask], data: VQAData, split: str, count: int) -> list[Example]:
    """Ask all networks about ``count`` samples of a split, and draw their attention in one colour scale for each."""
    samples = data.read(split)
    if data.skip_broken:
        samples = SkipBroken(samples, data.skip_broken)
    chosen = {samples[index].id: index for index in choose(samples, count)}  # one that stands in for another, once
    photographs = data.photographs
    return [_example(samples[index], tasks, photographs) for index in progress(chosen.values(), "drawing")]


def choose(samples: Any, count: int) -> list[int]:
    """Choose the first samples of each kind of question and region, in turn; none is picked for its looks."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in range(min(len(samples), _SEARCHED)):
        sample = samples.ask(index) if hasattr(samples, "ask") else samples[index]
        place = len(REGIONS) if sample.region is None else REGIONS.index(sample.region)
        groups.setdefault((place, KINDS.index(sample.kind)), []).append(index)
    queues = [groups[key] for key in sorted(groups)]
    turns = [queue[turn] for turn in range(max(map(len, queues), default=0)) for queue in queues if turn < len(queue)]
    return turns[:count]


def _example(sample: Sample, tasks: Mapping[str, VQATask], photographs: Photographs) -> Example:
    said = {name: explain(task, sample) for name, task in tasks.items()}
    image, note = photographs.of(sample)
    looks = {name: each.look for name, each in said.items()}
    vmax = viz.shared_vmax(looks, index=0)
    drawn = {name: draw(image, look, vmax) for name, look in looks.items()}
    return Example(
        sample.id,
        sample.question,
        sample.answer if sample.answers else None,
        sample.kind,
        sample.region,
        picture(image),
        None if sample.relevance is None else picture(image, relevance=sample.relevance),
        {name: _look(sample, each, *drawn[name]) for name, each in said.items()},
        scale_ticks(vmax),
        note,
    )


def _look(sample: Sample, said: VQAExplanation, drawn: bytes, marks: list[tuple[str, str]]) -> Look:
    divergence = inside = None
    if sample.relevance is not None and bool(sample.relevance.any()):
        wanted = pool(sample.relevance, (said.weights.shape[0], said.weights.shape[1]))
        weights = said.weights.cpu()
        divergence = float(jensen_shannon(weights, wanted, dim=(-2, -1)))
        inside = float(mass_inside(weights, wanted > 0, dim=(-2, -1)))
    right = sample.answers.get(said.answers[0][0], 0.0) >= 0.5 if sample.answers else None
    return Look(said.answers, drawn, divergence, inside, said.components, right, marks)


def picture(image: Tensor, look: Any = None, vmax: float | None = None, relevance: Tensor | None = None) -> bytes:
    """Return a picture with what is laid over it, as PNG, without a margin and without a key."""
    return draw(image, look, vmax, relevance)[0]


def draw(
    image: Tensor, look: Any = None, vmax: float | None = None, relevance: Tensor | None = None
) -> tuple[bytes, list[tuple[str, str]]]:
    """Draw a picture with what is laid over it, without a margin: a PNG file, and its marks for a key elsewhere."""
    from matplotlib.figure import Figure

    height = _INCHES * image.shape[1] / image.shape[2]
    figure = Figure(figsize=(_INCHES, height), dpi=_DPI)
    ax = figure.add_axes((0, 0, 1, 1))
    with viz.style():
        if relevance is not None:
            viz.outline(image, relevance, ax, key=False)
        elif look is None:
            few = image.shape[2] <= _INCHES * _DPI  # pixels that are shown as such
            ax.imshow(image.permute(1, 2, 0).numpy(), interpolation="nearest" if few else "auto", aspect="auto")
        elif isinstance(look, Tensor):
            viz.overlay(image, look, ax, vmax=vmax, index=0, key=False)
        else:
            viz.contours(image, look, ax, vmax=vmax, index=0, key=False)
        ax.set_axis_off()
        file = io.BytesIO()
        figure.savefig(file, format="png")
    return file.getvalue(), [(mark.shape, mark.text) for mark in viz.marks_of(ax)]


def save_pictures(samples: Any, folder: Path, count: int) -> dict[str, str]:
    """Write the first pictures of a set as PNG files; return their names, each with a question."""
    from matplotlib.image import imsave

    folder.mkdir(parents=True, exist_ok=True)
    asked = {}
    for index in range(min(count, len(samples))):
        sample = samples[index]
        imsave(folder / f"{sample.id}.png", sample.image.permute(1, 2, 0).numpy())
        asked[f"{sample.id}.png"] = sample.question
    return asked
