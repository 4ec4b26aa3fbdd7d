"""The page about texts: one HTML file with its style and script inside."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from omegamax.tasks.report.page import (
    Assets,
    make_comparison_page,
    make_explorer_section,
    make_table_section,
    write_page,
)
from omegamax.tasks.report.payload import describe_comparison
from omegamax.tasks.report.summary import summarise_rows
from omegamax.tasks.text.report.records import TextComparison
from omegamax.tasks.text.report.table import columns

_SCRIPTS = ("words.js", "alignment.js", "texts.js")
_ASSETS = Assets("omegamax.tasks.text.report", ("words.css",), _SCRIPTS, ("heatmap.js",))


def write_report(comparison: TextComparison, path: str | PathLike[str]) -> Path:
    """Write the page of ``comparison`` to ``path``, an HTML file that opens without a server; return the path."""
    return write_page(path, page(comparison))


def page(comparison: TextComparison) -> str:
    """Return the HTML of the page; without accuracies it has no table, and without examples no explorer."""
    table = _table(comparison) if any(row.accuracy for row in comparison.rows) else ""
    missing = "The texts and the curves need JavaScript."
    return make_comparison_page(
        comparison, [_explorer(comparison), table], describe_comparison(comparison), _ASSETS, missing
    )


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
    return make_table_section(about, rows, columns(rows), summarise_rows(rows, "texts"))


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
