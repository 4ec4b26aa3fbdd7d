"""Figures like those of the papers, drawn from a comparison: questions in rows, kinds of attention side by side."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.data import KINDS
from omegamax.tasks.vqa.outcomes import THEMES
from omegamax.tasks.vqa.report.records import Comparison, Example, Fit, Look
from omegamax.viz import Mark, panels, style
from omegamax.viz.key import draw_key, note, style_bar
from omegamax.viz.looks import RIGHT, WRONG
from omegamax.viz.outline import MATTERS
from omegamax.viz.picture import LABEL, shades
from omegamax.viz.style import INK, families, legible, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _DPI = 2.3, 150  # inches of a panel, pixels of an inch
_ABOVE = 0.1  # inches above the first question
_LINES = 0.72  # inches of the text above and beneath a panel
_LETTERS = 18  # of a question, in the width of a panel
FITTED, AGREEMENT = "components", "agreement"


@dataclass(frozen=True)
class Panel:
    """A picture with a name above and an answer beneath."""

    name: str
    picture: bytes
    below: str = ""
    colour: str = INK
    framed: bool = False


@dataclass(frozen=True)
class Line:
    """A question and its panels; the marks in them, and the numbers of their colours."""

    question: str
    panels: list[Panel]
    marks: list[tuple[str, str]]
    ticks: list[tuple[float, str]] | None


def draw_figures(comparison: Comparison, rows: int = 3) -> dict[str, Figure]:
    """Draw the figures that there are examples for, by name.

    ``kinds``: a question of each kind, and where every model looked (thesis, Figs. 6.4 and 6.5; 2021, Figs. 1 and 2).
    ``only-densities-right`` and ``only-weights-right``: where one sort of attention fails and the other does not
    (thesis, Figs. 6.6 and 6.7). ``wide-ellipse`` (Fig. 6.8). ``several-components``: mixtures of several beside the
    rest (Figs. 6.9 to 6.11). ``components``: one model with 1, 2, ... components, K* marked (2021, Figs. 3 and 4).
    ``agreement``: divergences from what matters, or from where people looked (2021, Figs. 5 to 7).

    Args:
        rows: the most questions in a figure.

    References: Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021); Farinhas,
    Martins and Aguiar, "Multimodal continuous visual attention mechanisms" (2021).
    """
    examples = comparison.examples
    plain = [example for example in examples if example.theme is None]
    first = [next((e for e in plain if e.kind == kind), None) for kind in KINDS]
    chosen: dict[str, list[Line]] = {"kinds": [_looks(e) for e in first if e is not None]}
    for theme in THEMES:
        chosen[theme.replace(" ", "-")] = [_looks(e) for e in examples if e.theme == theme]
    chosen[FITTED] = _list_fits(examples)
    known = [e for e in examples if e.relevance is not None and any(x.divergence is not None for x in e.looks.values())]
    chosen[AGREEMENT] = [_agreement(e) for e in known]
    return {name: draw_lines(lines[:rows]) for name, lines in chosen.items() if lines}


def write_figures(comparison: Comparison, folder: str | PathLike[str], rows: int = 3) -> list[Path]:
    """Write the figures of :func:`draw_figures` as PNG files; return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in draw_figures(comparison, rows).items():
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=_DPI)
        pyplot().close(figure)
    return paths


def draw_lines(lines: Sequence[Line]) -> Figure:
    """Draw questions in rows, with the key of all marks beneath and a colour scale at the end of each row."""
    from matplotlib.colors import Normalize
    from matplotlib.image import imread

    across = max(len(line.panels) for line in lines)
    images = [[imread(io.BytesIO(panel.picture), format="png") for panel in line.panels] for line in lines]
    tallest = max(image.shape[0] / image.shape[1] for row in images for image in row)
    with style():
        size = (_WIDTH, _WIDTH * tallest + _LINES)
        figure, axes = panels(across * len(lines), across, size=size)
        for place, (line, row) in enumerate(zip(lines, images, strict=True)):
            own = axes[place * across : (place + 1) * across]
            for ax, panel, image in zip(own, line.panels, row, strict=False):
                _show(ax, panel, image)
            for empty in own[len(line.panels) :]:
                empty.set_axis_off()
            _ask(own[0], line.question, across)
            note(own[0], [Mark(shape, text) for shape, text in line.marks])
            if line.ticks is not None:
                scale = pyplot().cm.ScalarMappable(Normalize(0, 1), shades())
                style_bar(
                    figure.colorbar(scale, ax=own, aspect=18, fraction=0.05, pad=0.008, shrink=0.8), LABEL, line.ticks
                )
        draw_key(figure, grow=True)
        engine = figure.get_layout_engine()
        engine.set(rect=(0, 0, 1, 1 - _ABOVE / figure.get_figheight()))  # type: ignore[union-attr, call-arg]
    return figure


