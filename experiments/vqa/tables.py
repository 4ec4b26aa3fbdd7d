"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/vqa/tables.py
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from demo import CHOICES, MEASURES
from run import BASES, GRID, KINDS, rows_of

from omegamax.tasks.tables import fill, mean, table

HERE = Path(__file__).parent
FILES = {"demo": MEASURES, "demo_lambda": CHOICES}
Rows = dict[str, list[dict[str, str]]]  # of a set, by kind

NAMES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax": "entmax, alpha learnt",
    "tvmax": "tvmax",
    "k_subsets": "k-subsets, k = 8",
    "continuous_softmax": "continuous softmax",
    "continuous_sparsemax": "continuous sparsemax",
    "continuous_entmax": "continuous 1.5-entmax",
    "multimodal": "multimodal, random K, lambda = 5",
    "multimodal_0.5": "multimodal, random K, lambda = 0.5",
    "multimodal_2.5": "multimodal, random K, lambda = 2.5",
    "2_mca": "2-MCA",
    "4_mca": "4-MCA",
    "blind": "language only",
    "start": "(the start: softmax)",
    **{f"test_mca_{x}": f"test-MCA, lambda = {x}" for x in ("0.05", "0.5", "2.5", "10", "100", "500")},
}
DEMO = {
    **{kind: NAMES[kind] for kind in ("softmax", "tvmax", "continuous_softmax")},
    "continuous_softmax_combined": "continuous softmax, combined",
    "continuous_sparsemax": NAMES["continuous_sparsemax"],
    "multimodal": NAMES["multimodal_0.5"],
    "test_mca": NAMES["test_mca_0.5"],
    "blind": NAMES["blind"],
}
ASKED = ("yes_no", "number", "other")
MIXTURES = ("2_mca", "4_mca")
# VQA-v2, test-standard, overall: thesis, Tables 6.2 and 6.3; Farinhas, Martins and Aguiar (2021), Table 1.
THESIS = {
    "softmax": "66.13",
    "continuous_softmax": "66.27",
    "continuous_sparsemax": "66.10",
    "continuous_softmax_49": "66.12",
    "continuous_sparsemax_49": "66.10",
    "2_mca": "66.21",
    "4_mca": "66.14",
    "test_mca_10": "66.21",
    "test_mca_100": "66.25",
    "test_mca_500": "66.27",
}
PAPER = {"softmax": "70.94", "continuous_softmax": "70.73", "multimodal": "70.79"}
HUMAN = {"softmax": "0.64", "continuous_softmax": "0.59", "multimodal": "0.54"}  # the same, Table 2, VQA-HAT
# Share of K* = 1, ..., 5 in percent: thesis, Table 6.4; with lambda = 5 the paper, Sec. 6.1.
STARS = {
    "test_mca_10": "58.6 / 20.8 / 8.0 / 6.8 / 5.8",
    "test_mca_100": "84.9 / 11.2 / 2.5 / 1.0 / 0.4",
    "test_mca_500": "96.2 / 3.3 / 0.4 / 0.1 / 0.0",
    "multimodal": "80.8 / 12.4 / 4.4 / 2.4",
}


def read(name: str, by: str = "kind") -> Rows:
    """The rows of a set that were run with the settings of the files alone."""
    found: Rows = {}
    for row in FILES.get(name, rows_of(HERE / "results", name)).rows():
        if not row.get("options"):
            found.setdefault(row[by], []).append(row)
    return found


def stars(rows: Sequence[dict[str, str]]) -> str:
    """Shares of K* = 1, 2, ... in percent."""
    count: Counter[int] = Counter()
    for row in rows:
        count.update({int(k): n for k, n in json.loads(row["components"] or "{}").items()})
    if not count:
        return "-"
    return " / ".join(f"{100 * count[k] / count.total():.1f}" for k in range(1, max(count) + 1))


def zero(kind: str, rows: Sequence[dict[str, str]]) -> str:
    """Cells without attention, in percent. A Gaussian has none: what older rows count is below the smallest float."""
    return "0" if rows and kind.startswith(("continuous_softmax", "multimodal", *MIXTURES)) else mean(rows, "zero")


