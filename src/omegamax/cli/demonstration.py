"""What the demonstrations of all applications have in common: their arguments, and how they begin and stop."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from omegamax.cli._bars import show_bars
from omegamax.cli._checks import TRAIN, CommandError, at_least, check_folder, require
from omegamax.cli._stop import advise_on_stop
from omegamax.cli.explanation import drawing

Recipe = TypeVar("Recipe")


def add_demo_arguments(parser: argparse.ArgumentParser, out: Path, made: str, time: str) -> None:
    """Add the arguments that every ``demo`` has.

    Args:
        parser: of the command.
        out: the folder that is written by default.
        made: what the seed decides, "reviews and networks".
        time: that the default number of steps takes, "a minute".
    """
    add = parser.add_argument
    add("--out", type=Path, default=out, metavar="FOLDER", help=f"where to write ({out})")
    add("--seed", type=at_least(0), default=0, help=f"of {made} (0)")
    add("--steps", type=at_least(1), metavar="N", help=f"of training for each network (as many as fit into {time})")


def demonstration(work: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Make the ``run`` of a command of its work: check what that needs, and do it on one thread."""

    @wraps(work)
    def run(options: argparse.Namespace) -> int:
        require(TRAIN)
        check_folder(options.out)
        from omegamax.tasks.finite import NotFiniteError
        from omegamax.tasks.threads import one_thread

        advice = f"what is done is in {options.out}; the same command starts anew"
        with drawing(), one_thread(), advise_on_stop(lambda: advice):
            try:
                return work(options)
            except NotFiniteError as error:
                raise CommandError(f"{error}, and training stopped; try another --seed", status=1) from error

    return run


def clear_runs(out: Path, names: Iterable[str]) -> Path:
    """Remove networks of an earlier demonstration, and nothing else that may be there; return their folder."""
    runs = out / "runs"
    for name in names:
        shutil.rmtree(runs / name, ignore_errors=True)
    return runs


def make_recipe(kind: Callable[..., Recipe], options: argparse.Namespace) -> Recipe:
    """Make the sizes of a demonstration, with as many steps as were asked for."""
    return kind() if options.steps is None else kind(steps=options.steps)


class TrainedKinds(NamedTuple):
    """What a demonstration has trained.

    Attributes:
        recipe, data: its sizes, and what they make.
        runs: where the network of each kind is.
        amount: of things to learn from, in words.
    """

    recipe: Any
    data: Any
    runs: dict[str, Path]
    amount: str


def train_kinds(
    demo: Any, recipe_type: type[Any], options: argparse.Namespace, things: str, difference: str
) -> TrainedKinds:
    """Train a network of each kind, one after another, with bars that tell how far they are.

    Args:
        demo: the module with ``KINDS`` and ``train``.
        recipe_type: of its sizes.
        things: what they learn from, "reviews".
        difference: between them, "their attention".
    """
    recipe = make_recipe(recipe_type, options)
    data, runs = recipe.data(options.seed), clear_runs(options.out, demo.KINDS)
    amount = f"{recipe.samples[0]:,} {things} to learn from, {recipe.samples[2]:,} to measure on"
    print(f"training {len(demo.KINDS)} networks that differ in {difference}; {amount}", flush=True)
    with show_bars(dict.fromkeys(demo.KINDS, recipe.steps)) as tell:
        for name in demo.KINDS:
            demo.train(recipe, data, name, runs, options.seed, tell)
    return TrainedKinds(recipe, data, {name: runs / name for name in demo.KINDS}, amount)


def describe_command(command: str, options: argparse.Namespace) -> str:
    """Write the command that makes the same networks, ``omegamax text demo --seed 0``."""
    steps = "" if options.steps is None else f" --steps {options.steps}"
    return f"omegamax {command} --seed {options.seed}{steps}"


def quote_paths(*paths: Path) -> str:
    """Write paths as a shell reads them."""
    return shlex.join(map(str, paths))
