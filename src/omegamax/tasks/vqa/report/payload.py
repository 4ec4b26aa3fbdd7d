"""What the script of the page reads: curves, examples, and every picture once."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from omegamax.tasks.vqa.report.colours import BASELINE, colours
from omegamax.tasks.vqa.report.key import key
from omegamax.tasks.vqa.report.records import Comparison, Example, Fit, Row


def payload(comparison: Comparison) -> str:
    r"""Return JSON that is safe inside a ``<script>`` element: no text in it can end the element or open a comment.

    >>> payload(Comparison("</script>", "", [Row("<!--", "softmax", {}, 0)]))[:31]
    '{"models": [{"name": "\\u003c!--'
    """
    pictures: dict[bytes, int] = {}
    rows, baseline = comparison.rows, comparison.baseline
    data: dict[str, Any] = {
        "models": [_model(row, colour) for row, colour in zip(rows, colours(rows), strict=True)],
        "baseline": None if baseline is None else _model(baseline, BASELINE),
        "examples": [_example(example, comparison, pictures) for example in comparison.examples],
    }
    data["pictures"] = [_address(picture) for picture in pictures]
    if comparison.examples:
        data["key"] = key(comparison, _address)
    text = json.dumps(data, allow_nan=False)  # ASCII, so that U+2028 and its like are escaped too
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _address(picture: bytes) -> str:
    return "data:image/png;base64," + b64encode(picture).decode("ascii")


def _model(row: Row, colour: str) -> dict[str, Any]:
    return {"name": row.name, "colour": colour, "accuracy": row.accuracy.get("overall"), "curve": row.curve}


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
