"""``omegamax text demo``: several kinds of attention, trained in a minute on reviews made on the spot."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from omegamax.cli._program import program
from omegamax.cli.demonstration import add_demo_arguments, demonstration, describe_command, quote_paths, train_kinds
from omegamax.cli.explanation import save_figure

SUMMARY = "train small networks that tell praise from blame, and see which words each looks at"
ASK = "the popcorn was awful . i thought the plot was not dull ."
ABOUT = (
    "Small networks tell praise from blame in reviews of films that were made on the spot. They differ only in the "
    "attention over the words from which the class is read. What the writer thinks of the film counts, and is marked; "
    "what others think, and what is thought of the popcorn, does not."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax text demo``."""
    add_demo_arguments(parser, Path("text-demo"), "reviews and networks", "a minute")


@demonstration
def run(options: argparse.Namespace) -> int:
    """Make the reviews, train, measure, and write a picture of one of them."""
    from omegamax.cli.text.compare import write
    from omegamax.tasks.report import load_contenders
    from omegamax.tasks.text import TextTask, demo
    from omegamax.tasks.text.compare import compare
    from omegamax.tasks.text.explain import draw, explain_words

    start = time.perf_counter()
    recipe, data, runs, count = train_kinds(demo, demo.TextRecipe, options, "reviews", "their attention")
    print("measuring, and looking at words\n", flush=True)
    contenders = load_contenders(TextTask, list(runs.values()))
    comparison = compare(
        contenders,
        data,
        title=f"Which words {len(demo.KINDS)} kinds of attention look at",
        about=ABOUT,
        settings={
            "command": describe_command("text demo", options),
            "reviews": count,
            "training": f"{recipe.steps} steps of 32 reviews",
            "chosen by hand": "reviews, their number, steps and rates, with test results of seed 0 known",
            "seeds": "one; differences of a few points between kinds may be chance",
        },
    )
    write(comparison, options.out)
    review = data.read("test")[0].words
    figure = draw({name: explain_words(each.task, review) for name, each in contenders.items()})
    picture = options.out / "words.png"
    save_figure(figure, picture)
    trained, two = quote_paths(*runs.values()), quote_paths(runs["softmax"], runs["sparsemax"])
    print(f"One review, with what each looked at: {picture}")
    print(f"{time.perf_counter() - start:.0f} s. Now ask something yourself:")
    print(f'  {program()} text explain "{ASK}" --checkpoint {trained} --out {quote_paths(options.out / "mine.png")}')
    print("compare networks, these or your own, on the same texts:")
    print(f"  {program()} text compare {two} --out {quote_paths(options.out / 'comparison')}")
    print("or see whether the words give the decision away:")
    print(f"  {program()} text game --checkpoint {two} --k 2 --texts 300 --out {quote_paths(options.out / 'game.csv')}")
    return 0
