"""What the rows of a comparison show, in words: computed from their numbers."""

from __future__ import annotations

from omegamax.tasks.report.summary import summarise_rows
from omegamax.tasks.vqa.report.records import Comparison


def summarise(comparison: Comparison) -> str:
    """Say which models answer as well as the first, see :func:`~omegamax.tasks.report.summary.summarise_rows`."""
    return summarise_rows(comparison.rows, "questions")
