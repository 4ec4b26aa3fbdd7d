"""``omegamax translate demo``: networks with several maps, trained in two minutes on a language made on the spot."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._program import program
from omegamax.cli.demonstration import add_demo_arguments, demonstration, quote_paths, train_kinds
from omegamax.cli.explanation import save_figure

SUMMARY = "train small networks that translate, see what each can say next and where it looks"
ASK = "heute hat die alte frau im garten den roten ball nicht gefunden , weil sie müde war ."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate demo``."""
    add_demo_arguments(parser, Path("translate-demo"), "sentences and networks", "two minutes")


@demonstration
def run(options: argparse.Namespace) -> int:
    """Make the sentences, train, measure, and write a picture of one of them."""
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.translation import TranslationTask, demo
    from omegamax.tasks.translation.explain import draw, explain

    start = time.perf_counter()
    _, data, runs, _ = train_kinds(demo, demo.TranslationRecipe, options, "pairs of sentences", "attention and output")
    tasks = dict(zip(runs, load_tasks(TranslationTask, list(runs.values())).values(), strict=True))
    rows = []
    for name, task in tasks.items():
        found = demo.measure(task, data, runs[name])
        shares = [f"{100 * found[each]:.1f} %" for each in ("exact", "complete")]
        rows.append([name, f"{found['bleu']:.1f}", f"{found['support']:.1f}", *shares])
    _table.show(["network", "BLEU", "words that can follow", "searches proven exact", "no other possible"], rows)
    figure = draw({name: explain(task, ASK) for name, task in tasks.items()})
    picture = options.out / "alignment.png"
    save_figure(figure, picture)
    trained, mine = quote_paths(*runs.values()), quote_paths(options.out / "mine.png")
    print(f"\n{time.perf_counter() - start:.0f} s. Where they looked: {picture}\nNow translate something yourself:")
    print(f'  {program()} translate explain "{ASK}" --checkpoint {trained} --out {mine}')
    print(f"  {program()} translate predict --all --checkpoint {quote_paths(runs['sparsemax'])}")
    return 0
