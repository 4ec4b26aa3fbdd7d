"""The pictures of ``omegamax tour``: one figure for each question."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from omegamax import viz
from omegamax.cli._tour import Stop, Tour
from omegamax.viz.style import INK, LINE, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDEST = 32  # letters that fit over a panel
_PAD = 5.0  # pixels round a panel that is cut out


@dataclass(frozen=True)
class Plate:
    """A figure, its file, and what it says."""

    file: str
    title: str
    text: str
    draw: Callable[[Tour], Figure]


def _head(ax: Axes, stop: Stop, options: dict[str, Any] | None = None) -> None:
    """Write the name of the map on the left, its parameters on the right."""
    options = stop.transform.example if options is None else options
    ax.set_title(stop.name.replace("_", " "), color=viz.colour(stop.name))
    notes = [f"{name} {value:g}" for name, value in options.items() if not isinstance(value, Tensor)]
    note = ", ".join(notes if len(stop.name) + len(", ".join(notes)) <= WIDEST else notes[:1])
    ax.set_title(note, loc="right", color=MUTED, fontsize=8.5, fontweight="normal")


def cut(figure: Figure, dpi: int) -> list[tuple[str, bytes]]:
    """Cut a figure into its panels: the title of each, and it alone as a PNG file, legible on a narrow screen."""
    from matplotlib.image import imsave
    from matplotlib.transforms import Bbox

    figure.set_dpi(dpi)
    canvas: Any = figure.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    height, width = pixels.shape[:2]
    shown = []
    for ax in figure.axes:
        if ax.get_label() == "<colorbar>":
            continue
        bars = [image.colorbar.ax for image in ax.images if image.colorbar is not None]
        box = Bbox.union([box for each in (ax, *bars) if (box := each.get_tightbbox()) is not None]).padded(_PAD)
        left, right = max(0, int(box.x0)), min(width, int(box.x1) + 1)
        top, bottom = max(0, height - int(box.y1) - 1), min(height, height - int(box.y0))
        file = io.BytesIO()
        imsave(file, pixels[top:bottom, left:right], format="png")
        shown.append((ax.get_title(loc="left"), file.getvalue()))
    return shown


def _vector(tour: Tour) -> Figure:
    figure, axes = viz.panels(1 + len(tour.stops), 3, size=(3.5, 2.0))
    labels = [f"{z:.1f}" for z in tour.scores.tolist()]
    viz.bars(tour.scores, labels=labels, colour=INK, title="the scores", ax=axes[0])
    for ax, stop in zip(axes[1:], tour.stops, strict=True):
        viz.bars(stop.vector, colour=viz.colour(stop.name), ax=ax)
        _head(ax, stop, stop.vector_options)
        support = f"{int((stop.vector > 0).sum())} of {len(tour.scores)} positive"
        ax.text(0.98, 0.93, support, transform=ax.transAxes, ha="right", va="top", color=MUTED)
        ax.set_ylim(0, 1.05 if float(stop.vector.sum()) > 1.5 else 0.8)
    return figure


def _path(tour: Tour) -> Figure:
    figure, axes = viz.panels(len(tour.stops), 3, size=(3.5, 2.4))
    for ax, stop in zip(axes, tour.stops, strict=True):
        viz.path(tour.temperatures, stop.path, ax=ax)
        _head(ax, stop, stop.vector_options)
        ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        ax.axvline(1, color=MUTED, linewidth=0.7, linestyle=(0, (3, 3)), zorder=0)
        ax.set_xlabel("temperature")
        ax.set_ylabel("probability")
    return figure


def _losses(tour: Tour) -> Figure:
    figure, axes = viz.panels(len(tour.stops), 3, size=(3.5, 2.4), share=True)
    low, high = float(tour.gaps.min()), float(tour.gaps.max())
    baseline = tour.stops[0]
    for ax, stop in zip(axes, tour.stops, strict=True):
        viz.losses(tour.gaps, baseline.loss, colour=LINE, ax=ax)
        viz.losses(tour.gaps, stop.loss, margin=stop.margin, colour=viz.colour(stop.name), ax=ax)
        _head(ax, stop)
        ax.set_xlim(low, high)
        ax.set_ylim(0, 4)
        if stop.margin < high:
            side, align = (-0.2, "right") if stop.margin > 3 else (0.2, "left")
            ax.text(stop.margin + side, 3.9, f"margin {stop.margin:g}", ha=align, va="top", color=MUTED)
        ax.tick_params(labelbottom=True, labelleft=True)
        ax.set_xlabel("lead of each score over the next")
        ax.set_ylabel("loss")
    return figure


def _grid(tour: Tour) -> Figure:
    figure, axes = viz.panels(1 + len(tour.stops), 3, size=(3.7, 3.2))
    viz.heatmap(tour.image, cmap="Greys_r", sparse=False, title="the image", ax=axes[0], key=False)
    for ax, stop in zip(axes[1:], tour.stops, strict=True):
        viz.heatmap(stop.grid, ax=ax)
        _head(ax, stop, stop.grid_options)
        ax.set_xlabel(f"{int((stop.grid > 0).sum())} of {stop.grid.numel()} cells", color=MUTED)
    return figure


def _simplex(tour: Tour) -> Figure:
    figure, axes = viz.panels(len(tour.stops), 3, size=(3.2, 3.4))
    for ax, stop in zip(axes, tour.stops, strict=True):
        viz.simplex(stop.plane, ax=ax)
        _head(ax, stop)
    return figure


PLATES = (
    Plate(
        "probabilities.png",
        "One score vector, every map",
        "The same scores go through each map. A hollow dot is an exact zero, not a small number. Softmax has none, "
        "however bad a score is. The numbers of k-subsets say how surely an entry is among the k chosen, so they add "
        "up to k. The constrained maps stop at their ceiling and pass the rest on.",
        _vector,
    ),
    Plate(
        "path.png",
        "The regularisation path",
        "Each line is the probability of one score, dark for the best and light for the worst, as the temperature "
        "divides the scores. On the left the winner takes all, or all that its bounds allow; on the right all share "
        "alike. A line begins where its entry joins the support; softmax's are there from the start.",
        _path,
    ),
    Plate(
        "simplex.png",
        "Three scores, seen from above",
        "Every point is a triple of scores that sum to one. Its colour mixes three hues by the probabilities it gets, "
        "paler the less certain they are. The triangle is the simplex. White lines bound the parts where some entry "
        "is exactly zero or at its ceiling. Where the colour is flat, more of the same evidence changes nothing.",
        _simplex,
    ),
    Plate(
        "losses.png",
        "Losses and margins",
        "Every map comes with its Fenchel-Young loss: convex, smooth, with the gradient p - y. Pale grey is softmax's, "
        "the cross-entropy, which never quite reaches zero. A loss with a margin is exactly zero once the scores are "
        "that far apart, or before: an example that is right by enough stops pulling.",
        _losses,
    ),
    Plate(
        "grid.png",
        "Attention over an image",
        "Two bright spots on a rough ground; the score of a cell is its brightness, scaled. White cells get exactly "
        "nothing, and a line runs round the others. Softmax looks everywhere, a little. The sparse maps say where they "
        "look. k-subsets spreads over k cells, and a ceiling keeps a few cells from taking all. tvmax gives neighbours "
        "equal weights, fusedmax those in a line, graph-fusedmax those on a slanted grid, and oscarmax cells that "
        "score alike, wherever they are.",
        _grid,
    ),
)
