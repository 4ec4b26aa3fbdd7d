"""``omegamax vqa``: train, measure and explain networks that answer questions about pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from omegamax.cli.vqa import compare, explain, features, pretrain

SUMMARY = "visual question answering: fit, validate, test, predict, explain, compare, features, pretrain"
STAGES = {
    "fit": "train a network; all settings from files and arguments (fit --help)",
    "validate": "measure a checkpoint on the validation part",
    "test": "measure a checkpoint on the test part",
    "predict": "write a checkpoint's answers to the test part",
}
COMMANDS = {"explain": explain, "compare": compare, "features": features, "pretrain": pretrain}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax vqa`` takes."""
    commands = parser.add_subparsers(title="commands", dest="vqa", metavar="COMMAND", required=True)
    for name, summary in STAGES.items():
        commands.add_parser(name, help=summary, add_help=False)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command, command=f"vqa {name}")


def is_stage(arguments: Sequence[str]) -> bool:
    """Whether the arguments are those of a command whose parser is Lightning's."""
    return len(arguments) > 1 and arguments[0] == "vqa" and arguments[1] in STAGES


def run_stage(arguments: Sequence[str]) -> int:
    """Run ``vqa fit`` and its like."""
    from omegamax.cli.vqa.train import run

    return run(arguments[1], arguments[2:])


def run(options: argparse.Namespace) -> int:
    """A command without an action of its own: argparse asks for one of those above."""
    raise AssertionError(options)
