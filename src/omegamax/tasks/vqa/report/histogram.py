"""How many components multimodal attention chose: a small picture for each model."""

from __future__ import annotations

from html import escape

from omegamax.tasks.report.colours import colours
from omegamax.tasks.vqa.report.records import Comparison
from omegamax.tasks.vqa.report.table import mean_components

_BAR, _GAP, _HEIGHT = 44, 12, 110


def histograms(comparison: Comparison) -> str:
    """Return the HTML of all histograms of K*; empty if no model chooses."""
    shown = zip(comparison.rows, colours(comparison.rows), strict=True)
    return "".join(
        f'<figure class="histogram"><figcaption><span class="dot" style="--colour:{colour}"></span>{escape(row.name)}'
        f' <span class="muted">mean {mean_components(row):.2f}</span></figcaption>'
        f"{_svg(row.name, row.components, colour)}</figure>\n"
        for row, colour in shown
        if row.components and sum(row.components.values())
    )


def _svg(name: str, counts: dict[int, int], colour: str) -> str:
    total = sum(counts.values())
    ks = range(min(1, *counts), max(counts) + 1)
    tallest = max(counts.values())
    width = len(ks) * (_BAR + _GAP) + _GAP
    bars = []
    for index, k in enumerate(ks):
        share = counts.get(k, 0) / total
        x, height = _GAP + index * (_BAR + _GAP), _HEIGHT * counts.get(k, 0) / tallest
        middle = x + _BAR / 2
        bars.append(
            f"<g><title>K* = {k}: {counts.get(k, 0)} of {total}</title>"
            f'<rect x="{x}" y="{20 + _HEIGHT - height:.1f}" width="{_BAR}" height="{height:.1f}" rx="3" '
            f'class="coloured" style="--colour:{colour}"/>'
            f'<text x="{middle:g}" y="{14 + _HEIGHT - height:.1f}">{100 * share:.0f}%</text>'
            f'<text x="{middle:g}" y="{_HEIGHT + 38}" class="muted">{k}</text></g>'
        )
    said = ", ".join(f"{k}: {100 * counts.get(k, 0) / total:.0f}%" for k in ks)
    return (
        f'<svg role="img" aria-label="K* of {escape(name)}: {said}" width="{width}" height="{_HEIGHT + 44}" '
        f'viewBox="0 0 {width} {_HEIGHT + 44}">{"".join(bars)}'
        f'<line x1="0" x2="{width}" y1="{_HEIGHT + 20}" y2="{_HEIGHT + 20}" class="axis"/></svg>'
    )
