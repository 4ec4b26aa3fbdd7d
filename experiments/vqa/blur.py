"""Draw how far attention is from maps of what is relevant, against the width by which these are blurred.

    python experiments/vqa/blur.py              # results/blur.csv and results/blur.png, from results/scenes.csv

The 2021 paper compares with maps of where people looked, which are smooth. The maps of the embedded set are the things
themselves, with sharp edges, until they are blurred.
"""

from __future__ import annotations

import csv
import json
import statistics

from measure import WIDTHS
from tables import HERE, NAMES, NOTHING, Rows, read

DRAWN = {  # with their colours: the discrete, the unimodal, the multimodal
    "softmax": "#1f5fa8",
    "sparsemax": "#5aa0d8",
    "tvmax": "#8cc6e8",
    "continuous_softmax": "#c0561f",
    "continuous_sparsemax": "#e8a05a",
    "multimodal": "#2f7d4f",
    "multimodal_0.5": "#7cc49a",
}
COLUMNS = {"divergence_blurred": "Jensen-Shannon divergence (bits)", "rank_blurred": "rank correlation"}


def write_rows(rows: Rows) -> None:
    """Write a row for each kind, seed and width."""
    with (HERE / "results" / "blur.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "seed", "width", "divergence", "rank"])
        for kind in DRAWN:
            for row in rows.get(kind, []):
                found = (json.loads(row[column]) for column in COLUMNS)
                for width, divergence, rank in zip(WIDTHS, *found, strict=True):
                    writer.writerow([kind, row["seed"], width, divergence, rank])


def draw(rows: Rows) -> None:
    """Draw the means over seeds, and the range of the seeds around them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for axis, (column, name) in zip(axes, COLUMNS.items(), strict=True):
        for kind, colour in DRAWN.items():
            curves = [json.loads(row[column]) for row in rows.get(kind, [])]
            if not curves:
                continue
            each = list(zip(*curves, strict=True))
            axis.plot(WIDTHS, [statistics.mean(values) for values in each], color=colour, label=NAMES[kind], lw=2)
            axis.fill_between(
                WIDTHS, *zip(*[(min(v), max(v)) for v in each], strict=True), color=colour, alpha=0.15, lw=0
            )
        axis.set_xlabel("width of the blur of the relevance maps (pixels of 64)")
        axis.set_ylabel(name)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(HERE / "results" / "blur.png", dpi=130)


if __name__ == "__main__":
    found = read("scenes", NOTHING)
    write_rows(found)
    draw(found)
