"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/vae/tables.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from job import (
    BEYOND,
    CODES,
    COLUMNS,
    KEYS,
    KINDS,
    RATES,
    SETS,
    TRIAL_COLUMNS,
    TRIAL_KEYS,
    rows_of,
)

from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
NAMES = {
    "gaussian": "Gaussian (real numbers)",
    "gumbel_softmax": "Gumbel-softmax",
    "straight_through": "straight-through (discrete)",
    "hard_concrete": "Hard Concrete",
    "gaussian_sparsemax": "Gaussian-sparsemax",
    "mixed_dirichlet": "mixed Dirichlet",
}
Rows = Sequence[Mapping[str, str]]


def chosen(rows: Rows) -> list[Mapping[str, str]]:
    """Those of full size whose rate was a choice."""
    return [row for row in rows if row["size"] == "full" and float(row["rate"]) in RATES]


def bound_table(rows: Rows, name: str, codes: str) -> str:
    """Bounds and sparsity of every distribution, on one set."""
    head = ["distribution of the code", "rate", "bound", "weighted bound", "reconstruction", "divergence"]
    head += ["at a corner (%)", "entries at 0 (%)", *(["non-zeros of 10", "faces seen"] if codes == "simplex" else [])]
    lines = []
    for kind in KINDS[codes]:
        mine = rows_of(rows, {"set": name, "codes": codes, "kind": kind, "size": "full"})
        if not mine:
            continue
        settings = [f"{float(mine[0][each]):g}" for each in ("rate", "temperature") if mine[0][each]]
        line = [NAMES[kind], ", temperature ".join(settings)]
        line += [mean(mine, each, 1, 1, 5) for each in ("bound", "weighted", "reconstruction", "divergence")]
        line += [mean(mine, each, seeds=None) for each in ("corner", "zero")]
        if codes == "simplex":
            line += [mean(mine, "nonzeros", 1, 2, None), mean(mine, "faces", 1, 0, None)]
        lines.append(line)
    return table(head, lines)


def differences_table(rows: Rows, other: str = "gaussian_sparsemax") -> str:
    """Bounds of Gaussian-sparsemax less those of every other distribution, paired by seed, with their intervals."""
    lines = []
    for codes in CODES:
        for kind in (each for each in KINDS[codes] if each != other):
            line = [f"{codes}: to {NAMES[kind]}"]
            for name in SETS:
                job = {"set": name, "codes": codes, "size": "full"}
                mine, its = (rows_of(rows, {**job, "kind": each}) for each in (other, kind))
                line += [paired_difference(mine, its, column, 1) for column in ("bound", "weighted")]
            lines.append(line)
    head = [f"{name}, {word}" for name in SETS for word in ("bound", "weighted")]
    return table([NAMES[other], *head], lines)


def rates_table(trials: Rows) -> str:
    """Bounds of the validation part by rate, at the best temperature (in brackets), and rates that were no choice."""
    lines = []
    for codes in CODES:
        for kind in KINDS[codes]:
            for name in SETS:
                mine = rows_of(trials, {"set": name, "codes": codes, "kind": kind, "size": "full"})
                if not mine:
                    continue
                cells = []
                for rate in (*RATES, *BEYOND):
                    own = [row for row in mine if float(row["rate"]) == rate]
                    finite = [row for row in own if float(row["val_bound"]) > -math.inf]  # NaN is not
                    best = max(finite, key=lambda row: float(row["val_bound"]), default=None)
                    at = f" ({float(best['temperature']):g})" if best is not None and best["temperature"] else ""
                    none = "not a number" if own else "-"
                    cells.append(none if best is None else f"{float(best['val_bound']):.1f}{at}")
                lines.append([f"{codes}, {name}: {NAMES[kind]}", *cells])
    return table(["codes, set: distribution", *(f"rate {rate:g}" for rate in (*RATES, *BEYOND))], lines)


def small_table(rows: Rows) -> str:
    """Bits at small size: Gaussian-sparsemax and straight-through codes at one rate, and how far they are apart."""
    lines, kinds, columns = [], ("gaussian_sparsemax", "straight_through"), ("bound", "weighted")
    for name in SETS:
        own = [rows_of(rows, {"set": name, "codes": "bits", "kind": kind, "size": "small"}) for kind in kinds]
        for kind, mine in zip(kinds, own, strict=True):
            lines.append([f"{name}: {NAMES[kind]}", *(mean(mine, column, 1) for column in columns)])
        lines.append([f"{name}: difference", *(paired_difference(*own, column, 1) for column in columns)])
    return table(["bits, small", "bound", "weighted bound"], lines)


def tables(folder: Path) -> dict[str, str]:
    """All of them, by name."""
    rows = Trials(folder / "runs.csv", COLUMNS, KEYS).rows()
    made = {f"{name} {codes}": bound_table(chosen(rows), name, codes) for name in SETS for codes in CODES}
    made["differences"] = differences_table(chosen(rows))
    made["small"] = small_table(Trials(folder / "small.csv", COLUMNS, KEYS).rows())
    made["rates"] = rates_table(Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS).rows())
    return made


if __name__ == "__main__":
    fill(sys.argv[1] if len(sys.argv) > 1 else HERE / "README.md", tables(HERE / "results"))
