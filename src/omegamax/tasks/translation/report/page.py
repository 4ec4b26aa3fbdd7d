"""The page about translations: one HTML file with its style and script inside."""

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
from omegamax.tasks.report.table import make_csv, make_table
from omegamax.tasks.translation.report.records import TranslationComparison, TranslationExample
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
    rows, shown = comparison.rows, columns(comparison.rows)
    body = [
        make_table_section(_ABOUT, make_table(rows, shown), "", make_csv(rows, shown)),
        _explorer() if comparison.examples else "",
        make_curves_section(rows),
        make_settings_section(comparison.settings),
    ]
    missing = "The sentences and the curves need JavaScript."
    return make_comparison_page(
        comparison.title, comparison.about, "".join(body), describe(comparison), _ASSETS, missing
    )


def describe(comparison: TranslationComparison) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    examples = [_describe_example(example, comparison) for example in comparison.examples]
    return {"models": describe_models(comparison.rows), "baseline": None, "examples": examples}


def _describe_example(example: TranslationExample, comparison: TranslationComparison) -> dict[str, Any]:
    looks = [example.looks.get(row.name) for row in comparison.rows]  # in the order of the models
    return {**asdict(example), "looks": [None if look is None else asdict(look) for look in looks]}


def _explorer() -> str:
    content = """<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="looks"></div>
</div>
<p class="muted hint">Left and right keys: other sentences. The address of the page keeps what is chosen, for a link to
share.</p>"""
    return make_explorer_section("Where they looked", {"length": "length", "search": "searches"}, content)
