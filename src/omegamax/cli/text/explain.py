"""``omegamax text explain``: the class of a text or a pair, where the network looked, and a picture of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.cli._checks import at_least
from omegamax.cli.explanation import Explanation, add_checkpoint, explain_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from omegamax.tasks.text import TextTask
    from omegamax.tasks.text.explain import TextExplanation

SUMMARY = "ask trained networks for the class of a text: their answers, and which words each looked at"
TASK = "omegamax.tasks.text:TextTask"
_SHADES = ((0.5, "bold white on #9a2a4c"), (0.2, "#1f2933 on #e58f9b"), (0.05, "#1f2933 on #f6d5d9"), (0.0, ""))
_LETTERS = 40  # of a word in a message
_NONE = "bright_black"  # grey, on light and dark terminals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax text explain``."""
    add = parser.add_argument
    add("text", metavar="TEXT", help='in quotes, "the film was not boring"')
    add("second", metavar="SECOND", nargs="?", help="sentence that may follow from the first, for networks of pairs")
    add_checkpoint(parser)
    add(
        "--out",
        type=Path,
        default=Path("words.png"),
        metavar="FILE",
        help="the picture, or a page if it ends in .html (words.png)",
    )
    add("--top", type=at_least(1), default=3, metavar="N", help="classes to tell of each (3)")


def run(options: argparse.Namespace) -> int:
    """Ask, print the words and the answers, and write the picture or the page."""
    return explain_runs(TASK, options.runs, options.out, lambda tasks: _ask(tasks, options), _wants_page(options.out))


def _wants_page(out: Path) -> bool:
    return out.suffix.lower() in (".html", ".htm")


def _ask(tasks: dict[str, TextTask], options: argparse.Namespace) -> Explanation:
    from omegamax.data.text import split_words
    from omegamax.tasks.text.explain import draw, explain, find_unknown_words
    from omegamax.tasks.text.explain_pair import draw_pairs, explain_pair

    texts = [options.text] if options.second is None else [options.text, options.second]
    for text in texts:
        if not split_words(text):
            raise ValueError(f'the text {text!r} has no words; give some, "the film was not boring"')
    for name, task in tasks.items():
        wanted = 1 if task.config.alignment is None else 2
        if len(texts) != wanted:
            raise ValueError(f"{name} reads {('one text', 'two sentences')[wanted - 1]}, got {len(texts)}")
        strange = find_unknown_words(task, " ".join(texts))
        if strange:
            shown = ", ".join(_shorten(word) for word in strange[:12]) + (", ..." if len(strange) > 12 else "")
            print(f"{name}: words it was not trained with: {shown}", file=sys.stderr)
    if options.second is not None:
        pairs = {name: explain_pair(task, options.text, options.second, options.top) for name, task in tasks.items()}
        for name, pair in pairs.items():
            _tell_of_cut(name, texts, [pair.words, pair.second])
        headers, rows = _tabulate("alignment", {name: pair.classes for name, pair in pairs.items()})
        return Explanation(headers, rows, _show(tasks, pairs, options.out, draw_pairs), "Which words they compared")
    said = {name: explain(task, options.text, options.top) for name, task in tasks.items()}
    for name, each in said.items():
        _tell_of_cut(name, texts, [each.words])
        show_words(name, each)
    headers, rows = _tabulate("attention", {name: each.classes for name, each in said.items()})
    return Explanation(headers, rows, _show(tasks, said, options.out, draw), "Which words they looked at")


def _show(tasks: Mapping[str, TextTask], said: Any, out: Path, draw: Callable[[Any], Figure]) -> Any:
    """Return the picture of what networks said, or what writes the page of it."""
    if not _wants_page(out):
        return draw(said)
    lengths = {len(each.words) for each in said.values()}
    if len(lengths) > 1:
        raise ValueError(f"the networks read texts up to different lengths, {sorted(lengths)} words; ask one at a time")
    from omegamax.tasks.text.compare import name_kind
    from omegamax.tasks.text.report import TextComparison, TextRow, write_report
    from omegamax.tasks.text.report.looks import make_example

    count = {name: sum(p.numel() for p in task.parameters()) for name, task in tasks.items()}
    rows = [TextRow(name, name_kind(task), {}, count[name]) for name, task in tasks.items()]
    pairs = any(task.config.alignment is not None for task in tasks.values())
    title = "Which words they compared" if pairs else "Which words they looked at"
    about = (
        f"{len(rows)} network{'s' if len(rows) > 1 else ''} asked for the class of one {'pair' if pairs else 'text'}."
    )
    return partial(write_report, TextComparison(title, about, rows, [make_example("text", said)]))


def _shorten(word: str) -> str:
    """Return a word for a message: without what would move a terminal, and not longer than a line."""
    from omegamax.data.errors import printable

    return printable(word if len(word) <= _LETTERS else f"{word[:_LETTERS]}...")


def _tell_of_cut(name: str, texts: Sequence[str], read: Sequence[Sequence[str]]) -> None:
    """Say of each text how many words a network left away, if any."""
    from omegamax.data.text import split_words

    for text, words in zip(texts, read, strict=True):
        left = len(split_words(text)) - len(words)
        if left:
            print(f"{name}: reads {len(words):,} words, and not the last {left:,}", file=sys.stderr)


def _tabulate(what: str, classes: Mapping[str, list[tuple[str, float]]]) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows: the classes that each network gives, the likeliest first."""
    rows = [[name, *(f"{label} {p:.2f}" for label, p in each)] for name, each in classes.items()]
    width = max(map(len, rows))
    return [what, "class", *(f"{rank}." for rank in range(2, width))], [row + [""] * (width - len(row)) for row in rows]


def show_words(name: str, said: TextExplanation) -> None:
    """Print the words: in a terminal in colours, in a pipe with their attention in brackets.

    What has exactly no attention is grey, and has no brackets.
    """
    from rich.console import Console
    from rich.text import Text

    from omegamax.data.errors import printable

    console = Console(highlight=False)
    console.print(Text(f"{name}: {said.classes[0][0]}", style="bold"))
    line = Text()
    top = max(float(said.weights.max()), 1e-30)
    for word, weight, none in zip(said.words, said.weights.tolist(), said.empty.tolist(), strict=True):
        shade = _NONE if none else next(style for least, style in _SHADES if weight / top >= least)
        line.append(printable(word), style=shade)
        if not console.is_terminal and not none:
            line.append("[<.01]" if weight < 0.01 else f"[{weight:.2f}]".replace("[0.", "[."))
        line.append(" ")
    console.print(line, soft_wrap=not console.is_terminal)
    console.print()
