"""``omegamax translate demo``: networks with several maps, trained in two minutes on a language made on the spot."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._bars import show_bars
from omegamax.cli._program import program
from omegamax.cli.demonstration import add_demo_arguments, clear_runs, run_demo

SUMMARY = "train small networks that translate, see what each can say next and where it looks"
ASK = "heute hat die alte frau im garten den roten ball nicht gefunden , weil sie müde war ."
_DPI = 140


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate demo``."""
    add_demo_arguments(parser, Path("translate-demo"), "sentences and networks", "two minutes")


def run(options: argparse.Namespace) -> int:
    """Make the sentences, train, measure, and write a picture of one of them."""
    return run_demo(options, _demo)


def _demo(options: argparse.Namespace) -> int:
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.translation import TranslationTask, demo
    from omegamax.tasks.translation.explain import draw, explain
    from omegamax.viz.style import pyplot

    start = time.perf_counter()
    recipe = demo.TranslationRecipe() if options.steps is None else demo.TranslationRecipe(steps=options.steps)
    runs = clear_runs(options.out, demo.KINDS)
    data = recipe.data(options.seed)
    count = f"{recipe.samples[0]:,} pairs of sentences to learn from, {recipe.samples[2]:,} to measure on"
    print(f"training {len(demo.KINDS)} networks that differ in attention and output; {count}", flush=True)
    with show_bars(dict.fromkeys(demo.KINDS, recipe.steps)) as tell:
        for name in demo.KINDS:
            demo.train(recipe, data, name, runs, options.seed, tell)
    tasks = dict(
        zip(demo.KINDS, load_tasks(TranslationTask, [runs / name for name in demo.KINDS]).values(), strict=True)
    )
    rows = []
    for name, task in tasks.items():
        found = demo.measure(task, data, runs / name)
        shares = [f"{100 * found[each]:.1f} %" for each in ("exact", "complete")]
        rows.append([name, f"{found['bleu']:.1f}", f"{found['support']:.1f}", *shares])
    _table.show(["network", "BLEU", "words that can follow", "searches proven exact", "that list all there is"], rows)
    figure = draw({name: explain(task, ASK) for name, task in tasks.items()})
    picture = options.out / "alignment.png"
    figure.savefig(picture, dpi=_DPI)
    pyplot().close(figure)
    trained = shlex.join(str(runs / name) for name in demo.KINDS)
    mine = shlex.quote(str(options.out / "mine.png"))
    print(f"\n{time.perf_counter() - start:.0f} s. Where they looked: {picture}\nNow translate something yourself:")
    print(f'  {program()} translate explain "{ASK}" --checkpoint {trained} --out {mine}')
    sparse = shlex.quote(str(runs / "sparsemax"))
    print(f"  {program()} translate predict --all --checkpoint {sparse}")
    return 0
