"""What the script of a page reads, as text that is safe inside the page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from omegamax.tasks.report.colours import colours
from omegamax.tasks.report.comparison import PageComparison
from omegamax.tasks.report.records import ModelRow


def png_address(picture: bytes) -> str:
    """Return the address of a PNG file that is in the page itself."""
    return "data:image/png;base64," + b64encode(picture).decode("ascii")


def describe_model(row: ModelRow, colour: str) -> dict[str, Any]:
    """Return what curves and panels need of a model."""
    return {"name": row.name, "colour": colour, "accuracy": row.accuracy.get("overall"), "curve": row.curve}


def describe_models(rows: Sequence[ModelRow]) -> list[dict[str, Any]]:
    """Return the same of all rows, each with its colour."""
    return [describe_model(row, colour) for row, colour in zip(rows, colours(rows), strict=True)]


def describe_comparison(comparison: PageComparison[Any, Any]) -> dict[str, Any]:
    """Return all models and examples, the looks at an example in the order of the models, None where there is none."""
    examples = [asdict(example) for example in comparison.examples]
    for each in examples:
        each["looks"] = [each["looks"].get(row.name) for row in comparison.rows]
    return {"models": describe_models(comparison.rows), "baseline": None, "examples": examples}
