"""The page about captions: one HTML file with its photographs, style and script inside."""

from __future__ import annotations

from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from omegamax.tasks.captioning.report.records import CaptionComparison
from omegamax.tasks.captioning.report.table import columns, difference_columns
from omegamax.tasks.rating.stop_words import find_content_words
from omegamax.tasks.report.maps import list_shades
from omegamax.tasks.report.page import (
    Assets,
    make_comparison_page,
    make_explorer_section,
    make_table_section,
    write_page,
)
from omegamax.tasks.report.payload import describe_comparison, png_address
from omegamax.viz.picture import LABEL, scale_picture

_ASSETS = Assets("omegamax.tasks.captioning.report", ("strips.css",), ("strips.js",), ("maps.js",))


def write_report(comparison: CaptionComparison, path: str | PathLike[str]) -> Path:
    """Write the page of ``comparison`` to ``path``, an HTML file that opens without a server; return the path."""
    return write_page(path, page(comparison))


def page(comparison: CaptionComparison) -> str:
    """Return the HTML of the page; without examples it has no explorer."""
    first = [_explorer(comparison), _table(comparison)]
    missing = "The table is here; the curves and the photographs need JavaScript."
    return make_comparison_page(comparison, first, describe(comparison), _ASSETS, missing)


def describe(comparison: CaptionComparison) -> dict[str, Any]:
    """Return the data of the page: numbers, words, lists and dicts."""
    data = describe_comparison(comparison)
    for example in data["examples"]:
        captions = [look["words"] for look in example["looks"] if look is not None]
        # The words to filter by: of any caption, without those that every caption has.
        example["said"] = sorted({words[i].lower() for words in captions for i in find_content_words(words)})
    scale = png_address(scale_picture()) if comparison.examples else None
    return {**data, "shades": list_shades(), "scale": scale, "label": LABEL}


def _table(comparison: CaptionComparison) -> str:
    rows, shown = comparison.rows, columns(comparison.rows)
    about = (
        "BLEU, METEOR, ROUGE-L and SPICE in hundreds, against the captions that people wrote; REP: repetitions in "
        "percent of their words, less is better; JS: the Jensen&ndash;Shannon divergence in bits between the maps of "
        "successive words; zero: the share of cells with exactly no attention. The best of each column is bold."
    )
    if "tokeniser" in comparison.settings:
        about += f" Tokeniser: {escape(comparison.settings['tokeniser'])}."
    for name, reason in comparison.missing.items():
        about += f" No {escape(name)}: {escape(reason)}."
    return make_table_section(about, rows, shown, more=_differences(comparison))


def _differences(comparison: CaptionComparison) -> str:
    """Return the table of differences from the first network; nothing where none is known."""
    rows, shown = comparison.rows[1:], difference_columns(comparison.rows)
    if not shown:
        return ""
    heads = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in shown)
    lines = "".join(
        f'<tr><th scope="row"><span class="name">{escape(row.name)}</span></th>'
        + "".join(f'<td class="number">{column.shown(row)}</td>' for column in shown)
        + "</tr>\n"
        for row in rows
    )
    first = escape(comparison.rows[0].name)
    return (
        f'<p class="muted differences">Minus {first}, on the same photographs, with 95 % intervals (paired bootstrap; '
        "BLEU-4 over words in lower case). An interval tells of other photographs, not of another training.</p>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="Differences"><table id="differences">\n'
        f'<thead><tr><th scope="col">minus {first}</th>{heads}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n'
    )


def _explorer(comparison: CaptionComparison) -> str:
    if not comparison.examples:
        return ""
    filters = {"word": "caption with", "theme": "picked for", "same": "captions"}
    content = """<div id="shown">
<div id="zeros" class="choice" role="group" aria-label="Cells without attention"></div>
<div id="about"><figure id="photograph"></figure><div id="asked" aria-live="polite"></div></div>
<div id="key" role="group" aria-label="Key"></div>
<div id="looks"></div>
</div>
<p class="muted hint">Left and right keys: other photographs. A click on a map makes those of its network large, Esc
small again. The address of the page keeps what is chosen, for a link to share.</p>"""
    return make_explorer_section("Where they looked for each word", filters, content)
