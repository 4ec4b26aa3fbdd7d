"""Does the area of an ellipse tell whether the answer is right: accuracy by area, a small picture for each model."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from omegamax.tasks.report.colours import colours
from omegamax.tasks.vqa.report.records import Comparison, Row

_LEFT, _TOP, _WIDTH, _HEIGHT = 44, 12, 250, 130
_LEAST = 2  # points of a curve
_ROOM = 0.06  # beside the narrowest and the widest, in shares of what lies between


def reliability_curves(comparison: Comparison) -> str:
    """Return the HTML of the curves of all densities; empty if there are none.

    The areas share one axis, so that models can be compared; whiskers are two standard errors of a mean of so many
    answers.
    """
    shown = [
        (row, colour)
        for row, colour in zip(comparison.rows, colours(comparison.rows), strict=True)
        if len(row.reliability) >= _LEAST
    ]
    areas = [point["area"] for row, _ in shown for point in row.reliability]
    room = _ROOM * (max(areas, default=0.0) - min(areas, default=0.0))
    ends = max(0.0, min(areas, default=0.0) - room), max(areas, default=0.0) + room
    return "".join(
        f'<figure class="reliability"><figcaption><span class="dot" style="--colour:{colour}"></span>'
        f"{escape(row.name)}{_auc(row)}</figcaption>{_svg(row, colour, *ends)}</figure>\n"
        for row, colour in shown
    )


def _auc(row: Row) -> str:
    return "" if row.auc is None else f' <span class="muted">AUC {row.auc:.2f}</span>'


def describe_reliability(row: Row) -> str:
    """Say in words how accurate the narrowest and the widest ellipses are.

    >>> points = [{"area": 0.02, "accuracy": 0.9, "count": 50}, {"area": 0.2, "accuracy": 0.6, "count": 50}]
    >>> describe_reliability(Row("continuous softmax", "continuous_softmax", {}, 0, reliability=points))
    'continuous softmax: 90% right where its ellipse is narrowest (2.0% of the picture), 60% where widest (20.0%)'
    """
    first, last = row.reliability[0], row.reliability[-1]
    narrow = f"{100 * first['accuracy']:.0f}% right where its ellipse is narrowest ({100 * first['area']:.1f}% of the"
    wide = f"{100 * last['accuracy']:.0f}% where widest ({100 * last['area']:.1f}%)"
    return f"{row.name}: {narrow} picture), {wide}"


def _svg(row: Row, colour: str, narrowest: float, widest: float) -> str:
    def x(area: float) -> float:
        return _LEFT + _WIDTH * (area - narrowest) / (widest - narrowest) if widest > narrowest else _LEFT

    def y(accuracy: float) -> float:
        return _TOP + _HEIGHT * (1 - min(max(accuracy, 0.0), 1.0))

    parts = []
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(tick):g}" y2="{y(tick):g}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(tick) + 4:g}" class="end">{100 * tick:.0f}%</text>')
    for share in (0.0, 0.5, 1.0):
        area = narrowest + share * (widest - narrowest)
        label = f'<text x="{x(area):g}" y="{_TOP + _HEIGHT + 18}" class="middle">{100 * area:.1f}%</text>'
        parts.append(label)
    line = " ".join(f"{x(point['area']):.1f},{y(point['accuracy']):.1f}" for point in row.reliability)
    parts.append(f'<g class="curve" style="--colour:{colour}"><polyline points="{line}"/></g>')
    for point in row.reliability:
        parts.append(_point(point, x(point["area"]), y, colour))
    middle = _LEFT + _WIDTH / 2
    parts.append(f'<text x="{middle:g}" y="{_TOP + _HEIGHT + 36}" class="middle">area of the ellipse</text>')
    width, height = _LEFT + _WIDTH + 24, _TOP + _HEIGHT + 42
    return (
        f'<svg role="img" aria-label="{escape(describe_reliability(row))}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    )


def _point(point: dict[str, float], x: float, y: Callable[[float], float], colour: str) -> str:
    accuracy, count = point["accuracy"], int(point["count"])
    error = 2 * math.sqrt(accuracy * (1 - accuracy) / count)
    high, low = (y(accuracy + side * error) for side in (1, -1))
    said = f"{100 * accuracy:.0f}% of {count} right, area {100 * point['area']:.1f}% of the picture"
    return (
        f'<g><title>{said}</title><g class="curve" style="--colour:{colour}">'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="whisker"/></g>'
        f'<circle cx="{x:.1f}" cy="{y(accuracy):.1f}" r="3.5" class="coloured" style="--colour:{colour}"/></g>'
    )
