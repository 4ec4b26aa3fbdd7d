"""What is run, what is tried, and where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegamax.tasks.trials import Trials

RESULTS = Path(__file__).parent / "results"
SET, CLASSES = "fashion_mnist", 10
KINDS = ("gumbel_softmax", "gumbel_softmax_st", "hard_concrete", "gaussian_sparsemax")
PUBLISHED = 1.0  # temperature or scale: the paper's own code has 1 for all, and lets temperatures fall later
# What is tried with each distribution: its parameter, and how fast it learns.
PARAMETERS = (0.25, 0.5, 1.0, 2.0, 4.0)
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
CHOICES = ("rate", "both")  # what is chosen on validation games: the rate alone, or both

TRIAL_KEYS = ("kind", "parameter", "rate")
TRIAL_COLUMNS = (*TRIAL_KEYS, "val_success", "val_nonzeros", "val_words", "epochs", "seconds", "device")
KEYS = ("kind", "choice", "seed")
COLUMNS = (
    *KEYS,
    "parameter",
    "rate",
    "success",
    "nonzeros",
    "rounded",
    "words",
    "val_success",
    "val_nonzeros",
    "epochs",
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


def runs_of(folder: Path, file: str = "runs.csv") -> Trials:
    """The rows of the table, measured on test games."""
    return Trials(folder / file, COLUMNS, KEYS)


def chosen(trials: Sequence[dict[str, str]], kind: str, choice: str) -> dict[str, float]:
    """Parameter and rate of the trial with the highest success in validation games; of several, the first.

    With the choice ``"rate"``, of those with the published parameter.
    """
    mine = [row for row in trials if row["kind"] == kind]
    if choice == "rate":
        mine = [row for row in mine if float(row["parameter"]) == PUBLISHED]
    if not mine:
        raise SystemExit(f"no trials of {kind}; run with --trials first")
    best = max(mine, key=lambda row: float(row["val_success"]))
    return {"parameter": float(best["parameter"]), "rate": float(best["rate"])}
