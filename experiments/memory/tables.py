"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/memory/tables.py [PAGE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import documents
from job import HERE, count_last, runs_of
from network import KINDS
from resolution import LAYERS, rows_of

from omegamax.tasks.tables import fill, mean, paired_difference, table

NAMES = {
    "none": "none: the last segment alone",
    "cache": "the last vectors",
    "average": "averages of neighbours",
    "signal": "signal, moments predicted",
    "matched": "signal, moments matched",
}
Rows = list[dict[str, str]]


def accuracy_table(rows: Rows) -> str:
    """Return the accuracy of every memory by the length of the sequences, and of counting without a network."""
    sizes = sorted({(int(row["length"]), int(row["segment"]), int(row["slots"])) for row in rows})
    head, lines = ["memory"], [[NAMES[kind]] for kind in KINDS]
    for size in sizes:
        mine = [row for row in rows if (int(row["length"]), int(row["segment"]), int(row["slots"])) == size]
        head += ["L = {}, segments of {}, N = {}".format(*size), "above averages"]
        others = [row for row in mine if row["kind"] == "average"]
        for line, kind in zip(lines, KINDS, strict=True):
            own = [row for row in mine if row["kind"] == kind]
            line += [mean(own, "accuracy"), "" if kind == "average" else paired_difference(own, others, "accuracy")]
    counted = ["counting the last segment, no network"]
    for length, segment, _ in sizes:
        counted += [f"{100 * count_last(length, segment):.1f}", ""]
    return table(head, [*lines, counted])


def resolution_table(rows: Rows) -> str:
    """Return accuracy and time of both kinds of attention by the number of pixels."""
    sides = sorted({int(row["side"]) for row in rows})
    lines = [[f"{side} x {side}", *_compare_layers([r for r in rows if int(r["side"]) == side])] for side in sides]
    return table(_head("pixels"), lines)


def documents_table(rows: Rows) -> str:
    """Return accuracy and time of both kinds of attention by the number of words of a review."""
    starts, lines = sorted({int(row["words_from"]) for row in rows}), []
    for place, start in enumerate(starts):
        name = f"{start} to {starts[place + 1] - 1}" if start != starts[-1] else f"{start} or more"
        lines.append([name, *_compare_layers([row for row in rows if int(row["words_from"]) == start])])
    return table(_head("words"), lines)


def _compare_layers(rows: Rows) -> list[str]:
    """Return accuracy and time of attention between functions and between positions, and the paired difference.

    Times are of a GPU where one was used: those of two devices have no mean.
    """
    functions, positions = ([row for row in rows if row["layer"] == layer] for layer in LAYERS)
    cells = []
    for mine in (functions, positions):
        timed = [row for row in mine if row["device"] != "cpu"] or mine
        cells += [mean(mine, "accuracy"), mean(timed, "milliseconds", 1, 2)]
    return [*cells, paired_difference(functions, positions, "accuracy")]


def _head(positions: str) -> list[str]:
    names = ("between functions", f"between {positions}")
    return [positions, *(text for name in names for text in (f"{name}, accuracy", "ms")), "functions less " + positions]


def main() -> None:
    """Fill the tables of the page of which there are rows."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "README.md"
    results = HERE / "results"
    found = {
        "accuracy": (accuracy_table, runs_of(results).rows()),
        "resolution": (resolution_table, rows_of(results).rows()),
        "documents": (documents_table, documents.rows_of(results).rows()),
    }
    fill(page, {name: make(rows) for name, (make, rows) in found.items() if rows})


if __name__ == "__main__":
    main()
