"""Draw how far attention is from maps of what is relevant, against the width by which these are blurred.

    python experiments/vqa/blur.py              # results/blur.csv and results/blur.png, from the rows of scenes

The 2021 paper compares with maps of where people looked, which are smooth. The maps of the embedded set are the things
themselves, with sharp edges, until they are blurred. Lines are means over the seeds of networks of 5000 steps, bands
reach from the lowest of them to the highest.
"""

from __future__ import annotations

import csv
import json
import statistics

from measure import WIDTHS
from tables import HERE, NAMES, Rows, blurred

DRAWN = {  # with their colours: discrete ones blue, one density orange, mixtures green
    "softmax": "#1f4e8c",
    "k_subsets": "#3f8fd0",
    "tvmax_0.1": "#8fc7e8",
    "continuous_softmax": "#c0561f",
    "continuous_sparsemax": "#eba45c",
    "multimodal_0.5": "#86c79b",
    "4_mca": "#2f7d4f",
}
COLUMNS = {"divergence_blurred": "Jensen-Shannon divergence (bits)", "rank_blurred": "rank correlation"}


def write_rows(rows: Rows) -> None:
    """Write a row for each kind, number of steps, seed and width."""
    with (HERE / "results" / "blur.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "steps", "seed", "width", "divergence", "rank"])
        for kind, row in ((kind, row) for kind, each in rows.items() for row in each):
            found = (json.loads(row[column]) for column in COLUMNS)
            for width, divergence, rank in zip(WIDTHS, *found, strict=True):
                writer.writerow([kind, row["steps"], row["seed"], width, divergence, rank])


def draw(rows: Rows) -> None:
    """Draw a line for the mean of each kind, and a band from its lowest seed to its highest."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
    for axis, (column, name) in zip(axes, COLUMNS.items(), strict=True):
        for kind, colour in DRAWN.items():
            points = list(zip(*(json.loads(row[column]) for row in rows[kind]), strict=True))
            label = f"{NAMES[kind].replace(', random K', '')} ({len(rows[kind])} seeds)"
            axis.plot(WIDTHS, [statistics.mean(each) for each in points], color=colour, label=label, lw=2)
            low, high = [min(each) for each in points], [max(each) for each in points]
            axis.fill_between(WIDTHS, low, high, color=colour, alpha=0.2, lw=0)
        axis.set_xlabel("width of the blur of the relevance maps (pixels of 64)")
        axis.set_ylabel(name)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(HERE / "results" / "blur.png", dpi=110)


if __name__ == "__main__":
    found = blurred()
    write_rows(found)
    draw(found)
