"""Draw where the alphas of the transformer's heads went: ``alphas.png``.

python experiments/text/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

from job import HERE
from run import Files
from sets import SENTENCES
from tables import TITLES

from omegamax.viz.style import panels, style


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw a panel for each set: layers below, alphas above, a point for each head and seed."""
    names = [name for name in SENTENCES if any(row["set"] == name for row in rows)]
    with style():
        figure, axes = panels(len(names), len(names), size=(1.9, 2.4), share=True)
        for ax, name in zip(axes, names, strict=True):
            own = [row for row in rows if row["set"] == name]
            seeds = sorted({row["seed"] for row in own})
            for row in own:
                side = (seeds.index(row["seed"]) - (len(seeds) - 1) / 2) * 0.18
                ax.plot(int(row["layer"]) + 1 + side, float(row["alpha"]), "o", ms=5, alpha=0.7, color="#c0421a")
            for height, label in ((1.0, "softmax"), (1.5, "start"), (2.0, "sparsemax")):
                ax.axhline(height, color="#bbbbbb", lw=0.8, ls="-" if height != 1.5 else ":", zorder=0)
                if ax is axes[0]:
                    ax.annotate(label, (0.52, height), (0, 2), textcoords="offset points", fontsize=7, color="#777777")
            ax.set(title=TITLES[name], xlim=(0.5, 2.5), ylim=(0.95, 2.08), xticks=(1, 2), xlabel="layer")
        axes[0].set_ylabel("alpha of a head")
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(Files(HERE / "results").alphas.rows(), HERE / "alphas.png")
