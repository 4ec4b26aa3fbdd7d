"""What is run, what is tried, and where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegamax.tasks.trials import Trials

RESULTS = Path(__file__).parent / "results"
SET, CLASSES = "fashion_mnist", 10
KINDS = ("gumbel_softmax", "gumbel_softmax_st", "hard_concrete", "gaussian_sparsemax")
BATCH, STEPS, TRIAL_STEPS = 256, 12_500, 6_250  # 3.2 million games, and half of them
PUBLISHED = 1.0  # temperature or scale: the paper's own code has 1 for all, and lets temperatures fall later
TEMPERING = 10.0  # what the sender's scores are divided by in the paper's own code
# What is tried with each distribution: its parameter, what scores are divided by, and how fast it learns.
PARAMETERS = (0.25, 0.5, 1.0, 2.0, 4.0)
TEMPERINGS = (1.0, TEMPERING)
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
# What is given; the rest is chosen on validation games.
CHOICES = {
    "rate": {"parameter": PUBLISHED, "tempering": TEMPERING},
    "untempered": {"parameter": PUBLISHED, "tempering": 1.0},
    "both": {"tempering": TEMPERING},
}

SETTINGS = ("parameter", "tempering", "rate")
TRIAL_KEYS = ("kind", *SETTINGS)
TRIAL_COLUMNS = (*TRIAL_KEYS, "val_success", "val_nonzeros", "val_words", "steps", "seconds", "device")
KEYS = ("kind", "choice", "seed")
COLUMNS = (
    *KEYS,
    *SETTINGS,
    "success",
    "nonzeros",
    "rounded",
    "words",
    "val_success",
    "val_nonzeros",
    "steps",
    "seconds",
    "device",
    "curve",
    "meanings",
)


def option(kind: str) -> str:
    """Name of the parameter that says how random a distribution is."""
    return "scale" if kind == "gaussian_sparsemax" else "temperature"


def trials_of(folder: Path) -> Trials:
    """What was tried, measured on validation games."""
    return Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)


def runs_of(folder: Path) -> Trials:
    """The rows of the table, measured on test games."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def chosen(trials: Sequence[dict[str, str]], kind: str, choice: str) -> dict[str, float]:
    """Settings of the first trial with the highest success in validation games, of those that the choice leaves."""
    given = CHOICES[choice]
    mine = [row for row in trials if row["kind"] == kind and all(float(row[k]) == v for k, v in given.items())]
    if not mine:
        raise SystemExit(f"no trials of {kind}; run with --trials first")
    best = max(mine, key=lambda row: float(row["val_success"]))
    return {name: float(best[name]) for name in SETTINGS}
