"""Write the tables of README.md from results/*.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean as average

from job import BENCHMARKS, DIGITS, HERE, KINDS, SETS
from run import table_rows, trials

from omegamax.tasks.tables import fill, mean, table

Rows = Sequence[dict[str, str]]
NAMES = {
    "softmax": "softmax",
    "entmax15": "1.5-entmax",
    "sparsemax": "sparsemax",
    "normmax_2": "2-normmax",
    "normmax_5": "5-normmax",
    "k_subsets_2": "SparseMAP, k = 2",
    "k_subsets_3": "SparseMAP, k = 3",
    "k_subsets_5": "SparseMAP, k = 5",
}
TITLES = {**{name: f"K = {count}" for name, count in DIGITS.items()}, **{name: name.title() for name in BENCHMARKS}}
# The talk's numbers, in the order of SETS.
TALK = {
    "softmax": ("98.4 ± 0.2", "94.6 ± 0.5", "91.1 ± 0.5", "89.0 ± 0.3", "66.4 ± 2.0", "87.1 ± 1.6", "92.6 ± 0.6"),
    "entmax15": ("97.6 ± 0.8", "96.0 ± 0.9", "90.4 ± 1.1", "92.4 ± 1.4", "66.3 ± 2.0", "87.3 ± 1.5", "92.4 ± 1.0"),
    "sparsemax": ("97.9 ± 0.2", "96.7 ± 0.5", "92.9 ± 0.9", "91.6 ± 1.0", "66.1 ± 0.6", "87.7 ± 1.4", "91.8 ± 0.6"),
    "normmax_2": ("97.9 ± 0.3", "96.6 ± 0.6", "93.9 ± 0.7", "92.4 ± 0.7", "66.1 ± 2.5", "86.4 ± 0.8", "92.4 ± 0.7"),
    "normmax_5": ("98.2 ± 0.5", "97.2 ± 0.3", "95.8 ± 0.4", "93.2 ± 0.5", "66.4 ± 2.3", "85.5 ± 0.6", "93.0 ± 0.7"),
    "k_subsets_2": ("98.7 ± 0.3", "97.9 ± 0.2", "92.2 ± 0.5", "92.2 ± 0.5", "66.8 ± 2.7", "85.4 ± 0.6", "93.1 ± 1.0"),
    "k_subsets_3": ("97.2 ± 0.4", "96.2 ± 1.2", "97.3 ± 0.4", "92.0 ± 0.6", "68.0 ± 2.6", "85.0 ± 0.5", "90.8 ± 0.7"),
    "k_subsets_5": ("97.5 ± 0.9", "97.4 ± 0.5", "94.5 ± 0.8", "96.2 ± 1.1", "65.5 ± 1.9", "79.8 ± 1.2", "89.9 ± 0.6"),
}


def of(rows: Rows, name: str, kind: str) -> list[dict[str, str]]:
    """Rows of a set and a pooling."""
    return [row for row in rows if (row["set"], row["kind"]) == (name, kind)]


def with_heads(rows: Rows, heads: int) -> list[dict[str, str]]:
    """Rows of networks with as many heads."""
    return [row for row in rows if row["heads"] == str(heads)]


def value(cell: str) -> float:
    """The mean in a cell; a dash is below all."""
    return float(cell.split()[0]) if cell != "-" else float("-inf")


def marked(columns: list[list[str]]) -> list[list[str]]:
    """Columns with the best of each in bold; several, if they are the same as written."""
    out = []
    for column in columns:
        best = max(map(value, column))
        out.append([f"**{cell}**" if cell != "-" and value(cell) == best else cell for cell in column])
    return out


def beside(rows: Rows, names: Sequence[str], column: str) -> str:
    """Ours and the talk's, set by set, the best in bold."""
    head, columns = ["pooling"], []
    for name in names:
        head += [f"{TITLES[name]}, ours", "talk"]
        columns.append([mean(of(rows, name, kind), column) for kind in KINDS])
        columns.append([TALK[kind][SETS.index(name)] for kind in KINDS])
    lines = zip(NAMES.values(), *marked(columns), strict=True)
    return table(head, [list(line) for line in lines])


def measured(rows: Rows, names: Sequence[str], column: str, digits: int = 0) -> list[list[str]]:
    """A column of the rows, set by set."""
    return [
        [title, *(mean(of(rows, name, kind), column, digits=digits) for name in names)] for kind, title in NAMES.items()
    ]