def _show(ax: Any, panel: Panel, image: Any) -> None:
    ax.imshow(image, interpolation="nearest" if image.shape[1] < 160 else "auto")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(panel.framed)
    ax.spines[:].set_linewidth(2.2)
    ax.spines[:].set_color(INK)
    # An empty line above the name is where the question stands.
    words: dict[str, Any] = {"parse_math": False, "fontfamily": families(panel.name + panel.below)}
    ax.set_title("\n" + legible(panel.name), fontweight="bold" if panel.framed else "normal", **words)
    below = textwrap.shorten(legible(panel.below), 30, placeholder=" ...")
    ax.set_xlabel(below, color=panel.colour, fontsize=10.5, fontweight="bold", **words)


def _ask(ax: Any, question: str, across: int) -> None:
    text = textwrap.shorten(legible(question), across * _LETTERS, placeholder=" ...")
    place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 22), "textcoords": "offset points"}
    look: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "fontfamily": families(text), "parse_math": False}
    ax.annotate(text, (0, 1), **place, **look, color=INK, ha="left", va="bottom").set_in_layout(False)


def _picture(example: Example) -> Panel:
    return Panel("picture", example.picture, "" if example.answer is None else f"answer: {example.answer}")


def _answer(answer: str, right: bool | None) -> tuple[str, str]:
    """Return an answer with a tick or a cross, and its colour."""
    if right is None:
        return answer, INK
    return (f"✓ {answer}", RIGHT) if right else (f"✗ {answer}", WRONG)


def _said(example: Example, name: str) -> tuple[str, str]:
    look = example.looks[name]
    return _answer(look.answers[0][0] if look.answers else "", example.right(name))


def _line(example: Example, shown: Iterable[Panel], looks: Iterable[Look | Fit], *more: tuple[str, str]) -> Line:
    marks = dict.fromkeys([*(mark for look in looks for mark in look.marks or ()), *more])
    return Line(example.question, [_picture(example), *shown], list(marks), example.ticks)


def _looks(example: Example) -> Line:
    """Return the looks of all models, the number of components beside the names of mixtures that select it."""

    def name(of: str) -> str:
        look = example.looks[of]
        return of if look.components is None else f"{of}, K* = {look.components}"

    shown = [Panel(name(each), look.picture, *_said(example, each)) for each, look in example.looks.items()]
    return _line(example, shown, example.looks.values())


def _agreement(example: Example) -> Line:
    def below(look: Look) -> str:
        return "" if look.divergence is None else f"JSD = {look.divergence:.2f}"

    assert example.relevance is not None
    shown = [Panel(name, look.picture, below(look)) for name, look in example.looks.items()]
    return _line(
        example, [*shown, Panel("what matters", example.relevance)], example.looks.values(), ("cells", MATTERS)
    )


def _list_fits(examples: Sequence[Example]) -> list[Line]:
    """Return mixtures with 1, 2, ... components, from the example with the most on, each number selected in turn."""

    queues: dict[int, list[Line]] = {}
    for example in examples:
        for look in example.looks.values():
            if look.fits:
                queues.setdefault(look.components or 0, []).append(_fits(example, look))
    turns = range(max(map(len, queues.values()), default=0))
    return [queues[k][turn] for turn in turns for k in sorted(queues, reverse=True) if turn < len(queues[k])]


def _fits(example: Example, look: Look) -> Line:
    shown = []
    for fit in look.fits:
        chosen = fit.components == look.components
        name = f"K = {fit.components} = K*" if chosen else f"K = {fit.components}"
        shown.append(Panel(name, fit.picture, *_answer(fit.answer, fit.right), framed=chosen))
    return _line(example, shown, look.fits)
