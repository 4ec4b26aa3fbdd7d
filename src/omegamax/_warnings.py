"""Warnings that users may want to catch by name."""

from __future__ import annotations

import sys
import warnings


class ConvergenceWarning(RuntimeWarning):
    """An iteration reached its limit; the message gives the residual that was left."""


_PASSED = ("omegamax", "torch", "lightning")  # packages between a line of the user and what is warned of


def warn_of_limit(message: str) -> None:
    """Warn of an iteration that stopped at its limit, at the line of the user."""
    warn_user(message, ConvergenceWarning)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user that led here, past this package, torch and Lightning."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
