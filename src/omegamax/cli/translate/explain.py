"""``omegamax translate explain``: a translation, where the network looked for each word, and a picture of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import at_least
from omegamax.cli.explanation import Explanation, add_checkpoint, explain_runs

if TYPE_CHECKING:
    from omegamax.tasks.translation import TranslationTask
    from omegamax.tasks.translation.explain import TranslationExplanation

SUMMARY = "ask trained networks for a translation: what they say, and where each looked for each word"
TASK = "omegamax.tasks.translation:TranslationTask"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate explain``."""
    add = parser.add_argument
    add("text", metavar="TEXT", help='in quotes, "der hund hat den ball gefunden ."')
    add("--target", metavar="TEXT", help="a translation to look into, instead of the one that each finds")
    add_checkpoint(parser)
    add("--out", type=Path, default=Path("alignment.png"), metavar="PICTURE", help="(alignment.png)")
    add("--beam", type=at_least(1), default=5, metavar="N", help="sentences that a search follows (5)")
    add("--max-length", type=at_least(1), default=80, metavar="N", help="most subwords of a translation (80)")


def run(options: argparse.Namespace) -> int:
    """Ask, print the translations, and write the picture."""
    return explain_runs(TASK, options.runs, options.out, lambda tasks: _ask(tasks, options))


def _ask(tasks: dict[str, TranslationTask], options: argparse.Namespace) -> Explanation:
    from omegamax.tasks.translation import SearchConfig
    from omegamax.tasks.translation.explain import draw, explain

    search = SearchConfig(options.beam, max_length=options.max_length)
    said = {name: explain(task, options.text, options.target, search) for name, task in tasks.items()}
    headers = ["network", "translation", "probability", "proven best", "no other possible", "words that could follow"]
    rows = [[name, *_tell(each)] for name, each in said.items()]
    return Explanation(headers, rows, draw(said), "Where they looked")


def _tell(said: TranslationExplanation) -> list[str]:
    import math

    support = f"{said.support.float().mean():.1f}"
    if said.translation is None:
        return [" ".join(said.target[:-1]), "-", "-", "-", support]
    best = said.translation.hypotheses[0]
    exact, complete = (("no", "yes")[each] for each in (said.translation.exact, said.translation.complete))
    return [best.text, f"{math.exp(best.log_prob):.3f}", exact, complete, support]
