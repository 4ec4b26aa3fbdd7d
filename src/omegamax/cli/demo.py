"""``omegamax demo``: kinds of attention, trained in minutes on pictures made on the spot, and looked at."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from omegamax.cli._bars import show_bars
from omegamax.cli._checks import at_least
from omegamax.cli._program import program
from omegamax.cli.demonstration import (
    add_demo_arguments,
    clear_runs,
    demonstration,
    describe_command,
    make_recipe,
    quote_paths,
)

SUMMARY = "train small networks that answer questions about pictures, and see where each looks"
ABOUT = (
    "Small networks answer questions about pictures of coloured shapes. They differ only in the attention over the "
    "image from which the answer is read: each went its own way from the same start, a network with softmax attention, "
    "as sharp at first as that; test-MCA is continuous softmax, untrained with the mixtures that it is tested with. "
    "The language-only network sees the question and no picture."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax demo``."""
    add_demo_arguments(parser, Path("demo"), "pictures, questions and networks", "minutes")
    parser.add_argument("--examples", type=at_least(0), default=18, metavar="N", help="to draw for the report (18)")


@demonstration
def run(options: argparse.Namespace) -> int:
    """Make the data, train, compare, and say where the report is."""
    from omegamax.cli.vqa.compare import write
    from omegamax.tasks.report import load_contenders
    from omegamax.tasks.vqa import VQATask, demo
    from omegamax.tasks.vqa.compare import compare
    from omegamax.tasks.vqa.examples import save_pictures

    start = time.perf_counter()
    recipe = make_recipe(demo.Recipe, options)
    runs = clear_runs(options.out, (demo.START, demo.BLIND, *demo.ROWS))
    data = recipe.data(options.seed, workers=min(2, demo.processors()))
    print(f"drawing {sum(recipe.samples):,} pictures, each with a question", flush=True)
    for split in ("train", "val", "test"):
        data.split(split)
    totals = {demo.FEATURES: recipe.feature_steps, demo.START: recipe.start_steps, demo.BLIND: recipe.start_steps}
    totals |= dict.fromkeys(demo.PARTS, recipe.steps)
    several = f"{len(demo.PARTS)} networks that differ in their attention, and a blind one"
    print(f"training features of cells, then {several}", flush=True)
    with show_bars(totals) as tell:
        cnn = demo.train_features(recipe, data, options.seed, tell)
        data.featurise(cnn)
        demo.train_all(recipe, data, cnn, runs, options.seed, tell)
    print("measuring, and drawing where they look\n", flush=True)
    comparison = compare(
        load_contenders(VQATask, [runs / name for name in demo.ROWS]),
        data,
        baseline=next(iter(load_contenders(VQATask, [runs / demo.BLIND]).values())),
        examples=options.examples,
        title=f"Where {len(demo.ROWS)} kinds of attention look to answer",
        about=ABOUT,
        settings={
            "command": describe_command("demo", options),
            "questions": f"{recipe.samples[0]:,} to learn from, {recipe.samples[2]:,} to measure on",
            "pictures": f"{recipe.image_size} x {recipe.image_size} pixels, {recipe.grid[0]} x {recipe.grid[1]} cells",
            "training": f"{recipe.start_steps} steps of 64 questions in common, {recipe.steps} of each kind's own",
            "mixtures": f"lambda = {demo.SELECTION:g}, chosen of five by validation questions of other seeds",
            "chosen by hand": "steps, rates and shapes, with test results of seeds 0 to 2 known",
            "seeds": "one; differences of a few points between kinds may be chance",
        },
    )
    write(comparison, options.out)
    asked = save_pictures(data.read("test"), options.out / "pictures", 6)
    name, question = next(iter(asked.items()))
    trained = quote_paths(*(runs / part for part in demo.ROWS))
    print(
        f"{time.perf_counter() - start:.0f} s. Now ask something yourself:\n"
        f'  {program()} vqa explain {quote_paths(options.out / "pictures" / name)} "{question}" --checkpoint {trained} '
        f"--out {quote_paths(options.out / 'where.png')}"
    )
    return 0
