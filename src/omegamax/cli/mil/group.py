"""``omegamax mil``: train, measure and explain networks that classify bags of instances."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from omegamax.cli._group import add_commands
from omegamax.cli.mil import explain

SUMMARY = "multiple-instance learning, bags of digits and benchmarks: fit, validate, test, predict, explain"
COMMANDS = {"explain": explain}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax mil`` takes."""
    add_commands(parser, "mil", COMMANDS)


def run_stage(stage: str, arguments: Sequence[str]) -> int:
    """Run ``mil fit`` and its like."""
    from omegamax.cli.mil.train import run

    return run(stage, arguments)


def run(options: argparse.Namespace) -> int:
    """A command without an action of its own: argparse asks for one of those above."""
    raise AssertionError(options)
