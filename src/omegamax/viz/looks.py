"""Where several models look, side by side."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.densities import Density
from omegamax.viz._region import region
from omegamax.viz.contours import contours, field, peak
from omegamax.viz.key import draw_key, style_bar
from omegamax.viz.outline import outline
from omegamax.viz.overlay import overlay
from omegamax.viz.picture import LABEL, cells, check_zeros, end, lay, norm, pixels, shades, ticks
from omegamax.viz.style import INK, MUTED, families, legible, panels, pyplot, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Look = Tensor | Density

RIGHT, WRONG = "#1f7a4d", "#c0392b"
_WIDTH, _TITLE, _QUESTION, _ANSWER, _NOTE = 2.3, 0.3, 0.26, 0.19, 0.15  # inches; of a panel, and heights of lines
_COLUMNS = 7  # panels in a row
_OUTLIER = 4.0  # one look may not stretch the colours further than this, in medians of the peaks
_LETTERS = {"question": 18, "answer": 21, "note": 28, "name": 25}  # in the width of a panel


def looks(
    image: Tensor,
    looks: Mapping[str, Look],
    *,
    question: str | None = None,
    answers: Mapping[str, str] | None = None,
    truth: str | None = None,
    relevance: Tensor | None = None,
    notes: Mapping[str, str] | None = None,
    columns: int | None = None,
    vmax: float | None = None,
    index: int | tuple[int, ...] | None = None,
    zeros: str | None = "hatch",
    heading: str = "picture",
) -> Figure:
    """Draw the picture and, next to it, where each model looks at it, all in one colour scale.

    Discrete attention is drawn by :func:`overlay` and densities by :func:`contours`, both in density per unit area:
    the scale at the right says how many times more there is than if attention were spread evenly, and the key beneath
    what the marks mean that occur. Text may be in any script that an installed font has.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1].
        looks: by name, weights ``[h, w]`` or a single density over the unit square.
        question: written on top.
        answers: those of the models, by the same names, written beneath. If there is a ``truth``, a tick or a cross and
            a colour say which are right; case does not count.
        truth: the right answer, beneath the picture.
        relevance: ``[h, w]`` at any resolution, a panel of its own, see :func:`outline`.
        notes: more to write beneath some of the looks, such as a divergence.
        columns: panels in a row, by default up to 7.
        vmax: the density from which on colours are the darkest; :func:`shared_vmax` by default.
        index: which member of all looks, if they are batches of weights ``[*, h, w]`` and of densities.
        zeros: how exact zeros are marked, ``"hatch"``, ``"white"`` or None.
        heading: of the picture itself.

    Reference: figures 5 to 7 of Farinhas, Martins and Aguiar (2021).
    """
    picture = pixels("looks", image)
    last = end("looks", vmax, _common("looks", looks, index))
    _check(looks, answers, notes, columns)
    check_zeros("looks", zeros)
    matters = relevance is not None and bool(cells("looks", "relevance", relevance).any())
    count = 1 + (relevance is not None) + len(looks)
    # Rows of about the same length, none longer than the limit.
    across = math.ceil(count / math.ceil(count / _COLUMNS)) if columns is None else int(columns)
    across = min(across, count)
    legible(" ".join([question or "", truth or "", *looks, *(answers or {}).values(), *(notes or {}).values()]))
    asked = None if question is None else _wrap(question, "question", across)
    said = {name: _wrap(text, "answer") for name, text in (answers or {}).items()}
    noted = {name: _wrap(text, "note") for name, text in (notes or {}).items()}
    ratio = min(max(picture.shape[0] / picture.shape[1], 0.25), 4.0)
    names = max(_wrap(name, "name").count("\n") for name in looks)  # lines beyond the first
    height = _WIDTH * ratio + _TITLE + _ANSWER * (names + _tallest(said, truth)) + _NOTE * _tallest(noted)
    with style():
        figure, axes = panels(count, across, size=(_WIDTH, height))
        if asked is not None:
            figure.set_figheight(figure.get_figheight() + _QUESTION * len(asked.split("\n")))
            letters: dict[str, Any] = {
                "fontsize": 13,
                "fontweight": "bold",
                "fontfamily": families(asked),
                "parse_math": False,
            }
            figure.suptitle(asked, x=0.01, ha="left", **letters)
        rest = iter(axes)
        ax = next(rest)
        lay(ax, picture)
        _caption(ax, heading, None if truth is None else f"answer: {truth}", INK)
        if relevance is not None:
            ax = outline(image, relevance, next(rest), key=False)
            _caption(ax, "what matters", None if matters else "nothing in particular", MUTED)
        for name, look in looks.items():
            if isinstance(look, Tensor):
                ax = overlay(image, look, next(rest), vmax=last, index=index, zeros=zeros, key=False)
            else:
                ax = contours(image, look, next(rest), vmax=last, index=index, zeros=zeros, key=False)
            _caption(ax, name, *_mark_answer((answers or {}).get(name), truth), note=noted.get(name))
        _bar(figure, axes, last)
        draw_key(figure, grow=True)
    return figure


def shared_vmax(looks: Mapping[str, Look], *, index: int | tuple[int, ...] | None = None, least: float = 0.0) -> float:
    """Return an end of the colour scale for pictures that stand side by side: the largest density of any.

    One that is much higher than the others (more than four times the median of the peaks) does not count in full, so
    that it does not leave the others pale; it has the darkest colour then from below its peak.

    Args:
        looks: as for :func:`looks`; ``index`` too.
        least: the scale ends no lower, so that attention spread nearly evenly is pale and the picture shows through.

    >>> shared_vmax({"even": torch.full((2, 2), 0.25), "on the diagonal": torch.eye(2) / 2})
    2.0
    """
    return max(_common("shared_vmax", looks, index), float(least))


@torch.no_grad()
def _common(function: str, looks: Mapping[str, Look], index: int | tuple[int, ...] | None) -> float:
    if not isinstance(looks, Mapping) or not looks:
        given = "none" if isinstance(looks, Mapping) else type(looks).__name__
        raise ValueError(f"{function}: looks must map at least one name to weights or a density, got {given}")
    peaks = []
    for name, look in looks.items():
        argument = f"looks[{name!r}]"
        if isinstance(look, Tensor):
            peaks.append(cells(function, argument, look, index).max().item())
        elif isinstance(look, Density):
            p = region(function, look, index, argument)
            peaks.append(peak(p, field(p)))
        else:
            raise TypeError(f"{function}: {argument} must be weights [h, w] or a density, got {type(look).__name__}")
    some = [each for each in peaks if each > 0]
    return min(max(some), _OUTLIER * median(some)) if some else 1.0


def _mark_answer(answer: str | None, truth: str | None) -> tuple[str | None, str]:
    """Return an answer with a tick or a cross, and its colour."""
    if answer is None or truth is None:
        return answer, INK
    right = answer.strip().casefold() == truth.strip().casefold()
    return (f"✓ {answer}", RIGHT) if right else (f"✗ {answer}", WRONG)


def _caption(ax: Axes, name: str, below: str | None, colour: str, note: str | None = None) -> None:
    """Draw a name above the panel, an answer beneath it, and small print under that."""
    ax.set_title(_wrap(name, "name"), parse_math=False, fontfamily=families(name))
    text = "" if below is None else _wrap(below, "answer")
    family = families(text)
    ax.set_xlabel(text, color=colour, fontsize=10.5, fontweight="bold", parse_math=False, fontfamily=family)
    if note is not None:
        under = -5 - (0 if below is None else 72 * _ANSWER * len(text.split("\n")))
        place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, under), "textcoords": "offset points"}
        look: dict[str, Any] = {"ha": "center", "va": "top", "color": MUTED, "fontsize": 8.5, "parse_math": False}
        look["fontfamily"] = families(note)
        ax.annotate(note, (0.5, 0), **place, **look)


def _bar(figure: Figure, axes: list[Axes], vmax: float) -> None:
    """Draw the colour scale, once for all panels."""
    scale = pyplot().cm.ScalarMappable(norm(vmax), shades())
    style_bar(figure.colorbar(scale, ax=axes, aspect=28, fraction=0.05, pad=0.008), LABEL, ticks(vmax))


def _wrap(text: str, kind: str, panels: int = 1) -> str:
    """Break into lines that are no longer than so many panels are wide."""
    return textwrap.fill(legible(" ".join(text.split())), panels * _LETTERS[kind])


def _tallest(texts: Mapping[str, str], *others: str | None) -> int:
    """Return the number of lines of the tallest text."""
    given = [*texts.values(), *(other for other in others if other is not None)]
    return max((text.count("\n") + 1 for text in given), default=0)


def _check(looks: Mapping[str, Look], answers: Any, notes: Any, columns: int | None) -> None:
    for argument, given in (("answers", answers), ("notes", notes)):
        unknown = set(given or {}) - set(looks)
        if unknown:
            raise ValueError(f"looks: {argument} must have names of looks, got {', '.join(map(repr, sorted(unknown)))}")
    if columns is not None:
        check_integer("looks", "columns", columns, least=1)
