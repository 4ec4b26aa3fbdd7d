"""Draw ``results/communication.png`` from the rows in ``results``: what is said, how well it is heard, what it means.

python experiments/communication/picture.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter
from settings import CLASSES, KINDS, RESULTS, TEMPERING, runs_of, trials_of
from tables import NAMES

from omegamax import viz

CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
COLOURS = dict(zip(KINDS, ("#6b7785", "#2176ae", "#e09f3e", "#d1495b"), strict=True))
SHOWN = "gaussian_sparsemax"
CHOICE = "both"
PUBLISHED = "rate"  # published parameters, the rate chosen


def curves(ax: plt.Axes, rows: list[dict[str, str]], what: int) -> None:
    """Success (1) or nonzeros (2) in validation games in training: each run, and the mean of a distribution's."""
    for kind in KINDS:
        each = [json.loads(row["curve"]) for row in rows if (row["kind"], row["choice"]) == (kind, PUBLISHED)]
        scale, colour = 100 if what == 1 else 1, COLOURS[kind]
        for curve in each:
            ax.plot([p[0] for p in curve], [scale * p[what] for p in curve], color=colour, alpha=0.25, lw=0.7)
        points = [(p[0][0], scale * mean(q[what] for q in p)) for p in zip(*each, strict=True)]
        ax.plot(*zip(*points, strict=True), color=colour, lw=1.8, label=NAMES[kind])
    ax.set(xlabel="steps of 256 games")


def exchange(ax: plt.Axes, trials: list[dict[str, str]]) -> None:
    """Success against nonzeros: all that was tried with scores divided by 10."""
    for kind in KINDS:
        mine = [row for row in trials if row["kind"] == kind and float(row["tempering"]) == TEMPERING]
        x, y = [float(row["val_nonzeros"]) for row in mine], [100 * float(row["val_success"]) for row in mine]
        sizes = [14 * (1 + np.log2(4 * float(row["parameter"]))) for row in mine]
        ax.scatter(x, y, sizes, color=COLOURS[kind], alpha=0.6, linewidths=0, label=NAMES[kind])
    marks = [Line2D([], [], ls="", marker="o", ms=5, color=COLOURS[kind], label=NAMES[kind]) for kind in KINDS]
    ax.legend(handles=marks, loc="lower right", fontsize=7)
    ax.set(
        xscale="log",
        xlabel="nonzeros",
        ylabel="success (%)",
        title="trials, scores divided by 10",
    )


def meanings(ax: plt.Axes, rows: list[dict[str, str]]) -> None:
    """Which words are used for which class, in one run."""
    (row,) = [r for r in rows if (r["kind"], r["choice"], r["seed"]) == (SHOWN, CHOICE, "0")]
    said = [{int(word): share for word, share in each.items()} for each in json.loads(row["meanings"])]
    words = sorted({word for each in said for word in each})
    shares = np.array([[each.get(word, 0.0) for word in words] for each in said])
    order = np.lexsort((-shares.max(0), shares.argmax(0)))  # words of the first class, then of the second, ...
    drawn = ax.imshow(100 * shares[:, order], cmap="Reds", vmin=0, aspect="auto")
    ax.figure.colorbar(drawn, ax=ax, label="share of the class's symbols (%)", fraction=0.05, pad=0.02)
    ax.set_yticks(range(CLASSES), CLOTHES)
    ax.set_xticks(range(len(words)), [str(words[place]) for place in order], rotation=90, fontsize=6)
    ax.set(xlabel="word (its index)", title=f"{NAMES[SHOWN]}, one run: words of a class")


def draw(folder: Path) -> plt.Figure:
    """The picture."""
    rows, trials = runs_of(folder).rows(), trials_of(folder).rows()
    with viz.style():
        figure, axes = plt.subplots(2, 2, figsize=(9.4, 6.4), layout="constrained")
        curves(axes[0, 0], rows, 1)
        axes[0, 0].set(ylabel="success (%)", title="validation games, published parameters", ylim=(0, 100))
        axes[0, 0].axhline(100 / 16, color="#7b8794", lw=0.8, ls=":")
        axes[0, 0].annotate(
            "chance", (1250, 100 / 16), (0, 2), textcoords="offset points", color="#7b8794", fontsize=7.5
        )
        axes[0, 0].legend(loc="lower right", bbox_to_anchor=(1, 0.08), fontsize=7.5)
        curves(axes[0, 1], rows, 2)
        axes[0, 1].set(yscale="log", ylabel="nonzeros", title="words in a symbol")
        axes[0, 1].yaxis.set_major_formatter("{x:g}")
        exchange(axes[1, 0], trials)
        axes[1, 0].xaxis.set_major_formatter("{x:g}")
        axes[1, 0].xaxis.set_minor_formatter(NullFormatter())
        meanings(axes[1, 1], rows)
    return figure


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    draw(folder).savefig(folder / "communication.png", dpi=130)


if __name__ == "__main__":
    main()
