"""``omegamax text demo``: several kinds of attention, trained in a minute on reviews made on the spot."""

from __future__ import annotations

import argparse
import shlex
import shutil
import time
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._bars import show_bars
from omegamax.cli._checks import TRAIN, CommandError, at_least, check_folder, require
from omegamax.cli._program import program
from omegamax.cli._stop import advise_on_stop
from omegamax.cli.explanation import drawing

SUMMARY = "train small networks that tell praise from blame, and see which words each looks at"
ASK = "the popcorn was awful . i thought the plot was not dull ."
_DPI = 140


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax text demo``."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("text-demo"), metavar="FOLDER", help="where to write (text-demo)")
    add("--seed", type=at_least(0), default=0, help="of reviews and networks (0)")
    add("--steps", type=at_least(1), metavar="N", help="of training for each network (as many as fit into a minute)")


def run(options: argparse.Namespace) -> int:
    """Make the reviews, train, measure, and write a picture of one of them."""
    require(TRAIN)
    check_folder(options.out)
    from omegamax.tasks.finite import NotFiniteError
    from omegamax.tasks.threads import one_thread

    advice = f"what is done is in {options.out}; the same command starts anew"
    with drawing(), one_thread(), advise_on_stop(lambda: advice):
        try:
            return _demo(options)
        except NotFiniteError as error:
            raise CommandError(f"{error}, and training stopped; try another --seed", status=1) from error


def _demo(options: argparse.Namespace) -> int:
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.text import TextTask, demo
    from omegamax.tasks.text.explain import draw, explain
    from omegamax.viz.style import pyplot

    start = time.perf_counter()
    recipe = demo.TextRecipe() if options.steps is None else demo.TextRecipe(steps=options.steps)
    runs = options.out / "runs"
    for name in demo.KINDS:  # and nothing else that may be there
        shutil.rmtree(runs / name, ignore_errors=True)
    data = recipe.data(options.seed)
    count = f"{recipe.samples[0]:,} reviews to learn from, {recipe.samples[2]:,} to measure on"
    print(f"training {len(demo.KINDS)} networks that differ in their attention; {count}", flush=True)
    with show_bars(dict.fromkeys(demo.KINDS, recipe.steps)) as tell:
        for name in demo.KINDS:
            demo.train(recipe, data, name, runs, options.seed, tell)
    tasks = load_tasks(TextTask, [runs / name for name in demo.KINDS])
    rows = []
    for name, task in tasks.items():
        found = demo.measure(task, data)
        rows.append([name, *(f"{100 * found[each]:.1f} %" for each in demo.MEASURES)])
    _table.show(["attention", "right", "attention on marked words", "words without any"], rows)
    review = data.read("test")[0]
    text = " ".join(review.words)
    figure = draw({name: explain(task, text) for name, task in tasks.items()})
    picture = options.out / "words.png"
    figure.savefig(picture, dpi=_DPI)
    pyplot().close(figure)
    trained = shlex.join(str(runs / name) for name in demo.KINDS)
    mine = shlex.quote(str(options.out / "mine.png"))
    print(f"\n{time.perf_counter() - start:.0f} s. Which words they looked at: {picture}\nNow ask something yourself:")
    print(f'  {program()} text explain "{ASK}" --checkpoint {trained} --out {mine}')
    return 0
