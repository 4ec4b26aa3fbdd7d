"""The report: one HTML file with its pictures, style and script inside."""

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
from omegamax.tasks.vqa.report.histogram import histograms
from omegamax.tasks.vqa.report.payload import describe
from omegamax.tasks.vqa.report.records import Comparison
from omegamax.tasks.vqa.report.reliability import reliability_curves
from omegamax.tasks.vqa.report.summary import summarise
from omegamax.tasks.vqa.report.table import columns

_ASSETS = Assets("omegamax.tasks.vqa.report", ("pictures.css",), ("key.js", "sheet.js", "panel.js", "looks.js"))


def write_report(comparison: Comparison, path: str | PathLike[str]) -> Path:
    """Write the report of ``comparison`` to ``path``, an HTML file that opens without a server; return the path.

    The page may load nothing: its content policy forbids every host, and every script but its own.
    """
    return write_page(path, page(comparison))


def page(comparison: Comparison) -> str:
    """Return the HTML of the report."""
    return make_comparison_page(
        comparison,
        [_explorer(comparison), _table(comparison)],
        describe(comparison),
        _ASSETS,
        "The table is here; the curves and the explorer need JavaScript.",
        [_histograms(comparison), _reliability(comparison)],
    )


def _table(comparison: Comparison) -> str:
    blind = " The last line is a model that reads the question and sees no picture." if comparison.baseline else ""
    matters = """\
JSD is the Jensen&ndash;Shannon divergence, in bits, between the attention and the map of what matters; inside, the
share of the attention that falls on what matters; zero, the share of cells with exactly none."""
    if all(row.divergence is None and row.inside is None for row in comparison.rows):
        matters = "Zero is the share of cells with exactly no attention."
    about = f"{matters} The best of each column is bold.{blind}"
    rows, last = comparison.rows, comparison.baseline
    shown = columns([*rows, *([last] if last else [])])
    return make_table_section(about, rows, shown, summarise(comparison), last)


def _histograms(comparison: Comparison) -> str:
    shown = histograms(comparison)
    if not shown:
        return ""
    return f"""<section aria-labelledby="components">
<h2 id="components">How many components</h2>
<p>Multimodal attention is a mixture; the number of its components, K*, is selected for each question. Share of the
questions by K*:</p>
<div class="row">{shown}</div>
</section>
"""


def _reliability(comparison: Comparison) -> str:
    shown = reliability_curves(comparison)
    if not shown:
        return ""
    return f"""<section aria-labelledby="reliability">
<h2 id="reliability">Is a narrow ellipse a sure one?</h2>
<p>The area of the ellipse of one standard deviation, as a share of the picture, against the accuracy of the answers, in
groups of equally many questions; whiskers: two standard errors. A curve that falls says that the area tells how sure an
answer is. AUC: the chance that of a right and a wrong answer the right one has the narrower ellipse; 0.5 says
nothing.</p>
<div class="row">{shown}</div>
</section>
"""


def _explorer(comparison: Comparison) -> str:
    if not comparison.examples:
        return ""
    filters = {"kind": "question", "region": "region", "theme": "picked for", "answers": "answers"}
    content = """<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="key" role="group" aria-label="Key to the pictures"></div>
<div id="panels"><div id="plain"></div><div id="looks"></div></div>
<div id="fits"></div>
</div>
<p class="links"><button id="sheet" type="button">Download these side by side, with the key (PNG)</button></p>
<p class="muted hint">Left and right keys: other examples. A click on a look enlarges it, Esc makes it small again. The
address of the page keeps what is chosen, for a link to share.</p>"""
    return make_explorer_section("Where they looked", filters, content)
