"""Draw where the alphas of a translating transformer's heads went: ``alphas.png``.

python experiments/translation/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

from job import HERE
from run import Files
from tables import PARTS

from omegamax.tasks.tables import stack_alphas
from omegamax.viz import alpha_histogram, alphas
from omegamax.viz.style import pyplot, style

START = 1.5
PANEL = 2.6, 2.3  # inches


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw a column for each part: alphas of heads over their layer, a point for each head and seed, and how many."""
    with style():
        size = PANEL[0] * len(PARTS), 2 * PANEL[1]
        figure, axes = pyplot().subplots(2, len(PARTS), figsize=size, layout="constrained", sharey="row")
        for column, (part, title) in enumerate(PARTS.items()):
            values = stack_alphas([row for row in rows if row["part"] == part])
            alphas(values, start=START, title=title, ax=axes[0, column], names=column == 0)
            alpha_histogram(values, ax=axes[1, column])
            if column:
                axes[0, column].set_ylabel("")
                axes[1, column].set_ylabel("")
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(Files(HERE / "results").alphas.rows(), HERE / "alphas.png")
