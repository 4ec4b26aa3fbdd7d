"""Captions of several networks of the same photographs: the numbers of a table, and photographs to look at."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from omegamax.data import DataError
from omegamax.data.vocabulary import tokenise
from omegamax.metrics import find_tokeniser, jensen_shannon, missing_scores, rep_score, zero_area
from omegamax.tasks.captioning.differences import find_differences
from omegamax.tasks.captioning.measures import CaptionMeasures, gather_reasons
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions
from omegamax.tasks.captioning.report import CaptionComparison, CaptionExample, CaptionLook, CaptionRow
from omegamax.tasks.progress import progress
from omegamax.tasks.report.maps import encode_map, jpeg_address
from omegamax.viz.looks import shared_vmax
from omegamax.viz.picture import scale_ticks

_PIXELS = 400  # of a photograph, along its longer side
_LEAST = 4.0  # where the colours of maps end at least, in densities: attention spread evenly is pale
_BY_WORDS = {"BLEU-1": "bleu1", "BLEU-4": "bleu4"}  # that need neither pycocoevalcap nor Java
REPEATS, DIFFER = "one repeats itself", "captions that differ most"


@dataclass(frozen=True, eq=False)
class CaptionRun:
    """What is compared of a network.

    Args:
        predictions: its captions.
        kind: of its attention; it chooses the colour.
        parameters: how many it learns; 0 where that is not known.
        rate: words that it writes in a second; None where that was not measured.
        curve: its learning curve, points with ``"step"`` and what was logged.
    """

    predictions: CaptionPredictions
    kind: str
    parameters: int = 0
    rate: float | None = None
    curve: Sequence[Mapping[str, float]] = field(default_factory=list)


def compare(
    runs: Mapping[str, CaptionRun],
    read: Callable[[str], Tensor],
    *,
    objects: Mapping[str, Sequence[str]] | None = None,
    examples: int = 24,
    themed: int = 6,
    seed: int = 0,
    title: str = "Where networks look while they write",
    about: str = "",
    settings: Mapping[str, str] | None = None,
) -> CaptionComparison:
    """Measure captions, and collect photographs with the maps of their words.

    Args:
        runs: by the names of their rows, with captions of the same photographs.
        read: returns a photograph ``[3, H, W]`` by its name.
        objects: names of what is in a photograph, by its name, where that is known.
        examples: how many photographs to show, drawn at random.
        themed: how many to show beside them whose captions repeat themselves, and how many whose captions differ most;
            none without ``examples``.
        seed: of the draw.
        title, about, settings: of the page.
    """
    images = _check_same(runs)
    known = dict(objects or {})
    away = find_differences({name: run.predictions for name, run in runs.items()}, seed=seed)
    rows = [
        CaptionRow(
            name,
            run.kind,
            {**measure_captions(run.predictions, known), "rate": run.rate},
            run.parameters,
            [dict(point) for point in run.curve],
            differences=away.get(name, {}),
        )
        for name, run in progress(list(runs.items()), "measuring")
    ]
    drawn = random.Random(seed).sample(images, min(examples, len(images)))
    themes = pick_images({name: run.predictions for name, run in runs.items()}, themed, drawn) if examples else {}
    shown = [
        make_example(
            image, {name: run.predictions[image] for name, run in runs.items()}, read, known, themes.get(image)
        )
        for image in progress([*drawn, *themes], "drawing")
    ]
    scored = any(each.references for run in runs.values() for each in run.predictions)
    missing = {name: why for name, why in missing_scores().items() if scored and name not in _BY_WORDS}
    told = {**(settings or {}), **({"tokeniser": describe_tokeniser()} if scored else {})}
    return CaptionComparison(title, about, rows, shown, told, gather_reasons(missing))


def describe_tokeniser() -> str:
    """Say how captions are cut into words for the scores that can be had here."""
    if "BLEU-1" in missing_scores():
        return "none, BLEU by torchmetrics over words in lower case"
    return "plain, as there is no Java" if find_tokeniser() == "plain" else "Penn Treebank"


def measure_captions(
    predictions: CaptionPredictions, objects: Mapping[str, Sequence[str]] | None = None
) -> dict[str, float | None]:
    """Return all measures of captions that can be had, by the names of :class:`CaptionMeasures`.

    BLEU-1 and BLEU-4 are always among them: without pycocoevalcap by torchmetrics, over words in lower case.
    Scores against references are over the photographs that have some; objects over those whose things are known.
    """
    known = objects or {}
    told = [each for each in predictions if each.references]
    measures = CaptionMeasures(full=bool(told))
    if told:
        measures.add_captions(
            [each.tokens for each in told],
            [each.references for each in told],
            [list(known.get(each.image, ())) for each in told],
        )
    measures.add_maps([each.maps for each in predictions if each.maps is not None])
    found: dict[str, float | None] = dict(measures.compute())
    for name, own in _BY_WORDS.items():
        by_words = found.pop(own, None)
        if told:
            found.setdefault(name, by_words)
    return found


def pick_images(runs: Mapping[str, CaptionPredictions], count: int, without: Sequence[str]) -> dict[str, str]:
    """Return photographs with what each is to show, ``count`` of each theme: repetitions, and captions that differ."""
    first = next(iter(runs.values()))
    rest = [image for image in first.images if image not in set(without)]

    def repeats(image: str) -> float:
        return max(_repeat(each[image]) or 0.0 for each in runs.values())

    def differ(image: str) -> float:
        said = [set(each[image].tokens) for each in runs.values()]
        pairs = [(a, b) for place, a in enumerate(said) for b in said[:place]]
        return sum(1 - len(a & b) / max(len(a | b), 1) for a, b in pairs)

    picked: dict[str, str] = {}
    for theme, score in ((REPEATS, repeats), (DIFFER, differ)):
        ranked = sorted((image for image in rest if image not in picked), key=lambda image: -score(image))
        picked |= {image: theme for image in ranked[:count] if score(image) > 0}
    return picked


def make_example(
    image: str,
    said: Mapping[str, CaptionPrediction],
    read: Callable[[str], Tensor],
    objects: Mapping[str, Sequence[str]],
    theme: str | None = None,
) -> CaptionExample:
    """Return the record of one photograph, of which each network has said something; maps have one colour scale."""
    maps = {
        f"{name} {word}": each
        for name, prediction in said.items()
        if prediction.maps is not None
        for word, each in enumerate(prediction.maps)
        if bool((each > 0).any())
    }
    vmax = shared_vmax(maps, least=_LEAST) if maps else _LEAST
    references = next((list(each.references) for each in said.values() if each.references), [])
    looks = {name: _look(each, vmax) for name, each in said.items()}
    picture = jpeg_address(read(image), _PIXELS)
    return CaptionExample(image, picture, references, looks, list(objects.get(image, ())), scale_ticks(vmax), theme)


def _look(said: CaptionPrediction, vmax: float) -> CaptionLook:
    if said.maps is None or not len(said.tokens):
        return CaptionLook(list(said.tokens), log_probability=said.log_probability, rep=_repeat(said))
    cells = said.maps.shape[1] * said.maps.shape[2]
    divergence = jensen_shannon(said.maps[:-1], said.maps[1:], dim=(-2, -1)) if len(said.maps) > 1 else None
    return CaptionLook(
        list(said.tokens),
        (said.maps.shape[1], said.maps.shape[2]),
        [encode_map(each * cells / each.sum().clamp_min(1e-30), vmax) for each in said.maps],
        said.log_probability,
        _repeat(said),
        float(zero_area(said.maps, dim=(-2, -1)).mean()),
        None if divergence is None else float(divergence.nanmean()),
    )


def _repeat(said: CaptionPrediction) -> float | None:
    if not said.references:
        return None
    return float(rep_score([said.tokens], [[tokenise(text) for text in said.references]]))


def _check_same(runs: Mapping[str, CaptionRun]) -> list[str]:
    """Refuse captions of different photographs, by the names of the networks; return those of all."""
    if not runs:
        raise ValueError("compare: runs must have a network at least, got none")
    ahead = next(iter(runs))
    images = set(runs[ahead].predictions.images)
    if not images:
        raise DataError(f"{ahead} has no caption; let it write some with `omegamax caption predict`")
    for name, run in runs.items():
        other = set(run.predictions.images)
        if other != images:
            strange = sorted(other ^ images)[0]
            where = f"{len(other)} photographs, {ahead} of {len(images)}; {strange} is of one alone"
            raise DataError(f"{name} has captions of {where}; let all caption the same part of a set")
    return list(runs[ahead].predictions.images)
