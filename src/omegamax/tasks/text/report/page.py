"""The page about texts: one HTML file with its style and script inside."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from omegamax.tasks.report.page import (
    Assets,
    make_comparison_page,
    make_curves_section,
    make_explorer_section,
    make_settings_section,
    make_table_section,
    write_page,
)
from omegamax.tasks.report.payload import describe_models
from omegamax.tasks.report.summary import summarise_rows
from omegamax.tasks.report.table import make_csv, make_table
from omegamax.tasks.text.report.records import TextComparison, TextExample
from omegamax.tasks.text.report.table import columns

_SCRIPTS = ("words.js", "alignment.js", "texts.js")
_ASSETS = Assets("omegamax.tasks.text.report", ("words.css",), _SCRIPTS, ("heatmap.js",))


def write_report(comparison: TextComparison, path: str | PathLike[str]) -> Path:
    """Write the page of ``comparison`` to ``path``, an HTML file that opens without a server; return the path."""
    return write_page(path, page(comparison))


def page(comparison: TextComparison) -> str:
    """Return the HTML of the page; without accuracies it has no table, and without examples no explorer."""
    measured = any(row.accuracy for row in comparison.rows)
    return make_comparison_page(
        comparison.title,
        comparison.about,
        "".join(
            [
                _explorer(comparison),
                _table(comparison) if measured else "",
                make_curves_section(comparison.rows),
                make_settings_section(comparison.settings),
            ]
        ),
        describe(comparison),
        _ASSETS,
        "The texts and the curves need JavaScript.",
    )


def describe(comparison: TextComparison) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    examples = [_describe_example(example, comparison) for example in comparison.examples]
    return {"models": describe_models(comparison.rows), "baseline": None, "examples": examples}


def _describe_example(example: TextExample, comparison: TextComparison) -> dict[str, Any]:
    looks = [example.looks.get(row.name) for row in comparison.rows]  # in the order of the models
    return {**asdict(example), "looks": [None if look is None else asdict(look) for look in looks]}


def _table(comparison: TextComparison) -> str:
    rows = comparison.rows
    pairs = any(example.second is not None for example in comparison.examples)
    what = "pairs of words that are exactly not aligned" if pairs else "words with exactly no attention"
    marked = ""
    if any(row.token_f1 is not None for row in rows):
        marked = (
            " Inside is the share of the attention on words that were marked as telling the class; token F1 compares "
            "these with the words that have any attention."
        )
    about = f"Zero is the share of {what}.{marked} The best of each column is bold."
    shown = columns(rows)
    return make_table_section(about, make_table(rows, shown), summarise_rows(rows, "texts"), make_csv(rows, shown))


def _explorer(comparison: TextComparison) -> str:
    if not comparison.examples:
        return ""
    filters = {"label": "class", "length": "length", "theme": "picked for", "answers": "answers"}
    content = """<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="key" role="group" aria-label="Key"></div>
<div id="looks"></div>
</div>
<p class="muted hint">Left and right keys: other texts. The address of the page keeps what is chosen, for a link to
share.</p>"""
    pairs = comparison.examples[0].second is not None
    return make_explorer_section("Which words they " + ("compared" if pairs else "looked at"), filters, content)