def set_table(name: str) -> str:
    """Accuracies of a set, and how many cells have no attention; of scenes also how maps compare."""
    rows, maps = read(name), name == "scenes"
    parts = () if maps else ("train_accuracy", "val_accuracy")
    present = [column for column in ASKED if any(_has(rows, f"accuracy_{column}"))]
    present = present if len(present) > 1 else []  # all are of one kind
    head = ["attention", "all", *(column.replace("_", "/") for column in present)]
    head += ["JS to relevant (bits)", "mass inside"] if maps else ["training", "validation"]
    head += ["cells at 0 (%)"] + (["VQA-v2, thesis", "VQA-v2, 2021", "JS to humans, 2021"] if maps else [])
    lines = []
    for kind in (*(() if maps else ("start",)), *KINDS, *(MIXTURES if maps else ())):
        mine = rows.get(kind, [])
        line = [NAMES[kind], mean(mine, "accuracy"), *(mean(mine, f"accuracy_{column}") for column in present)]
        line += [mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3)] if maps else []
        line += [mean(mine, part) for part in parts]
        line += [zero(kind, mine)]
        line += [source.get(kind, "-") for source in (THESIS, PAPER, HUMAN)] if maps else []
        lines.append(line)
    return table(head, lines)


def _has(rows: Rows, column: str) -> list[bool]:
    return [bool(row[column]) for each in rows.values() for row in each]


def bases_table() -> str:
    """Number of basis functions, with and without padding."""
    rows, lines = read("scenes"), []
    for kind in ("continuous_softmax", "continuous_sparsemax"):
        for name in (kind, *(other for other in BASES if other.startswith(kind))):
            mine = rows.get(name, [])
            count, padded = ("49" if "49" in name else "100"), ("no" if "unpadded" in name else "yes")
            line = [NAMES[kind], count, padded, mean(mine, "accuracy"), mean(mine, "accuracy_number")]
            lines.append([*line, mean(mine, "divergence", 1, 3), THESIS.get(name, "-")])
    return table(["attention", "N", "padding", "all", "number", "JS (bits)", "VQA-v2, thesis"], lines)


def stars_table() -> str:
    """Lambda against the number of components."""
    rows, lines = read("scenes"), []
    tested = [kind for kind in NAMES if kind.startswith("test_mca")]
    for kind in ("continuous_softmax", *tested, *MIXTURES, "multimodal", "multimodal_2.5", "multimodal_0.5"):
        mine = rows.get(kind, [])
        line = [NAMES[kind], mean(mine, "accuracy"), mean(mine, "divergence", 1, 3), stars(mine)]
        lines.append([*line, THESIS.get(kind) or PAPER.get(kind, "-"), STARS.get(kind, "-")])
    head = ["attention", "all", "JS (bits)", "K* = 1 / 2 / ... (%)", "VQA-v2, papers", "K*, papers (%)"]
    return table(head, lines)


def demo_table() -> str:
    """What ``omegamax demo`` measures."""
    rows, lines = read("demo"), []
    for kind, name in DEMO.items():
        mine = rows.get(kind, [])
        line = [name, mean(mine, "accuracy")]
        line += [mean(mine, f"accuracy_{each}") for each in ASKED]
        lines.append([*line, mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3), zero(kind, mine)])
    head = ["attention", "all", *(each.replace("_", "/") for each in ASKED), "JS (bits)", "mass inside"]
    return table([*head, "cells at 0 (%)"], lines)


def lambda_table() -> str:
    """How lambda of the demonstration was chosen."""
    lines = [
        [f"{float(value):g}", mean(rows, "accuracy"), mean(rows, "divergence", 1, 3), stars(rows)]
        for value, rows in read("demo_lambda", "selection").items()
    ]
    return table(["lambda", "all, validation", "JS (bits)", "K* = 1 / 2 / ... (%)"], lines)


def main() -> None:
    made = {**{name: set_table(name) for name in GRID}, "bases": bases_table(), "components": stars_table()}
    made |= {"demo": demo_table(), "lambda": lambda_table()}
    fill(sys.argv[1] if len(sys.argv) > 1 else HERE / "README.md", made)


if __name__ == "__main__":
    main()
