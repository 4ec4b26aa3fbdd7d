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
SIZE = {"bits": "small", "simplex": "full"}  # of the rows of unequal grids
UNEQUAL = "unequal"  # their folder
Rows = Sequence[Mapping[str, str]]


def bound_table(rows: Rows, name: str, codes: str) -> str:
    """Bounds and sparsity of every distribution, on one set."""
    head = ["distribution of the code", "bound", "weighted bound", "reconstruction", "divergence"]
    head += ["at a corner (%)", "entries at 0 (%)"]
    head += ["non-zeros of 10", "faces seen"] if codes == "simplex" else ["bound, full size", "weighted, full size"]
    lines = []
    for kind in KINDS[codes]:
        job = {"set": name, "codes": codes, "kind": kind, "size": SIZE[codes]}
        mine = rows_of(rows, job)
        line = [NAMES[kind], *(mean(mine, each, 1) for each in ("bound", "weighted", "reconstruction", "divergence"))]
        line += [mean(mine, each) for each in ("corner", "zero")]
        if codes == "simplex":
            line += [mean(mine, "nonzeros", 1, 2), mean(mine, "faces", 1, 0)]
        else:
            large = rows_of(rows, {**job, "size": "full"})
            line += [mean(large, "bound", 1), mean(large, "weighted", 1)]
        lines.append(line)
    return table(head, lines)


def differences_table(rows: Rows, other: str = "gaussian_sparsemax") -> str:
    """Bounds of Gaussian-sparsemax less those of every other distribution, paired by seed, with their intervals."""
    lines = []
    for codes in CODES:
        for kind in (each for each in KINDS[codes] if each != other):
            line = [f"{codes}: to {NAMES[kind]}"]
            for name in SETS:
                job = {"set": name, "codes": codes, "size": SIZE[codes]}
                mine, its = (rows_of(rows, {**job, "kind": each}) for each in (other, kind))
                line += [paired_difference(mine, its, column, 1) for column in ("bound", "weighted")]
            lines.append(line)
    head = [f"{name}, {word}" for name in SETS for word in ("bound", "weighted")]
    return table([NAMES[other], *head], lines)


def trials_table(trials: Rows) -> str:
    """Bounds of the validation part in the trials of unequal grids, and what was chosen."""
    lines = []
    for codes in CODES:
        for kind in KINDS[codes]:
            line = [f"{codes}: {NAMES[kind]}"]
            for name in SETS:
                mine = rows_of(trials, {"set": name, "codes": codes, "kind": kind, "size": SIZE[codes]})
                best = max(mine, key=lambda row: float(row["val_bound"]))
                chosen = f"rate {float(best['rate']):g}"
                chosen += f", temperature {float(best['temperature']):g}" if best["temperature"] else ""
                line += [chosen, " / ".join(f"{float(row['val_bound']):.1f}" for row in _sorted(mine))]
            lines.append(line)
    return table(["distribution of the code", *(word for name in SETS for word in (name, "validation bounds"))], lines)


def _sorted(rows: Rows) -> list[Mapping[str, str]]:
    """By temperature, then rate."""
    return sorted(rows, key=lambda row: (float(row["temperature"] or 0), float(row["rate"])))


def rates_table(trials: Rows) -> str:
    """Bounds of the validation part by rate, at the best temperature: equal grids, full size, what has been tried."""
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


def seeds_table(rows: Rows) -> str:
    """Full-size runs with settings of equal grids, seed by seed."""
    lines = []
    for codes in CODES:
        for kind in KINDS[codes]:
            for name in SETS:
                mine = rows_of(rows, {"set": name, "codes": codes, "kind": kind, "size": "full"})
                for rate in sorted({row["rate"] for row in mine}, key=float):
                    own = sorted((row for row in mine if row["rate"] == rate), key=lambda row: int(row["seed"]))
                    at = f", temperature {float(own[0]['temperature']):g}" if own[0]["temperature"] else ""
                    bounds = " / ".join(f"{float(row['bound']):.1f}" for row in own)
                    lines.append([f"{codes}, {name}: {NAMES[kind]}", f"{float(rate):g}{at}", bounds])
    return table(["codes, set: distribution", "rate", "bounds of seeds 0 to 4"], lines)


def equal_rate_table(rows: Rows, more: Rows) -> str:
    """Bits, small: straight-through at the rate that Gaussian-sparsemax has."""
    lines = []
    for name in SETS:
        job = {"set": name, "codes": "bits", "size": "small"}
        ours, chosen = (rows_of(rows, {**job, "kind": kind}) for kind in ("gaussian_sparsemax", "straight_through"))
        equal = rows_of(more, {**job, "kind": "straight_through"})
        labels = ("Gaussian-sparsemax", "straight-through, as its trials chose", "straight-through, at equal rate")
        for label, its in zip(labels, (ours, chosen, equal), strict=True):
            if not its:
                continue
            rate = f"{float(its[0]['rate']):g}"
            lines.append([f"{name}: {label}", rate, *(mean(its, column, 1) for column in ("bound", "weighted"))])
    return table(["bits, small", "rate", "bound", "weighted bound"], lines)


def tables(folder: Path) -> dict[str, str]:
    """All of them, by name."""

    def read(path: Path, columns: Sequence[str], keys: Sequence[str]) -> Rows:
        return Trials(path, columns, keys).rows()

    rows, trials = (
        read(folder / UNEQUAL / "runs.csv", COLUMNS, KEYS),
        read(folder / UNEQUAL / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS),
    )
    made = {f"{name} {codes}": bound_table(rows, name, codes) for name in SETS for codes in CODES}
    made |= {"differences": differences_table(rows), "trials": trials_table(trials)}
    made["rates"] = rates_table(read(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS))
    made["seeds"] = seeds_table(read(folder / "runs.csv", COLUMNS, KEYS))
    made["equal rate"] = equal_rate_table(rows, read(folder / "equal_rate.csv", COLUMNS, KEYS))
    return made


if __name__ == "__main__":
    fill(sys.argv[1] if len(sys.argv) > 1 else HERE / "README.md", tables(HERE / "results"))
