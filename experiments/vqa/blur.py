"""Draw how far attention is from maps of what is relevant, against the width by which these are blurred.

    python experiments/vqa/blur.py              # results/blur.csv and results/blur.png, from the rows of scenes

The 2021 paper compares with maps of where people looked, which are smooth. The maps of the embedded set are the things
themselves, with sharp edges, until they are blurred. Lines: trials of 3000 steps; bands: all seeds of 5000 steps.
"""

from __future__ import annotations

import csv
import json

from measure import WIDTHS
from tables import HERE, NAMES, NOTHING, Rows, read, trials

DRAWN = {  # with their colours: discrete ones blue, one density orange, mixtures green
    "softmax": "#1f4e8c",
    "k_subsets": "#3f8fd0",
    "tvmax": "#8fc7e8",
    "continuous_softmax": "#c0561f",
    "continuous_sparsemax": "#eba45c",
    "multimodal": "#2f7d4f",
}
COLUMNS = {"divergence_blurred": "Jensen-Shannon divergence (bits)", "rank_blurred": "rank correlation"}


def write_rows(sources: list[Rows]) -> None:
    """Write a row for each kind, number of steps, seed and width."""
    with (HERE / "results" / "blur.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "steps", "seed", "width", "divergence", "rank"])
        for rows in sources:
            for kind, row in ((kind, row) for kind, each in rows.items() for row in each if row["rank_blurred"]):
                found = (json.loads(row[column]) for column in COLUMNS)
                for width, divergence, rank in zip(WIDTHS, *found, strict=True):
                    writer.writerow([kind, row["steps"], row["seed"], width, divergence, rank])


def draw(short: Rows, long: Rows) -> None:
    """Draw a line for each trial, and a band where there are longer runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    for axis, (column, name) in zip(axes, COLUMNS.items(), strict=True):
        for kind, colour in DRAWN.items():
            for row in short[kind]:
                axis.plot(WIDTHS, json.loads(row[column]), color=colour, label=NAMES[kind].split(",")[0], lw=2)
            curves = [json.loads(row[column]) for row in long.get(kind, [])]
            if curves:
                low, high = zip(*[(min(values), max(values)) for values in zip(*curves, strict=True)], strict=True)
                axis.fill_between(WIDTHS, low, high, color=colour, alpha=0.2, lw=0)
        axis.set_xlabel("width of the blur of the relevance maps (pixels of 64)")
        axis.set_ylabel(name)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.savefig(HERE / "results" / "blur.png", dpi=110)


if __name__ == "__main__":
    tried, trained = trials(), read("scenes", NOTHING)
    write_rows([tried, trained])
    draw(tried, trained)
