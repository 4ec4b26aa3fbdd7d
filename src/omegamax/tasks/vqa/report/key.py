"""The key of the page: samples of all marks that occur in the pictures, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omegamax.tasks.vqa.report.records import Comparison
from omegamax.viz import Mark, swatch
from omegamax.viz.contours import HALF, PART
from omegamax.viz.ellipses import ENDS
from omegamax.viz.outline import MATTERS
from omegamax.viz.picture import LABEL, ROUND, ZERO, scale_picture

# What may occur in a look, for pictures of which it is not known what does.
MARKS = [
    ("hatch", ZERO),
    ("cells", ROUND),
    ("edge", ENDS),
    ("rings", "equal density"),
    ("dashes", HALF),
    ("mean", PART),
]
RELEVANT = ("cells", MATTERS)


def key(comparison: Comparison, address: Callable[[bytes], str]) -> dict[str, Any]:
    """Draw a sample of each shape that occurs, and the colour scale.

    Args:
        address: of a PNG file in the page.
    """
    looks = [look for example in comparison.examples for look in example.looks.values()]
    shapes = {shape for look in looks for shape, _ in (MARKS if look.marks is None else look.marks)} | {RELEVANT[0]}
    shapes |= {shape for look in looks for fit in look.fits for shape, _ in fit.marks}
    return {
        "samples": {shape: address(swatch(Mark(shape, ""))) for shape in sorted(shapes)},
        "scale": address(scale_picture()),
        "label": LABEL,
        "marks": MARKS,
        "relevant": RELEVANT,
    }
