"""Warnings that users may want to catch by name."""

from __future__ import annotations


class ConvergenceWarning(RuntimeWarning):
    """An iteration reached its limit; the message gives the residual that was left."""
