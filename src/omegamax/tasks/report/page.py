"""A page: one HTML file with its data, style and script inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from omegamax import __version__
from omegamax.play.page import embed, make_policy
from omegamax.tasks.report.records import ModelRow
from omegamax.tasks.report.table import Column, make_csv, make_table
from omegamax.tasks.whole import whole_file

HERE = "omegamax.tasks.report"
_SCRIPTS = ("common.js", "tables.js", "curves.js", "answers.js", "explorer.js")  # of every comparison


class Assets(NamedTuple):
    """Styles and scripts of one application, beside those of every comparison.

    Attributes:
        package: in whose folder ``assets`` they are.
        styles, scripts: names of the files.
        shared: of scripts in the folder of all, those that this one needs in addition.
    """

    package: str
    styles: Sequence[str]
    scripts: Sequence[str]
    shared: Sequence[str] = ()


def write_page(path: str | PathLike[str], html: str) -> Path:
    """Write a page to a file that opens without a server; return its path."""
    path = Path(path)
    with whole_file(path) as place:
        place.write_text(html, encoding="utf-8")
    return path


def make_comparison_page(
    comparison: Any, first: Sequence[str], data: Any, assets: Assets, missing: str, last: Sequence[str] = ()
) -> str:
    """Return the HTML of a page that compares networks: :func:`make_page` with the assets of every comparison.

    Args:
        comparison: its title, about, rows and settings are shown.
        first, last: sections before and after the learning curves; what the numbers depend on stands at the end.
        data, missing: as in :func:`make_page`.
        assets: of the application.
    """
    body = "".join([*first, _make_curves_section(comparison.rows), *last, _make_settings_section(comparison.settings)])
    styles = [read_asset(HERE, "report.css"), *(read_asset(assets.package, name) for name in assets.styles)]
    scripts = [read_asset(HERE, name) for name in (*_SCRIPTS, *assets.shared)]
    scripts += [read_asset(assets.package, name) for name in assets.scripts]
    return make_page(comparison.title, comparison.about, body, data, styles, scripts, missing)


def make_page(
    title: str,
    about: str,
    body: str,
    data: Any,
    styles: Sequence[str],
    scripts: Sequence[str],
    missing: str,
    served: bool = False,
) -> str:
    """Return the HTML of a page that may load nothing: its policy forbids every host, and every script but its own.

    Args:
        title, about: text.
        body: HTML.
        data: for the scripts, numbers, words, lists and dicts.
        styles, scripts: assets, each as :func:`read_asset` returns it.
        missing: HTML, what a reader without scripts is told.
        served: let its scripts ask the server that it came from, and no other.
    """
    script = "\n" + "\n".join(scripts)
    policy = make_policy(script) + ("; connect-src 'self'" if served else "")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{"".join(styles)}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">{escape(about)}</p>
<noscript><p>{missing}</p></noscript>
{body}
<footer>Written by omegamax {escape(__version__)}.</footer>
</main>
<script type="application/json" id="data">{embed(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def read_asset(package: str, name: str) -> str:
    """Return the text of a style or script in the folder ``assets`` of a package."""
    return resources.files(package).joinpath("assets", name).read_text(encoding="utf-8")


def make_table_section(
    about: str,
    rows: Sequence[ModelRow],
    shown: Sequence[Column],
    said: str = "",
    baseline: ModelRow | None = None,
    more: str = "",
) -> str:
    """Return the HTML of the section with the table, which can be had as a file too.

    Args:
        about: HTML.
        rows, shown, baseline: of the table, see :func:`~omegamax.tasks.report.table.make_table`.
        said: what the numbers show, in words; may be empty.
        more: HTML, below the table.
    """
    table = make_table(rows, shown, baseline) + more
    href = "data:text/csv;charset=utf-8," + quote(make_csv([*rows, *([baseline] if baseline else [])], shown))
    summary = f'<p id="summary">{escape(said)}</p>' if said else ""
    return f"""<section aria-labelledby="comparison">
<h2 id="comparison">Comparison</h2>
<p>{about}</p>
{table}
{summary}
<p class="links"><a id="csv" download="comparison.csv" href="{href}">Download table (CSV)</a></p>
</section>
"""


def _make_curves_section(rows: Sequence[ModelRow]) -> str:
    """Return the HTML of the section with the learning curves; empty if none was recorded."""
    if not any(len(row.curve) for row in rows):
        return ""
    return """<section aria-labelledby="learning">
<h2 id="learning">Learning curves</h2>
<div class="controls"><span id="measures" class="choice" role="group" aria-label="Measure"></span>
<span id="clocks" class="choice" role="group" aria-label="Horizontal axis"></span></div>
<div id="chart"></div>
<div id="legend" role="group" aria-label="Curves shown"></div>
</section>
"""


def make_explorer_section(title: str, filters: Mapping[str, str], content: str) -> str:
    """Return the HTML of the section in which examples are picked and shown.

    Args:
        title: text.
        filters: label of each filter by the id of its choices.
        content: HTML, for one example; the script fills it.
    """
    choices = "\n".join(
        f'<label>{escape(text)} <select id="{name}"></select></label>' for name, text in filters.items()
    )
    return f"""<section id="explorer" aria-labelledby="look">
<h2 id="look">{escape(title)}</h2>
<div class="controls">
{choices}
<span class="steps"><button id="previous" type="button" aria-label="Previous example">&larr;</button>
<span id="place"></span>
<button id="next" type="button" aria-label="Next example">&rarr;</button></span>
</div>
<div id="strip" class="scroll" role="group" aria-label="Examples"></div>
<div id="models" role="group" aria-label="Models shown"></div>
<p id="none" hidden>No example passes these filters. <button id="reset" type="button">Show all</button></p>
{content}
</section>
"""


def _make_settings_section(settings: Mapping[str, str]) -> str:
    """Return the HTML of what the numbers depend on; empty if that is not known."""
    if not settings:
        return ""
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in settings.items())
    return f'<section aria-labelledby="settings"><h2 id="settings">Settings</h2><dl>{items}</dl></section>\n'
