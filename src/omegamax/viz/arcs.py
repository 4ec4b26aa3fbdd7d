"""Dependency trees over the words of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, MUTED, axes_or_new, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Arc = tuple[int, int, float]

_LEAST, _CERTAIN = 0.005, 0.995  # marginals that would be written as 0.00 or 1.00 are not written
_FOOT = 0.75  # half the height of the line of words, where arcs begin; more if they go up very high
_ASIDE = 0.55  # arcs to the left and to the right leave a word this far from its middle, in letters


def arcs(
    marginals: Tensor,
    words: Sequence[str],
    *,
    below: Tensor | None = None,
    numbers: bool = True,
    colour: str = INK,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw arcs from heads to their modifiers over the words, as opaque and as thick as they are probable.

    What is exactly 0 is not drawn, what is neither 0 nor 1 has its marginal written on it. An upright arrow attaches a
    word to the root.

    Args:
        marginals: ``[n, n]``, [modifier, head] with the root on the diagonal, as :class:`DependencyTree
            <omegamax.structured.DependencyTree>` has it: marginals, or a single tree of zeros and ones.
        below: another ``[n, n]`` to compare with, drawn under the words.
        numbers: write the marginals.
        key: say beneath what arcs and arrows mean.
    """
    for argument, value in (("marginals", marginals), ("below", below)):
        if value is not None and value.shape != (len(words), len(words)):
            size, shape = len(words), tuple(value.shape)
            raise ValueError(f"arcs: {argument} must be [{size}, {size}] for {size} words, got shape {shape}")
    new, ax = ax is None, axes_or_new(ax)
    places, end = _places(words)
    for x, word in zip(places, words, strict=True):
        ax.text(x, 0, legible(word), ha="center", va="center", color=INK, fontfamily=families(word))
    sides = {1: marginals} if below is None else {1: marginals, -1: below}
    found = {side: _found(given) for side, given in sides.items()}
    levels = {side: _levels(found[side], places) for side in sides}
    tops = {side: max(heights.values(), default=0) + 1.0 for side, heights in levels.items()}
    foot = max(_FOOT, 0.06 * sum(tops.values()))
    for side in sides:
        _draw(ax, found[side], levels[side], places, side * foot, side * tops[side], numbers, colour)
    ax.set_xlim(0, end)
    ax.set_ylim(-foot - tops.get(-1, 0), foot + tops[1])
    ax.set_axis_off()
    drawn = [(i == j) for given in found.values() for i, j, _ in given]
    marks = [] if all(drawn) else [Mark("line", "from head to modifier: the thicker, the more probable", colour)]
    marks += [Mark("arrow", "upright: root of the sentence", colour)] if any(drawn) else []
    return finish(ax, title, marks, key=key, grow=new)


def _places(words: Sequence[str]) -> tuple[list[float], float]:
    """Return the middle of each word, in letters from the left, and the end; short words have room for arrows."""
    places, left = [], 0.0
    for word in words:
        width = max(len(word), 2.5) + 2.0
        places.append(left + width / 2)
        left += width
    return places, left


def _found(marginals: Tensor) -> list[Arc]:
    p = marginals.detach().double().cpu()
    return [(i, j, p[i, j].item()) for i, j in (p > 0).nonzero().tolist()]


def _levels(found: list[Arc], places: list[float]) -> dict[tuple[int, int], int]:
    """Tell how high each arc goes: above all shorter ones that it spans or crosses, so that no numbers meet."""
    levels: dict[tuple[int, int], int] = {}
    for i, j, _ in sorted(found, key=lambda arc: (abs(places[arc[0]] - places[arc[1]]), -arc[2])):
        if i != j:
            under = [h for (k, m), h in levels.items() if max(min(i, j), min(k, m)) < min(max(i, j), max(k, m))]
            levels[i, j] = 1 + max(under, default=0)
    return levels


def _draw(
    ax: Axes,
    found: list[Arc],
    levels: dict[tuple[int, int], int],
    places: list[float],
    foot: float,
    top: float,
    numbers: bool,
    colour: str,
) -> None:
    """Draw one side of the sentence: arcs from the foot on, roots to the top of all levels; both negative below."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    up = 1 if foot > 0 else -1
    for modifier, head, weight in found:
        opacity = min(0.2 + 0.8 * weight, 1.0)
        look: dict[str, Any] = {"alpha": opacity, "linewidth": 0.7 + 1.2 * weight}
        x = places[modifier]
        if modifier == head:
            middle, height = x, top - 0.3 * up
            ax.plot([x, x], [foot, foot + height], color=colour, zorder=1, solid_capstyle="butt", **look)
        else:
            aside = _ASIDE if modifier > head else -_ASIDE
            start, x = places[head] + aside, x - 0.4 * aside
            middle, height = (start + x) / 2, float(up * levels[modifier, head])
            control = foot + 4 / 3 * height  # a cubic curve goes up 3/4 of it
            curve = Path([(start, foot), (start, control), (x, control), (x, foot)], [1, 4, 4, 4])
            ax.add_patch(PathPatch(curve, fill=False, edgecolor=colour, capstyle="butt", zorder=2, **look))
        ax.plot(x, foot + 0.1 * up, "v" if up > 0 else "^", ms=4.5, mew=0, color=colour, alpha=opacity, zorder=3)
        if numbers and _LEAST <= weight < _CERTAIN:
            page = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
            here: dict[str, Any] = {"ha": "center", "va": "center", "color": MUTED, "fontsize": 7.5, "bbox": page}
            ax.text(middle, foot + height, f"{weight:.2f}", **here)
