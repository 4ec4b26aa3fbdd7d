"""The report: one HTML file with its pictures, style and script inside."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib import resources
from os import PathLike
from pathlib import Path
from urllib.parse import quote

from omegamax import __version__
from omegamax.tasks.vqa.report.histogram import histograms
from omegamax.tasks.vqa.report.payload import payload
from omegamax.tasks.vqa.report.records import Comparison
from omegamax.tasks.vqa.report.reliability import reliability_curves
from omegamax.tasks.vqa.report.summary import summarise
from omegamax.tasks.vqa.report.table import table, table_csv

_SCRIPTS = ("common.js", "tables.js", "curves.js", "key.js", "sheet.js", "panel.js", "explorer.js")


def write_report(comparison: Comparison, path: str | PathLike[str]) -> Path:
    """Write the report of ``comparison`` to ``path``, an HTML file that opens without a server; return the path.

    The page may load nothing: its content policy forbids every host, and every script but its own.
    """
    path = Path(path)
    path.write_text(page(comparison), encoding="utf-8")
    return path


def page(comparison: Comparison) -> str:
    """Return the HTML of the report."""
    style = _asset("report.css")
    script = "\n" + "\n".join(map(_asset, _SCRIPTS))
    digest = b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    body = "".join(part(comparison) for part in (_explorer, _table, _curves, _histograms, _reliability, _settings))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(comparison.title)}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{escape(comparison.title)}</h1>
<p class="lead">{escape(comparison.about)}</p>
<noscript><p>The table is here; the curves and the explorer need JavaScript.</p></noscript>
{body}
<footer>Written by omegamax {escape(__version__)}.</footer>
</main>
<script type="application/json" id="data">{payload(comparison)}</script>
<script>{script}</script>
</body>
</html>
"""


def _table(comparison: Comparison) -> str:
    href = "data:text/csv;charset=utf-8," + quote(table_csv(comparison))
    blind = " The last line is a model that reads the question and sees no picture." if comparison.baseline else ""
    return f"""<section aria-labelledby="comparison">
<h2 id="comparison">Comparison</h2>
<p>JSD is the Jensen&ndash;Shannon divergence, in bits, between the attention and the map of what matters; inside, the
share of the attention that falls on what matters; zero, the share of cells with exactly none. The best of each column
is bold.{blind}</p>
{table(comparison)}
{_summary(comparison)}
<p class="links"><a id="csv" download="comparison.csv" href="{href}">Download table (CSV)</a></p>
</section>
"""


def _summary(comparison: Comparison) -> str:
    said = summarise(comparison)
    return f'<p id="summary">{escape(said)}</p>' if said else ""


def _curves(comparison: Comparison) -> str:
    if not any(len(row.curve) for row in comparison.rows):
        return ""
    return """<section aria-labelledby="learning">
<h2 id="learning">Learning curves</h2>
<div class="controls"><span id="measures" class="choice" role="group" aria-label="Measure"></span>
<span id="clocks" class="choice" role="group" aria-label="Horizontal axis"></span></div>
<div id="chart"></div>
<div id="legend" role="group" aria-label="Curves shown"></div>
</section>
"""


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
    return """<section id="explorer" aria-labelledby="look">
<h2 id="look">Where they looked</h2>
<div class="controls">
<label>question <select id="kind"></select></label>
<label>region <select id="region"></select></label>
<label>picked for <select id="theme"></select></label>
<label>answers <select id="answers"></select></label>
<span class="steps"><button id="previous" type="button" aria-label="Previous example">&larr;</button>
<span id="place"></span>
<button id="next" type="button" aria-label="Next example">&rarr;</button></span>
</div>
<div id="strip" class="scroll" role="group" aria-label="Examples"></div>
<div id="models" role="group" aria-label="Models shown"></div>
<p id="none" hidden>No example passes these filters. <button id="reset" type="button">Show all</button></p>
<div id="shown">
<div id="asked" aria-live="polite"></div>
<div id="key" role="group" aria-label="Key to the pictures"></div>
<div id="panels"><div id="plain"></div><div id="looks"></div></div>
<div id="fits"></div>
</div>
<p class="links"><button id="sheet" type="button">Download these side by side, with the key (PNG)</button></p>
<p class="muted hint">Left and right keys: other examples. A click on a look enlarges it, Esc makes it small again. The
address of the page keeps what is chosen, for a link to share.</p>
</section>
"""


def _settings(comparison: Comparison) -> str:
    if not comparison.settings:
        return ""
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in comparison.settings.items())
    return f'<section aria-labelledby="settings"><h2 id="settings">Settings</h2><dl>{items}</dl></section>\n'


def _asset(name: str) -> str:
    return resources.files("omegamax.tasks.vqa.report").joinpath("assets", name).read_text(encoding="utf-8")
