"""What the script of the page reads: curves, examples, and every picture once."""

from __future__ import annotations

from typing import Any

from omegamax.tasks.report.colours import BASELINE
from omegamax.tasks.report.payload import describe_model, describe_models, png_address
from omegamax.tasks.vqa.report.key import key
from omegamax.tasks.vqa.report.records import Comparison, Example, Fit


def describe(comparison: Comparison) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    pictures: dict[bytes, int] = {}
    baseline = comparison.baseline
    data: dict[str, Any] = {
        "models": describe_models(comparison.rows),
        "baseline": None if baseline is None else describe_model(baseline, BASELINE),
        "examples": [_example(example, comparison, pictures) for example in comparison.examples],
    }
    data["pictures"] = [png_address(picture) for picture in pictures]
    if comparison.examples:
        data["key"] = key(comparison, png_address)
    return data


def _example(example: Example, comparison: Comparison, pictures: dict[bytes, int]) -> dict[str, Any]:
    def place(picture: bytes | None) -> int | None:
        return None if picture is None else pictures.setdefault(picture, len(pictures))

    looks: list[dict[str, Any] | None] = []  # in the order of the models
    for row in comparison.rows:
        look = example.looks.get(row.name)
        if look is None:
            looks.append(None)
            continue
        looks.append(
            {
                "answers": look.answers,
                "picture": place(look.picture),
                "divergence": look.divergence,
                "inside": look.inside,
                "components": look.components,
                "right": example.right(row.name),
                "marks": look.marks,
                "fits": [_fit(fit, place(fit.picture)) for fit in look.fits],
            }
        )
    return {
        "id": example.id,
        "question": example.question,
        "answer": example.answer,
        "kind": example.kind,
        "region": example.region,
        "picture": place(example.picture),
        "relevance": place(example.relevance),
        "looks": looks,
        "ticks": example.ticks,
        "note": example.note,
        "theme": example.theme,
    }


def _fit(fit: Fit, picture: int | None) -> dict[str, Any]:
    said = {"answer": fit.answer, "right": fit.right}
    return {"components": fit.components, "picture": picture, **said, "marks": fit.marks}