def alone(tried: Rows) -> str:
    """Validation of networks with one head: accuracy with the best beta, and mass inside there."""
    lines = []
    accuracies: list[list[str]] = []
    masses: list[list[str]] = []
    for name in DIGITS:
        own = [of(tried, name, kind) for kind in KINDS]
        best = [max(rows, key=lambda row: float(row["val_accuracy"])) if rows else None for rows in own]
        accuracies.append([f"{100 * float(row['val_accuracy']):.1f}" if row else "-" for row in best])
        masses.append([f"{100 * float(row['val_inside']):.0f}" if row else "-" for row in best])
    for title, cells, inside in zip(
        NAMES.values(), zip(*marked(accuracies), strict=True), zip(*masses, strict=True), strict=True
    ):
        lines.append([title, *cells, *inside])
    titles = [TITLES[name] for name in DIGITS]
    return table(["pooling", *titles, *(f"{title}, inside" for title in titles)], lines)


def masses(rows: Rows) -> str:
    """Weight on the digits that count, and what equal weights would have there."""
    equal = ["equal weights"]
    for name in DIGITS:
        found = [row for row in rows if row["set"] == name]
        equal.append(f"{100 * float(found[0]['positives']):.0f}" if found else "-")
    head = ["pooling", *(TITLES[name] for name in DIGITS)]
    return table(head, [*measured(rows, list(DIGITS), "inside"), equal])


def chosen(rows: Rows) -> str:
    """What validation chose."""
    lines = []
    for kind, title in NAMES.items():
        line = [title]
        for name in SETS:
            own = of(rows, name, kind)
            said = [f"{float(own[0][key]):g}" for key in ("rate", "dropout", "beta")] if own else ["-"]
            line.append(" / ".join(said if name not in DIGITS or not own else [said[0], said[2]]))
        lines.append(line)
    return table(["pooling", *TITLES.values()], lines)


def spread(tried: Rows) -> str:
    """How much the settings matter: best and worst validation of each set, mean over poolings."""
    lines = []
    for name in SETS:
        column = "val_accuracy" if name in DIGITS else "val_auc"
        own = {kind: [100 * float(row[column]) for row in of(tried, name, kind)] for kind in KINDS}
        there = [values for values in own.values() if values]
        if not there:
            lines.append([TITLES[name], "-", "-", "-"])
            continue
        best = [max(of(tried, name, kind), key=lambda row: float(row[column])) for kind in KINDS if own[kind]]
        beta = ", ".join(f"{float(b):g}: {n}" for b, n in sorted(Counter(row["beta"] for row in best).items()))
        cells = [f"{average(max(values) for values in there):.1f}", f"{average(min(values) for values in there):.1f}"]
        lines.append([TITLES[name], *cells, beta])
    return table(["set", "best settings", "worst settings", "best beta: of how many poolings"], lines)


def softer(tried: Rows, more: Rows) -> str:
    """K = 5: validation with a beta below those of the grid, beside the best of the grid."""
    lines = []
    for kind, title in NAMES.items():
        soft, grid = of(more, "mnist_5", kind), of(tried, "mnist_5", kind)
        if not soft or not grid:
            continue
        row, best = soft[0], max(grid, key=lambda row: float(row["val_accuracy"]))
        cells = [
            f"{100 * float(each[key]):.{digits}f}"
            for key, digits in (("val_accuracy", 1), ("val_zero", 0))
            for each in (best, row)
        ]
        lines.append([title, *cells])
    return table(["pooling", "best of the grid", "beta = 0.01", "zeros, best of the grid", "zeros, beta = 0.01"], lines)


def main() -> None:
    folder = HERE / "results"
    every = trials(folder).rows()
    rows, tried = table_rows(folder, 12), with_heads(every, 12)
    tables = {
        "alone": alone([row for row in with_heads(every, 1) if float(row["rate"]) == 1e-3]),
        "digits": beside(rows, list(DIGITS), "accuracy"),
        "benchmarks": beside(rows, BENCHMARKS, "auc"),
        "inside": masses(rows),
        "zeros": table(["pooling", *TITLES.values()], measured(rows, SETS, "zero")),
        "chosen": chosen(rows),
        "spread": spread(tried),
        "softer": softer(tried, trials(folder / "softer").rows()),
    }
    fill(HERE / "README.md", tables)


if __name__ == "__main__":
    main()
