"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/communication/tables.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from settings import CHOICES, KINDS, PARAMETERS, RATES, RESULTS, TEMPERING, TEMPERINGS, chosen, runs_of, trials_of

from omegamax.tasks.tables import fill, mean, paired_difference, table

SEEDS = 10
NAMES = {
    "gumbel_softmax": "Gumbel-softmax",
    "gumbel_softmax_st": "Gumbel-softmax, straight-through",
    "hard_concrete": "K-D hard concrete",
    "gaussian_sparsemax": "Gaussian-sparsemax",
}
# The talk: mean and standard error over 10 runs, 256 words, photographs.
TALK = {
    "gumbel_softmax": ("78.84 ± 8.07", "256"),
    "gumbel_softmax_st": ("49.96 ± 9.51", "1"),
    "hard_concrete": ("76.07 ± 7.76", "21.43 ± 17.56"),
    "gaussian_sparsemax": ("80.88 ± 0.50", "1.57 ± 0.02"),
}
Rows = list[dict[str, str]]


def results_table(rows: Rows, trials: Rows, choice: str) -> str:
    """Test games: what was said and understood with each distribution."""
    head = [
        "distribution of the symbol",
        "temperature or scale",
        "rate",
        "success (%)",
        "nonzeros",
        "largest word only (%)",
        "words in use",
    ]
    head += ["success, talk", "nonzeros, talk"]
    lines = []
    for kind in KINDS:
        mine = of(rows, kind, choice)
        best = chosen(trials, kind, choice)
        settings = [f"{best[name]:g}" for name in ("parameter", "rate")]
        whole = kind.startswith("gumbel")  # all words or one, by the distribution
        numbers = [
            mean(mine, "success", seeds=SEEDS),
            mean(mine, "nonzeros", 1, 2, SEEDS) if not whole else _same(mine, "nonzeros"),
            mean(mine, "rounded", seeds=SEEDS),
            mean(mine, "words", 1, 0, SEEDS),
        ]
        lines.append([NAMES[kind], *settings, *numbers, *TALK[kind]])
    return table(head, lines)


def _same(rows: Rows, column: str) -> str:
    """A number that is the same in all rows."""
    found = {float(row[column]) for row in rows}
    if len(found) > 1:
        raise ValueError(f"{column} should be one number, got {sorted(found)}")
    return f"{found.pop():g}" if found else "-"


def of(rows: Rows, kind: str, choice: str) -> Rows:
    """Rows of a distribution and a choice."""
    return [row for row in rows if (row["kind"], row["choice"]) == (kind, choice)]


def validation_table(trials: Rows) -> str:
    """Validation games of one seed: success and nonzeros of every distribution, by what is given and what is chosen."""
    lines = []
    for kind in KINDS:
        line = [NAMES[kind]]
        for choice in CHOICES:
            best = chosen(trials, kind, choice)
            (row,) = [r for r in _tried(trials, kind, best["parameter"], best["tempering"]) if _rate(r) == best["rate"]]
            at = "" if choice != "both" else f" at {best['parameter']:g}"
            line.append(f"{100 * float(row['val_success']):.1f} ({float(row['val_nonzeros']):.3g}){at}")
        lines.append(line)
    head = ["published parameters", "the same, scores not divided", "temperature or scale chosen"]
    return table(["distribution of the symbol", *head], lines)


def _rate(row: dict[str, str]) -> float:
    return float(row["rate"])


def differences_table(rows: Rows) -> str:
    """Test games: differences between distributions, and by tempering, paired by seed, with their intervals."""
    lines = []
    for kind in (each for each in KINDS if any(row["kind"] == each for row in rows)):
        line = [NAMES[kind]]
        for choice in ("rate", "both"):
            mine, other = of(rows, kind, choice), of(rows, "gaussian_sparsemax", choice)
            line.append("" if kind == "gaussian_sparsemax" else paired_difference(mine, other, "success"))
        line.append(paired_difference(of(rows, kind, "rate"), of(rows, kind, "untempered"), "success"))
        lines.append(line)
    head = ["distribution of the symbol", "to Gaussian-sparsemax, published parameters", "the same, parameters chosen"]
    return table([*head, "scores divided by 10, to by 1"], lines)


def words_table(rows: Rows) -> str:
    """Test games: Gaussian-sparsemax with its scale chosen beside hard concrete, which says as many words at 1."""
    ours, theirs = of(rows, "gaussian_sparsemax", "both"), of(rows, "hard_concrete", "rate")
    lines = []
    for column, name, scale, digits in (
        ("success", "success (%)", 100, 1),
        ("nonzeros", "nonzeros", 1, 2),
        ("rounded", "largest word only (%)", 100, 1),
        ("words", "words in use", 1, 0),
    ):
        cells = [mean(each, column, scale, digits, SEEDS) for each in (ours, theirs)]
        lines.append([name, *cells, paired_difference(ours, theirs, column, scale, digits)])
    return table(["", "Gaussian-sparsemax, scale 0.25", "K-D hard concrete, temperature 1", "difference"], lines)


def trials_table(trials: Rows, tempering: float = TEMPERING) -> str:
    """Validation games: success and nonzeros by parameter, at the best rate."""
    lines = []
    for kind in KINDS:
        line = [NAMES[kind]]
        for parameter in PARAMETERS:
            mine = _tried(trials, kind, parameter, tempering)
            best = max(mine, key=lambda row: float(row["val_success"]), default=None)
            line.append("-" if best is None else _cell(best))
        lines.append(line)
    return table(["distribution of the symbol", *(f"{parameter:g}" for parameter in PARAMETERS)], lines)


def _tried(trials: Rows, kind: str, parameter: float, tempering: float) -> Rows:
    wanted = (parameter, tempering)
    return [r for r in trials if r["kind"] == kind and (float(r["parameter"]), float(r["tempering"])) == wanted]


def _cell(row: dict[str, str]) -> str:
    return f"{100 * float(row['val_success']):.1f} ({float(row['val_nonzeros']):.3g}; {float(row['rate']):g})"


def rates_table(trials: Rows) -> str:
    """Validation games: success by rate, with the published parameter and with the best, and by tempering."""
    lines = []
    for kind in KINDS:
        for choice in CHOICES:
            best = chosen(trials, kind, choice)
            mine = {float(r["rate"]): r for r in _tried(trials, kind, best["parameter"], best["tempering"])}
            cells = [f"{100 * float(mine[rate]['val_success']):.1f}" if rate in mine else "-" for rate in RATES]
            line = [NAMES[kind], f"{best['parameter']:g}", f"{best['tempering']:g}", *cells]
            if line not in lines:
                lines.append(line)
    head = ["distribution of the symbol", "temperature or scale", "scores divided by"]
    return table([*head, *(f"rate {rate:g}" for rate in RATES)], lines)


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """All of them, by name."""
    rows, trials = runs_of(folder).rows(), trials_of(folder).rows()
    made = {choice: results_table(rows, trials, choice) for choice in CHOICES}
    made |= {"differences": differences_table(rows), "validation": validation_table(trials), "words": words_table(rows)}
    made |= {f"parameters {tempering:g}": trials_table(trials, tempering) for tempering in TEMPERINGS}
    return {**made, "rates": rates_table(trials)}


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS.with_name("README.md")
    fill(page, tables())


if __name__ == "__main__":
    main()
