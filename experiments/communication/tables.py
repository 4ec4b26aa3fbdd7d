"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/communication/tables.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from settings import CHOICES, KINDS, PARAMETERS, RATES, RESULTS, chosen, runs_of, trials_of

from omegamax.tasks.tables import fill, mean, table

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
        mine = [row for row in rows if (row["kind"], row["choice"]) == (kind, choice)]
        settings = [f"{value:g}" for value in chosen(trials, kind, choice).values()]
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


def trials_table(trials: Rows) -> str:
    """Validation games: success and nonzeros by parameter, at the best rate."""
    lines = []
    for kind in KINDS:
        line = [NAMES[kind]]
        for parameter in PARAMETERS:
            mine = [row for row in trials if row["kind"] == kind and float(row["parameter"]) == parameter]
            best = max(mine, key=lambda row: float(row["val_success"]), default=None)
            line.append("-" if best is None else _cell(best))
        lines.append(line)
    return table(["distribution of the symbol", *(f"{parameter:g}" for parameter in PARAMETERS)], lines)


def _cell(row: dict[str, str]) -> str:
    return f"{100 * float(row['val_success']):.1f} ({float(row['val_nonzeros']):.3g}; {float(row['rate']):g})"


def rates_table(trials: Rows) -> str:
    """Validation games: success by rate, with the published parameter and with the best."""
    lines = []
    for kind in KINDS:
        for choice in CHOICES:
            best = chosen(trials, kind, choice)["parameter"]
            mine = {float(r["rate"]): r for r in trials if r["kind"] == kind and float(r["parameter"]) == best}
            cells = [f"{100 * float(mine[rate]['val_success']):.1f}" if rate in mine else "-" for rate in RATES]
            line = [NAMES[kind], f"{best:g}", *cells]
            if line not in lines:
                lines.append(line)
    return table(["distribution of the symbol", "temperature or scale", *(f"rate {rate:g}" for rate in RATES)], lines)


def longer_table(rows: Rows, longer: Rows) -> str:
    """Test games: the same settings, trained for longer; only the seeds that have both."""
    lines = []
    for kind in KINDS:
        mine = [row for row in longer if (row["kind"], row["choice"]) == (kind, "rate")]
        seeds = [row["seed"] for row in mine]
        before = [row for row in rows if (row["kind"], row["choice"]) == (kind, "rate") and row["seed"] in seeds]
        for each in (before, mine):
            if each:
                numbers = [mean(each, "success", seeds=None), mean(each, "nonzeros", 1, 2, None)]
                numbers.append(mean(each, "words", 1, 0, None))
                lines.append([NAMES[kind], str(len(each)), each[0]["epochs"], *numbers])
    return table(["distribution of the symbol", "seeds", "epochs", "success (%)", "nonzeros", "words in use"], lines)


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """All of them, by name."""
    rows, trials = runs_of(folder).rows(), trials_of(folder).rows()
    made = {choice: results_table(rows, trials, choice) for choice in CHOICES}
    made["longer"] = longer_table(rows, runs_of(folder, "longer.csv").rows())
    return {**made, "parameters": trials_table(trials), "rates": rates_table(trials)}


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS.with_name("README.md")
    fill(page, tables())


if __name__ == "__main__":
    main()
