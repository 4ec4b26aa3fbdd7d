"""``omegamax vqa``: train, measure and explain networks that answer questions about pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from omegamax.cli._group import add_commands
from omegamax.cli.vqa import compare, explain, features, pretrain

SUMMARY = "visual question answering: fit, validate, test, predict, explain, compare, features, pretrain"
COMMANDS = {"explain": explain, "compare": compare, "features": features, "pretrain": pretrain}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax vqa`` takes."""
    add_commands(parser, "vqa", COMMANDS)


def run_stage(stage: str, arguments: Sequence[str]) -> int:
    """Run ``vqa fit`` and its like."""
    from omegamax.cli.vqa.train import run

    return run(stage, arguments)


def run(options: argparse.Namespace) -> int:
    """A command without an action of its own: argparse asks for one of those above."""
    raise AssertionError(options)
