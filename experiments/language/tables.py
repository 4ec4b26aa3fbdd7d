"""Write the tables of README.md from the rows in ``results``, between the lines that name them, and the picture.

python experiments/language/tables.py [PAGE]
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from pathlib import Path

import length
import memory
import pages
from run import HERE, OUTPUTS, RULES, runs_of

from omegamax import viz
from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.trials import Trials
from omegamax.viz.style import pyplot

Rows = list[dict[str, str]]
NAMES = {"two_back": "two back", "recall": "recall by keys"}
_MEASURES = (
    ("epsilon_perplexity", "ε-perplexity", 1, 2),
    ("sparsemax_score", "sparsemax score, %", 100, 2),
    ("jensen_shannon", "JS", 1, 4),
    ("accuracy", "right, %", 100, 1),
    ("support", "possible", 1, 1),
    ("rep", "REP, %", 100, 1),
    ("wrep", "WREP, %", 100, 1),
    ("distinct_2", "distinct-2, %", 100, 1),
)


def outputs_table(rows: Rows) -> str:
    """Return the measures of every output, and of softmax with what rules leave of it."""
    lines = []
    for attention in sorted({row["attention"] for row in rows}, reverse=True):
        for output in OUTPUTS:
            for decoding in ("none", *RULES):
                mine = [row for row in rows if _is(row, output=output, attention=attention, decoding=decoding)]
                if not mine:
                    continue
                name = output if decoding == "none" else f"{output}, {'/'.join(sorted({row['rule'] for row in mine}))}"
                name += "" if attention == "softmax" else f"; {attention} in attention"
                lines.append([name, *(mean(mine, key, scale, digits) for key, _, scale, digits in _MEASURES)])
    return table(["output", *(title for _, title, _, _ in _MEASURES)], lines)


def length_table(rows: Rows, measure: str, digits: int) -> str:
    """Return the share of texts, or of tokens, that are right, by how many times texts are longer than in training."""
    times = sorted({int(row["times"]) for row in rows})
    lines = []
    for task, trained in dict.fromkeys((row["task"], row["trained"]) for row in rows):
        for kind in length.KINDS:
            mine = [row for row in rows if _is(row, task=task, kind=kind, trained=trained)]
            if mine:
                cells = [mean([row for row in mine if int(row["times"]) == n], measure, 100, digits) for n in times]
                lines.append([f"{NAMES.get(task, task)} up to {trained}: {kind}", *cells])
    return table(["task and length in training: attention", *(f"{n}x" for n in times)], lines)


def differences_table(rows: Rows) -> str:
    """Return by how many points entmax has more of the tokens right than softmax, paired by seed."""
    times = sorted({int(row["times"]) for row in rows})
    lines = []
    for task, trained in dict.fromkeys((row["task"], row["trained"]) for row in rows):
        cells = []
        for n in times:
            mine = [row for row in rows if _is(row, task=task, trained=trained, times=str(n))]
            pair = ([row for row in mine if row["kind"] == kind] for kind in ("entmax15", "softmax"))
            cells.append(paired_difference(*pair, "tokens_right"))
        lines.append([f"{NAMES.get(task, task)} up to {trained}", *cells])
    return table(["entmax15 less softmax", *(f"{n}x" for n in times)], lines)


def memory_table(rows: Rows) -> str:
    """Return the perplexity of each memory by the place in the review."""
    places = sorted({(int(row["since"]), int(row["until"])) for row in rows})
    lines = []
    for kind in memory.KINDS:
        mine = [row for row in rows if row["kind"] == kind]
        cells = [mean([row for row in mine if int(row["until"]) == until], "perplexity", 1, 2) for _, until in places]
        if mine:
            lines.append([kind, *cells])
    return table(["kept of the past", *(f"tokens {since + 1} to {until}" for since, until in places)], lines)


def pages_table(rows: Rows) -> str:
    """Return the mean share of pages that trained heads have to read, and the least and most of a head."""
    lines = []
    for keys in sorted({int(row["keys"]) for row in rows}):
        shares = [float(row["share"]) for row in rows if int(row["keys"]) == keys]
        numbers = (statistics.mean(shares), min(shares), max(shares))
        lines.append([f"{keys}", *(f"{100 * number:.1f}" for number in numbers)])
    return table(["keys", "pages to be read, %", "least of a head", "most of a head"], lines)


def heads_table(rows: Rows) -> str:
    """Return the mean share of pages by alpha and by the number of keys, of heads before and after training."""
    counts = sorted({int(row["keys"]) for row in rows})
    lines = []
    for trained, words in (("0", "before training"), ("1", "trained")):
        for alpha in sorted({row["alpha"] for row in rows}, key=float):
            mine = [row for row in rows if _is(row, alpha=alpha, trained=trained)]
            losses = sorted({row["loss"] for row in mine})
            cells = [_spread([row for row in mine if int(row["keys"]) == count]) for count in counts]
            lines.append([f"{words}, alpha {float(alpha):g}", ", ".join(losses), *cells])
    return table(["heads", "loss", *(f"{count:,} keys" for count in counts)], lines)


def _spread(rows: Rows) -> str:
    """Return the mean of the shares, and the least and the most of a head, in percent."""
    shares = [100 * float(row["share"]) for row in rows]
    return f"{statistics.mean(shares):.0f} ({min(shares):.0f} to {max(shares):.0f})"


def draw_heads(rows: Rows, path: Path) -> None:
    """Draw the share of pages against the number of keys, of heads before and after training."""
    names = {"1.5": "entmax15", "2.0": "sparsemax"}
    with viz.style():
        figure, axes = pyplot().subplots(1, 2, figsize=(7.2, 2.9), sharey=True, layout="constrained")
        for ax, trained, title in zip(axes, ("0", "1"), ("before training", "trained"), strict=True):
            for alpha in sorted({row["alpha"] for row in rows}, key=float):
                mine = [row for row in rows if _is(row, alpha=alpha, trained=trained)]
                counts = sorted({int(row["keys"]) for row in mine})
                means = [
                    statistics.mean(100 * float(row["share"]) for row in mine if int(row["keys"]) == count)
                    for count in counts
                ]
                colour = viz.colour(names.get(alpha, "entmax"))
                ax.plot(counts, means, marker="o", markersize=3, color=colour, label=f"alpha = {float(alpha):g}")
            ax.axvline(int(rows[0]["length"]), color="0.7", linewidth=0.8, linestyle=":")
            ax.set_xscale("log", base=2)
            ax.set(title=title, xlabel="keys", ylim=(0, 103))
        axes[0].set_ylabel("pages to be read, %")
        axes[1].legend(fontsize=8)
        figure.savefig(path, dpi=130)
        pyplot().close(figure)


def draw_lengths(rows: Rows, path: Path) -> None:
    """Draw the share of right texts, and of wrong tokens, against length; a column for each task."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    kinds = [kind for kind in length.KINDS if any(row["kind"] == kind for row in rows)]
    with viz.style():
        size = (max(4.2, 2.6 * len(tasks)), 4.6)
        figure, axes = pyplot().subplots(2, len(tasks), figsize=size, sharex=True, layout="constrained", squeeze=False)
        for place, task in enumerate(tasks):
            above, below = axes[:, place]
            for kind in kinds:
                mine = [row for row in rows if _is(row, task=task, kind=kind)]
                if not mine:
                    continue
                times = sorted({int(row["times"]) for row in mine})
                style = "--" if "scale" in kind else "-"
                colour = viz.colour("entmax" if "learnt" in kind else kind.split(",")[0])
                for ax, measure in ((above, _texts_right), (below, _tokens_wrong)):
                    values = [statistics.mean(measure(row) for row in mine if int(row["times"]) == n) for n in times]
                    ax.plot(times, values, style, marker="o", markersize=3, color=colour, label=kind)
            trained = next(row["trained"] for row in rows if row["task"] == task)
            above.set(title=f"{NAMES.get(task, task)}, {trained} symbols", ylim=(-3, 103))
            below.set_xscale("log", base=2)
            below.set(xlabel="times as long as in training")
        axes[0, 0].set_ylabel("texts right, %")
        axes[1, 0].set_ylabel("tokens wrong, %")
        axes[0, 0].legend(fontsize=7)
        figure.savefig(path, dpi=130)
        pyplot().close(figure)


