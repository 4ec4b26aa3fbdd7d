"""A text, and over its words the attention that they were paid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, axes_or_new, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omegamax.densities import Density

COLUMNS = 84  # letters in a line
LINE = 0.46  # inches that a line takes, with what is drawn above it
PALE = "#a5aeb8"  # of a word with exactly no attention
_LETTER = 0.602 * 9 / 72  # inches that a letter of the font takes
_POINTS = 12  # of a density, in each word
_HEIGHT, _UP = 0.52, 0.30  # of a bar over a word, and from the middle of the line to its foot; in lines


@torch.no_grad()
def words(
    text: Sequence[str],
    weights: Tensor | None = None,
    *,
    density: Density | None = None,
    empty: Tensor | None = None,
    columns: int = COLUMNS,
    colour: str = INK,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Write the words of a text in lines, with bars of their weights or a density drawn above them.

    Each word has as much of the unit interval as any other: over it stands its piece of the density, stretched to its
    letters. A word with exactly no attention is grey. A word that is longer than a line is cut. A text that begins in a
    script written from right to left runs that way, with all that is drawn.

    Args:
        text: L words.
        weights: ``[L]``, drawn as bars; the largest has full height.
        density: one over the unit interval; drawn as a curve whose peak has full height.
        empty: bool ``[L]``, which words have exactly no attention; None: those of weight 0.
        columns: letters in a line.
        key: say beneath what grey means, if a word is.
    """
    length = len(text)
    for name, given in (("weights", weights), ("empty", empty)):
        if given is not None and given.shape != (length,):
            raise ValueError(f"words: {name} must be [{length}], one for each word, got shape {tuple(given.shape)}")
    if density is not None and (density.event_shape != (1,) or density.batch_shape.numel() != 1):
        shapes = f"batch shape {tuple(density.batch_shape)}, event shape {tuple(density.event_shape)}"
        raise ValueError(f"words: density must be a single density over one dimension, got {shapes}")
    new = ax is None
    written = write_words(text, columns)
    places = place_words(written, columns)
    leftwards = runs_leftwards(text)
    ax = axes_or_new(ax)
    if new:
        ax.figure.figure.set_size_inches(columns * _LETTER + 0.4, LINE * (places[-1][0] + 1) + 0.4)
    if empty is None:
        empty = torch.zeros(length, dtype=torch.bool) if weights is None else weights == 0
    for word, (line, start, _), none in zip(written, places, empty.tolist(), strict=True):
        look: Any = {"family": ["DejaVu Sans Mono", *families(word)], "fontsize": 9, "va": "center"}
        look["ha"] = "right" if leftwards else "left"
        # The axes are as wide as a line: a layout need not measure every word.
        ax.text(start, -line, word, color=PALE if none else INK, **look).set_in_layout(False)
    if weights is not None:
        _draw_bars(ax, weights.detach().double().cpu(), places, colour, 0.3 if density is not None else 0.85)
    if density is not None:
        _draw_curve(ax, density, places, colour)
    ax.set_xlim(*((columns, -0.5) if leftwards else (-0.5, columns)))
    ax.set_ylim(-places[-1][0] - 0.4, _UP + _HEIGHT + 0.1)
    ax.axis("off")
    found = [Mark("word", "word with exactly no attention", PALE)] if bool(empty.any()) else []
    return finish(ax, title, found, key=key, grow=new)


def write_words(text: Sequence[str], columns: int = COLUMNS) -> list[str]:
    """Return what is written for each word: characters that no font has as escapes, and at most a line of it.

    >>> write_words(["a", "good", "unforgettable"], columns=8)
    ['a', 'good', 'unforge\u2026']
    """
    shown = [legible(word[: columns + 1]) for word in text]
    return [word if _measure(word) <= columns else word[: max(columns - 1, 1)] + "\u2026" for word in shown]


def runs_leftwards(text: Sequence[str]) -> bool:
    """Tell whether the first letter of a text is of a script that is written from right to left.

    >>> runs_leftwards(["1", "\u05e9\u05dc\u05d5\u05dd"]), runs_leftwards(["peace"])
    (True, False)
    """
    directions = (unicodedata.bidirectional(c) for word in text for c in word)
    return next((each for each in directions if each in ("L", "R", "AL")), "L") != "L"


def place_words(text: Sequence[str], columns: int = COLUMNS) -> list[tuple[int, int, int]]:
    """Return line, first column and width of each word; one that is longer than a line has a line of its own.

    >>> place_words(["a", "good", "film"], columns=7)
    [(0, 0, 1), (0, 2, 4), (1, 0, 4)]
    """
    places, line, column = [], 0, 0
    for word in text:
        width = _measure(word)
        if column and column + width > columns:
            line, column = line + 1, 0
        places.append((line, column, width))
        column += width + 1
    return places


def _measure(word: str) -> int:
    """Return how many columns a word takes: two for a wide character, none for a mark that goes on top of another."""
    marks = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in word)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in word)
    return max(1, len(word) + wide - marks)


def count_lines(text: Sequence[str], columns: int = COLUMNS) -> int:
    """Tell how many lines a text takes."""
    return place_words(write_words(text, columns), columns)[-1][0] + 1


@torch.no_grad()
def sample_density(density: Density, length: int, points: int) -> Tensor:
    """Return a density of one text at ``points`` steps of each of its words, ``[length * points + 1]`` in float64.

    Args:
        density: one over the unit interval, of which each of ``length`` words has as much as any other.
    """
    like = density.mean
    t = torch.linspace(0, length, length * points + 1, dtype=like.dtype, device=like.device)
    return density.prob((t / length).view(-1, *(1 for _ in density.batch_shape), 1)).double().flatten().cpu()


def _draw_bars(ax: Axes, weights: Tensor, places: Sequence[tuple[int, int, int]], colour: str, alpha: float) -> None:
    top = float(weights.max())
    if top <= 0:
        return
    for weight, (line, start, width) in zip(weights.tolist(), places, strict=True):
        if weight > 0:
            ax.bar(start, _HEIGHT * weight / top, width, _UP - line, align="edge", color=colour, alpha=alpha, lw=0)


def _draw_curve(ax: Axes, density: Density, places: Sequence[tuple[int, int, int]], colour: str) -> None:
    p = sample_density(density, len(places), _POINTS)
    top = float(p.max())
    if not top > 0:
        return
    lines: dict[int, tuple[list[float], list[float]]] = {}
    for index, (line, start, width) in enumerate(places):
        x, y = lines.setdefault(line, ([], []))
        piece = slice(index * _POINTS, (index + 1) * _POINTS + 1)
        x += [start - 0.5 + (width + 1) * step / _POINTS for step in range(_POINTS + 1)]
        y += (_HEIGHT * p[piece] / top).tolist()
    for line, (x, y) in lines.items():
        foot = _UP - line
        ax.fill_between(x, foot, [foot + each for each in y], color=colour, alpha=0.2, lw=0)
        curve = [foot + each if each > 0 else float("nan") for each in y]
        ax.plot(x, curve, color=colour, lw=1.4, clip_on=False)
