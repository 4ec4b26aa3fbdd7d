"""The page about translations: one HTML file with its style and script inside."""

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
from omegamax.tasks.translation.report.records import TranslationComparison
from omegamax.tasks.translation.report.table import columns

_ASSETS = Assets("omegamax.tasks.translation.report", ("translations.css",), ("translations.js",), ("heatmap.js",))
_ABOUT = (
    "BLEU by sacrebleu; the p-value is of a paired bootstrap against the first network. A search is proven exact where "
    "nothing that it left aside can be more probable. The best of each column is bold."
)


def write_report(comparison: TranslationComparison, path: str | PathLike[str]) -> Path:
    """Write the page of ``comparison`` to ``path``, an HTML file that opens without a server; return the path."""
    return write_page(path, page(comparison))


def page(comparison: TranslationComparison) -> str:
    """Return the HTML of the page; without examples it has no explorer."""
    table = make_table_section(_ABOUT, comparison.rows, columns(comparison.rows))
    explorer = _explorer() if comparison.examples else ""
    missing = "The sentences and the curves need JavaScript."
    return make_comparison_page(comparison, [table, explorer], describe_comparison(comparison), _ASSETS, missing)


def _explorer() -> str:
    content = """<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="looks"></div>
</div>
<p class="muted hint">Left and right keys: other sentences. The address of the page keeps what is chosen, for a link to
share.</p>"""
    return make_explorer_section("Where they looked", {"length": "length", "search": "searches"}, content)
