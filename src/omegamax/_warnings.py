"""Warnings that users may want to catch by name."""

from __future__ import annotations

import sys
import warnings


class ConvergenceWarning(RuntimeWarning):
    """An iteration reached its limit; the message gives the residual that was left."""


def warn_of_limit(message: str) -> None:
    """Raise a :class:`ConvergenceWarning` at the line of the user that led here, past this package and torch."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("omegamax", "torch"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)
