"""The page about language models: one HTML file with its texts, style and script inside."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from omegamax.tasks.language.report.records import LanguageComparison
from omegamax.tasks.language.report.table import columns
from omegamax.tasks.report.page import (
    Assets,
    make_comparison_page,
    make_explorer_section,
    make_table_section,
    write_page,
)
from omegamax.tasks.report.payload import describe_comparison

_ASSETS = Assets("omegamax.tasks.language.report", ("written.css",), ("written.js",))


def write_report(comparison: LanguageComparison, path: str | PathLike[str]) -> Path:
    """Write the page of ``comparison`` to ``path``, an HTML file that opens without a server; return the path."""
    return write_page(path, page(comparison))


def page(comparison: LanguageComparison) -> str:
    """Return the HTML of the page; without examples it has no explorer."""
    first = [_explorer(comparison), _table(comparison)]
    missing = "The table is here; the curves and the texts need JavaScript."
    return make_comparison_page(comparison, first, describe(comparison), _ASSETS, missing)


def describe(comparison: LanguageComparison) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    data = describe_comparison(comparison)
    for example in data["examples"]:
        example["looks"] = [None if texts is None else {"texts": texts} for texts in example["looks"]]
    return data


def _table(comparison: LanguageComparison) -> str:
    about = (
        "Perplexity is infinite, and left out, where a true token had no probability; with epsilon added to all it is "
        "not. The sparsemax score and the Jensen&ndash;Shannon divergence from the true token need no such help. REP: "
        "drawn tokens that had been among the last 16 to 512; WREP: and were wrong. The best of each column is bold."
    )
    return make_table_section(about, comparison.rows, columns(comparison.rows))


def _explorer(comparison: LanguageComparison) -> str:
    if not comparison.examples:
        return ""
    content = """<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="key" role="group" aria-label="Key"></div>
<div id="looks"></div>
</div>
<p class="muted hint">Left and right keys: other prompts. The pointer on a piece of text tells how many tokens could
have stood in its place. The address of the page keeps what is chosen, for a link to share.</p>"""
    return make_explorer_section("How they go on", {"ending": "texts"}, content)
