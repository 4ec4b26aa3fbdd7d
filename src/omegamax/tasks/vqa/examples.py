"""Examples for a report: questions of every kind, and where each network looked."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from omegamax import viz
from omegamax.data import KINDS, REGIONS, Sample, SkipBroken
from omegamax.data.collate import pool_relevance
from omegamax.metrics import jensen_shannon, mass_inside
from omegamax.tasks.progress import progress
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.vqa.explain import VQAExplanation, explain, fix_components
from omegamax.tasks.vqa.outcomes import Outcomes, pick
from omegamax.tasks.vqa.photographs import PALE, Photographs
from omegamax.tasks.vqa.report import Example, Fit, Look
from omegamax.tasks.vqa.task import VQATask
from omegamax.viz.picture import scale_ticks

_INCHES, _DPI = 2.6, 120  # of a picture, sharp at twice the size it is shown in
_SEARCHED = 2000  # samples among which examples are found


def draw_examples(
    tasks: Mapping[str, VQATask],
    data: VQAData,
    split: str,
    count: int,
    outcomes: Mapping[str, Outcomes] | None = None,
    themed: int = 0,
) -> list[Example]:
    """Ask all networks about ``count`` samples of a split, and draw their attention in one colour scale for each.

    Args:
        outcomes: what each network made of the whole split, if ``themed`` samples are to be drawn for each theme beside
            those; see :func:`~omegamax.tasks.vqa.outcomes.pick`.
    """
    samples = data.read(split)
    if data.skip_broken:
        samples = SkipBroken(samples, data.skip_broken)
    first = choose(samples, count)
    known = {name: outcomes[name] for name in tasks} if outcomes is not None and count else {}
    places: dict[int, str | None] = {**dict.fromkeys(first), **pick(known, themed, first)}
    chosen = {samples[index].id: index for index in places}  # one that stands in for another, once
    artist = _Artist(tasks, data.photographs)
    return [artist.draw(samples[index], places[index]) for index in progress(chosen.values(), "drawing")]


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


class _Artist:
    """Draws where networks look, on the pictures of a set."""

    def __init__(self, tasks: Mapping[str, VQATask], photographs: Photographs) -> None:
        self.tasks, self.photographs = tasks, photographs
        self.fixed = {name: fix_components(task) for name, task in tasks.items()}

    def draw(self, sample: Sample, theme: str | None) -> Example:
        said = {name: explain(task, sample) for name, task in self.tasks.items()}
        image, note = self.photographs.of(sample)
        vmax = viz.shared_vmax({name: each.look for name, each in said.items()}, index=0, least=PALE)
        many = sample.image is None  # colours, of a photograph
        return Example(
            sample.id,
            sample.question,
            sample.answer if sample.answers else None,
            sample.kind,
            sample.region,
            picture(image, palette=many),
            None if sample.relevance is None else picture(image, relevance=sample.relevance, palette=many),
            {name: self._look(name, sample, each, image, vmax) for name, each in said.items()},
            scale_ticks(vmax),
            note,
            theme,
        )

    def _look(self, name: str, sample: Sample, said: VQAExplanation, image: Tensor, vmax: float) -> Look:
        many, fits = sample.image is None, []
        drawn, marks = draw(image, said.look, vmax, palette=many)
        for k, task in self.fixed[name].items():
            each = said if k == said.components else explain(task, sample, 1)
            shown = (drawn, marks) if k == said.components else draw(image, each.look, vmax, palette=many)
            fits.append(Fit(k, shown[0], each.answers[0][0], _right(sample, each), shown[1]))
        return Look(
            said.answers,
            drawn,
            *_agreement(sample, said),
            components=said.components,
            right=_right(sample, said),
            marks=marks,
            fits=fits,
        )


def _right(sample: Sample, said: VQAExplanation) -> bool | None:
    return sample.answers.get(said.answers[0][0], 0.0) >= 0.5 if sample.answers else None


def _agreement(sample: Sample, said: VQAExplanation) -> tuple[float | None, float | None]:
    """Return divergence from what is relevant and mass inside it; None where nothing is."""
    divergence = inside = None
    if sample.relevance is not None and bool(sample.relevance.any()):
        wanted = pool_relevance(sample, (said.weights.shape[0], said.weights.shape[1]))
        weights = said.weights.cpu()
        divergence = float(jensen_shannon(weights, wanted, dim=(-2, -1)))
        inside = float(mass_inside(weights, wanted > 0, dim=(-2, -1)))
    return divergence, inside


def picture(
    image: Tensor,
    look: Any = None,
    vmax: float | None = None,
    relevance: Tensor | None = None,
    *,
    palette: bool = False,
) -> bytes:
    """Return a picture with what is laid over it, as PNG, without a margin and without a key."""
    return draw(image, look, vmax, relevance, palette=palette)[0]


def draw(
    image: Tensor,
    look: Any = None,
    vmax: float | None = None,
    relevance: Tensor | None = None,
    *,
    palette: bool = False,
) -> tuple[bytes, list[tuple[str, str]]]:
    """Draw a picture with what is laid over it, without a margin: a PNG file, and its marks for a key elsewhere.

    Args:
        palette: with the 256 colours that suit it best, dithered; a photograph takes a third of the bytes.
    """
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
    data = _with_palette(file) if palette else file.getvalue()
    return data, [(mark.shape, mark.text) for mark in viz.marks_of(ax)]


def _with_palette(file: io.BytesIO) -> bytes:
    from PIL import Image

    reduced = io.BytesIO()
    colours = Image.open(file).convert("RGB")
    colours.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.FLOYDSTEINBERG).save(reduced, "PNG")
    return reduced.getvalue()


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
