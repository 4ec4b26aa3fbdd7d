"""Write the tables of README.md from results/*.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean as average

import shares
from job import BENCHMARKS, BETAS, DIGITS, HERE, KINDS, SETS, family
from run import table_rows, trials

from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.trials import Trials

Rows = Sequence[dict[str, str]]
SEEDS, HEADS = 5, 12
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
        columns.append([mean(of(rows, name, kind), column, seeds=SEEDS) for kind in KINDS])
        columns.append([TALK[kind][SETS.index(name)] for kind in KINDS])
    lines = zip(NAMES.values(), *marked(columns), strict=True)
    return table(head, [list(line) for line in lines])


def measured(rows: Rows, names: Sequence[str], column: str, digits: int = 0) -> list[list[str]]:
    """A column of the rows, set by set."""
    return [
        [title, *(mean(of(rows, name, kind), column, digits=digits, seeds=SEEDS) for name in names)]
        for kind, title in NAMES.items()
    ]


def differences(rows: Rows, names: Sequence[str], column: str, others: Sequence[str]) -> str:
    """Differences of every pooling to others, seed by seed, with their intervals."""
    there = [name for name in names if any(row["set"] == name for row in rows)]
    names = there or names
    head = ["pooling", *(f"{TITLES[name]}, to {NAMES[other]}" for name in names for other in others)]
    lines = []
    for kind, title in NAMES.items():
        cells = []
        for name in names:
            for other in others:
                same = kind == other
                cells.append("" if same else paired_difference(of(rows, name, kind), of(rows, name, other), column))
        lines.append([title, *cells])
    return table(head, lines)


def matched(rows: Rows) -> str:
    """SparseMAP with k = K: differences to softmax, to the best other pooling that sums to one, and to other k."""
    subsets = {2: "k_subsets_2", 3: "k_subsets_3", 5: "k_subsets_5"}
    lines = []
    for name, count in DIGITS.items():
        if count not in subsets or not of(rows, name, subsets[count]):
            continue
        own = of(rows, name, subsets[count])
        ones = [kind for kind in KINDS if kind not in subsets.values()]
        best = max(ones, key=lambda kind: value(mean(of(rows, name, kind), "accuracy", seeds=SEEDS)))
        wrong = [kind for k, kind in subsets.items() if k != count]
        cells = [paired_difference(own, of(rows, name, kind), "accuracy") for kind in ("softmax", best, *wrong)]
        cells[1] += f" ({NAMES[best]})"
        for place, kind in enumerate(wrong, 2):
            cells[place] += f" (k = {kind[-1]})"
        lines.append([TITLES[name], *cells])
    head = ["set", "k = K to softmax", "to the best that sums to one", "to another k", "to the other k"]
    return table(head, lines)


def share_table(folder: str = "results") -> str:
    """What a threshold on the share of nines gets, with bags of either kind."""
    rows = Trials(HERE / folder / "shares.csv", shares.COLUMNS, shares.KEYS).rows()
    lines = []
    for name, count in DIGITS.items():
        line = [TITLES[name]]
        for mean_, deviation in ((9.0 + count, float(count)), (10.0, 1.0)):
            found = [r for r in rows if (r["set"], float(r["mean"]), float(r["deviation"])) == (name, mean_, deviation)]
            line.append(f"{100 * float(found[0]['accuracy']):.1f}" if found else "-")
        lines.append(line)
    return table(["set", "9 + K ± K digits", "10 ± 1 digits"], lines)


def betas(tried: Rows, name: str) -> str:
    """Validation by beta, at the best rate and dropout, and the zeros there."""
    column = "val_accuracy" if name in DIGITS else "val_auc"
    lines = []
    for kind, title in NAMES.items():
        line = [title]
        for beta in BETAS[family(name)]:
            own = [row for row in of(tried, name, kind) if float(row["beta"]) == beta]
            best = max(own, key=lambda row: float(row[column]), default=None)
            cell = "-" if best is None else f"{100 * float(best[column]):.1f} ({100 * float(best['val_zero']):.0f})"
            line.append(cell)
        lines.append(line)
    return table(["pooling", *(f"{beta:g}" for beta in BETAS[family(name)])], lines)


def masses(rows: Rows, names: Sequence[str]) -> str:
    """Weight on the digits that count, and what equal weights would have there."""
    equal = ["equal weights"]
    for name in names:
        found = [row for row in rows if row["set"] == name]
        equal.append(f"{100 * float(found[0]['positives']):.0f}" if found else "-")
    head = ["pooling", *(TITLES[name] for name in names)]
    return table(head, [*measured(rows, names, "inside"), equal])


def chosen(rows: Rows, names: Sequence[str]) -> str:
    """What validation chose."""
    lines = []
    for kind, title in NAMES.items():
        line = [title]
        for name in names:
            own = of(rows, name, kind)
            said = [f"{float(own[0][key]):g}" for key in ("rate", "dropout", "beta")] if own else ["-"]
            line.append(" / ".join(said if name not in DIGITS or not own else [said[0], said[2]]))
        lines.append(line)
    return table(["pooling", *(TITLES[name] for name in names)], lines)


def spread(tried: Rows) -> str:
    """How much the settings matter: best and worst validation of each set, mean over poolings."""
    lines = []
    for name in SETS:
        column = "val_accuracy" if name in DIGITS else "val_auc"
        own = {kind: [100 * float(row[column]) for row in of(tried, name, kind)] for kind in KINDS}
        there = [values for values in own.values() if values]
        if not there:
            continue
        best = [max(of(tried, name, kind), key=lambda row: float(row[column])) for kind in KINDS if own[kind]]
        beta = ", ".join(f"{b:g}: {n}" for b, n in sorted(Counter(float(row["beta"]) for row in best).items()))
        cells = [f"{average(max(values) for values in there):.1f}", f"{average(min(values) for values in there):.1f}"]
        lines.append([TITLES[name], *cells, beta])
    return table(["set", "best settings", "worst settings", "best beta: of how many poolings"], lines)


def main() -> None:
    folder = HERE / "results"
    rows, tried = table_rows(folder, HEADS), with_heads(trials(folder).rows(), HEADS)
    there = [name for name in SETS if any(row["set"] == name for row in rows)]
    titles = [TITLES[name] for name in there]
    digits = [name for name in there if name in DIGITS]
    tables = {
        "digits": beside(rows, digits, "accuracy"),
        "differences": differences(rows, digits, "accuracy", ["softmax"]),
        "matched": matched(rows),
        "shares": share_table(),
        "benchmarks": beside(rows, BENCHMARKS, "auc"),
        "benchmark differences": differences(rows, BENCHMARKS, "auc", ["softmax"]),
        "inside": masses(rows, digits),
        "zeros": table(["pooling", *titles], measured(rows, there, "zero")),
        "chosen": chosen(rows, there),
        "spread": spread(tried),
        "betas": betas(tried, "mnist_5"),
    }
    fill(HERE / "README.md", tables)


if __name__ == "__main__":
    main()
