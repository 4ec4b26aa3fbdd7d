"""Commands of a task under its name: those that Lightning's parser reads, and others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import ModuleType

STAGES = {
    "fit": "train a network; all settings from files and arguments (fit --help)",
    "validate": "measure a checkpoint on the validation part",
    "test": "measure a checkpoint on the test part",
    "predict": "write a checkpoint's answers to the test part",
}


def add_commands(parser: argparse.ArgumentParser, name: str, others: Mapping[str, ModuleType]) -> None:
    """The stages, and other commands with their own arguments, below ``omegamax NAME``."""
    commands = parser.add_subparsers(title="commands", dest=name, metavar="COMMAND", required=True)
    for stage, summary in STAGES.items():
        commands.add_parser(stage, help=summary, add_help=False)
    for each, module in others.items():
        command = commands.add_parser(each, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command, command=f"{name} {each}")
