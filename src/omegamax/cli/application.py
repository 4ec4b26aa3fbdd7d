"""An application: a task with its data, as commands below ``omegamax NAME``.

One record says all that sets an application apart; the commands that train and measure follow from it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from omegamax.cli._checks import TRAIN, require

if TYPE_CHECKING:
    from omegamax.cli._run import RunCLI

STAGES = {
    "fit": "train a network",
    "validate": "measure a trained network on the validation part",
    "test": "measure a trained network on the test part",
    "predict": "write the answers of a trained network to the test part into answers.json in the run's folder",
}


@dataclass(frozen=True)
class Application:
    """What an application is called, what it trains on what, and the commands of its own.

    Things that are costly to import are given as text, ``"module:name"``, or as they are.

    Args:
        name: of the command, and the ``kind`` of its task.
        summary: one line for the help.
        task: subclass of :class:`~omegamax.tasks.run_task.RunTask`.
        data: subclass of :class:`~omegamax.tasks.run_data.RunData`, abstract where there are several sets.
        monitor: logged value that the best network has the highest of.
        epochs: to train for where nothing is said.
        default_data: name of the class of data where none is given; None: ``data`` itself, if it is a set.
        defaults: other values of settings, ``{"trainer.gradient_clip_val": 1.0}``.
        links: settings of the network that the data knows, ``{"data.features": "model.features"}``.
        starts: settings that name what the weights of a new network start from; a trained one has its own, and is not
            held up by files that may be large, or gone.
        map_options: setting with the options of the network's map, for messages.
        answers: callback that writes predictions, a kind of :class:`~omegamax.tasks.callbacks.Answers`.
        asked: what is to be answered, in the plural.
        prepare: called with the settings of a ``fit`` before anything is made of them; it may change them.
        stages: help of ``fit``, ``validate``, ``test`` and ``predict``; one that is left out can be a command.
        commands: others, by name; each is a module with ``SUMMARY``, ``add_arguments(parser)`` and ``run(options)``.
    """

    name: str
    summary: str
    task: str | type
    data: str | type
    monitor: str
    epochs: int
    default_data: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    starts: Sequence[str] = ()
    map_options: str = "the settings of the model"
    answers: str | type = "omegamax.tasks.callbacks:Answers"
    asked: str = "samples"
    prepare: str | Callable[[Any], None] | None = None
    stages: Mapping[str, str] = field(default_factory=lambda: STAGES)
    commands: Mapping[str, ModuleType] = field(default_factory=dict)

    def add_arguments(self, parser: argparse.ArgumentParser, arguments: Sequence[str] = ()) -> None:
        """Add the stages, and the commands with the arguments of the one that is asked for."""
        commands = parser.add_subparsers(title="commands", dest=self.name, metavar="COMMAND", required=True)
        for stage, help in self.stages.items():
            commands.add_parser(stage, help=help, add_help=False)
        for name, module in self.commands.items():
            command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
            command.set_defaults(run=module.run, parser=command, command=f"{self.name} {name}")
            if name in arguments[:1]:
                module.add_arguments(command)

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run a command, as ``omegamax NAME`` would with these arguments; return the exit status."""
        from omegamax.cli.main import main

        return main([self.name, *(sys.argv[1:] if arguments is None else arguments)], {self.name: self})

    def run_stage(self, stage: str, arguments: Sequence[str] = ()) -> int:
        """Run ``fit``, ``validate``, ``test`` or ``predict`` with the arguments after it; return the exit status."""
        require(TRAIN)
        from omegamax.cli._stage import run_stage

        return run_stage(self, stage, arguments)

    def build(self, arguments: Sequence[str]) -> RunCLI:
        """Make ``trainer``, ``model`` and ``datamodule`` from the arguments of ``fit``, and run nothing."""
        from omegamax.cli._run import RunCLI
        from omegamax.tasks.quiet import quiet

        with quiet():
            return RunCLI(self, run=False, save_config_callback=None, args=list(arguments))


def load(thing: Any) -> Any:
    """Import what ``"module:name"`` stands for; return anything else as it is.

    >>> load("math:pi"), load(3)
    (3.141592653589793, 3)
    """
    if not isinstance(thing, str):
        return thing
    module, _, name = thing.partition(":")
    return getattr(import_module(module), name)
