"""``omegamax lm demo``: language models with several outputs, trained in two minutes on reviews made on the spot."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from omegamax.cli._program import program
from omegamax.cli.demonstration import add_demo_arguments, demonstration, describe_command, quote_paths, train_kinds

SUMMARY = "train small language models, see how many words each holds for possible, and what they write"
ASK = "i thought the plot was"
ABOUT = (
    "Small networks learn the language of reviews of films that were made on the spot. They differ in the map at the "
    "output alone: softmax holds every word for possible at every step, the others the few that they give any "
    "probability. All texts are drawn as the networks were trained, and nothing is cut."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax lm demo``."""
    add_demo_arguments(parser, Path("lm-demo"), "reviews and networks", "two minutes")


@demonstration
def run(options: argparse.Namespace) -> int:
    """Make the reviews, train, measure, let all write, and write the page."""
    from omegamax.cli.lm.compare import write
    from omegamax.tasks.language import LanguageTask, WriteConfig, demo
    from omegamax.tasks.language.compare import compare
    from omegamax.tasks.report import load_contenders

    start = time.perf_counter()
    recipe, data, runs, count = train_kinds(demo, demo.LanguageRecipe, options, "reviews", "their output")
    print("measuring, and letting them write\n", flush=True)
    contenders = dict(zip(runs, load_contenders(LanguageTask, list(runs.values())).values(), strict=True))
    comparison = compare(
        contenders,
        data,
        examples=8,
        prompt=5,
        config=WriteConfig(samples=3, max_length=40),
        seed=options.seed,
        rounds=5,
        title=f"What {len(demo.KINDS)} language models hold for possible",
        about=ABOUT,
        settings={
            "command": describe_command("lm demo", options),
            "reviews": count,
            "training": f"{recipe.steps} steps of 32 windows of 64 words",
            "chosen by hand": "reviews, their number, steps and rates, with test results of seed 0 known",
            "seeds": "one; small differences may be chance",
        },
    )
    write(comparison, options.out)
    one, trained = quote_paths(runs["sparsemax"]), quote_paths(*runs.values())
    print(f"{time.perf_counter() - start:.0f} s. Now let one write, reading as little of its cache as it can:")
    print(f'  {program()} lm generate "{ASK}" --checkpoint {one} --samples 5 --page 8')
    print("or compare networks, these or your own, on the same text:")
    print(f"  {program()} lm compare {trained} --out {quote_paths(options.out / 'comparison')}")
    return 0
