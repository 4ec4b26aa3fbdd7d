"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/vae/tables.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from job import CODES, COLUMNS, KEYS, KINDS, SETS, TRIAL_COLUMNS, TRIAL_KEYS, best_settings, rows_of, with_best_settings

from omegamax.tasks.tables import fill, mean, table
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
SIZE = {"bits": "small", "simplex": "full"}  # of the runs in the tables
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


def trials_table(trials: Rows) -> str:
    """Bounds of the validation part in the trials, and what was chosen."""
    lines = []
    for codes in CODES:
        for kind in KINDS[codes]:
            line = [f"{codes}: {NAMES[kind]}"]
            for name in SETS:
                job = {"set": name, "codes": codes, "kind": kind, "size": SIZE[codes]}
                try:
                    best = best_settings(trials, job)
                except LookupError:
                    line += ["-", "-"]
                    continue
                chosen = f"rate {best['rate']:g}"
                chosen += f", temperature {best['temperature']:g}" if best["temperature"] else ""
                line += [chosen, " / ".join(f"{float(row['val_bound']):.1f}" for row in _sorted(rows_of(trials, job)))]
            lines.append(line)
    return table(["distribution of the code", *(word for name in SETS for word in (name, "validation bounds"))], lines)


def _sorted(rows: Rows) -> list[Mapping[str, str]]:
    """By temperature, then rate."""
    return sorted(rows, key=lambda row: (float(row["temperature"] or 0), float(row["rate"])))


def tables(folder: Path) -> dict[str, str]:
    """All of them, by name."""
    trials = Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS).rows()
    rows = with_best_settings(Trials(folder / "runs.csv", COLUMNS, KEYS).rows(), trials)
    made = {f"{name} {codes}": bound_table(rows, name, codes) for name in SETS for codes in CODES}
    return {**made, "trials": trials_table(trials)}


if __name__ == "__main__":
    fill(sys.argv[1] if len(sys.argv) > 1 else HERE / "README.md", tables(HERE / "results"))