def _texts_right(row: dict[str, str]) -> float:
    return 100 * float(row["texts_right"])


def _tokens_wrong(row: dict[str, str]) -> float:
    return 100 * (1 - float(row["tokens_right"]))


def _is(row: dict[str, str], **wanted: str) -> bool:
    return all(row[name] == value for name, value in wanted.items())


def main() -> None:
    """Fill the tables of the page of which there are rows."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "README.md"
    results = HERE / "results"
    columns = ("output", "attention", "seed", "keys", "layer", "head", "share")
    found = {
        "outputs": (outputs_table, runs_of(results).rows()),
        "length": (partial(length_table, measure="texts_right", digits=1), length.rows_of(results).rows()),
        "tokens": (partial(length_table, measure="tokens_right", digits=2), length.rows_of(results).rows()),
        "differences": (differences_table, length.rows_of(results).rows()),
        "heads": (heads_table, pages.rows_of(results).rows()),
        "memory": (memory_table, memory.rows_of(results).rows()),
        "pages": (pages_table, Trials(results / "pages.csv", columns, columns[:-1]).rows()),
    }
    fill(page, {name: make(rows) for name, (make, rows) in found.items() if rows})
    if rows := found["length"][1]:
        draw_lengths(rows, results / "length.png")
    if rows := found["heads"][1]:
        draw_heads(rows, results / "heads.png")


if __name__ == "__main__":
    main()
