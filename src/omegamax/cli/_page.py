"""The page of ``omegamax tour``: one file, with its pictures inside."""

from __future__ import annotations

import base64
import math
from html import escape
from pathlib import Path

import torch

from omegamax import __version__, viz
from omegamax.cli._bibliography import bibliography
from omegamax.cli._plates import PLATES, Plate
from omegamax.cli._tour import Stop, Tour

_CSS = """
:root { color-scheme: light; --ink: #1f2933; --muted: #5f6b78; --line: #e4e8ec; --wash: #f7f8fa; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink); font: 16px/1.6 system-ui, Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font-size: 40px; line-height: 1.15; margin: 0 0 8px; letter-spacing: -0.02em; }
h2 { font-size: 22px; margin: 0 0 6px; letter-spacing: -0.01em; }
p { margin: 0 0 14px; max-width: 74ch; }
.lead { font-size: 19px; color: var(--muted); }
.formula { font: italic 20px/1.5 Georgia, "Times New Roman", serif; margin: 20px 0; }
section { background: #fff; border: 1px solid var(--line); border-radius: 12px; padding: 28px 30px; margin-top: 28px; }
img { display: block; width: 100%; height: auto; margin-top: 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin-top: 10px; }
th, td { text-align: left; padding: 8px 14px 8px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--muted); white-space: nowrap; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { white-space: nowrap; font-weight: 600; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-right: 8px; }
code { font: 13px/1.5 ui-monospace, monospace; background: var(--wash); padding: 1px 5px; border-radius: 4px; }
a { color: #2176ae; text-decoration: none; }
a:hover { text-decoration: underline; }
footer { color: var(--muted); font-size: 14px; margin-top: 28px; }
"""


def page(tour: Tour, folder: Path, seed: int) -> str:
    """The HTML; the pictures are read from ``folder``, put inside, and linked to."""
    body = [_table(tour), *(_section(plate, folder) for plate in PLATES)]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>omegamax: a tour of the maps</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<h1>Other ways to turn scores into probabilities</h1>
<p class="lead">Softmax is one answer. Each map below is the answer to the same question, asked with another regulariser
&Omega;.</p>
<p class="formula">p&#770;(z) = argmax<sub>p</sub> &nbsp;&#10216;p, z&#10217; &minus; &Omega;(p)</p>
{"".join(body)}
<footer>Made by <code>omegamax tour --seed {seed}</code>, omegamax {escape(__version__)},
torch {escape(torch.__version__)}. Every number and picture on this page was computed by that command.</footer>
</main>
</body>
</html>
"""


def _section(plate: Plate, folder: Path) -> str:
    data = base64.b64encode((folder / plate.file).read_bytes()).decode()
    return f"""<section>
<h2>{escape(plate.title)}</h2>
<p>{escape(plate.text)}</p>
<a href="{plate.file}"><img alt="{escape(plate.title)}" src="data:image/png;base64,{data}"></a>
</section>
"""


def _table(tour: Tour) -> str:
    rows = "".join(_row(stop) for stop in tour.stops)
    return f"""<section>
<h2>The maps</h2>
<p>The support is how many entries get any probability at all: first of the {tour.scores.numel()} scores of the vector,
then of the {tour.image.numel()} cells of the image. The margin is a lead of the right answer at which the loss is
zero.</p>
<div class="scroll"><table>
<tr><th>map</th><th>what for</th><th>support</th><th>cells</th><th>margin</th><th>reference</th></tr>
{rows}</table></div>
</section>
"""


def _row(stop: Stop) -> str:
    work = bibliography()[stop.transform.cite]
    reference = f'<a href="{work.url}">{escape(work.short)}</a>' if work.url else escape(work.short)
    margin = "none" if stop.margin == math.inf else f"{stop.margin:g}"
    dot = f'<span class="dot" style="background:{viz.colour(stop.name)}"></span>'
    return (
        f'<tr><td class="name">{dot}{escape(stop.name)}</td><td>{escape(stop.transform.summary)}</td>'
        f'<td class="number">{int((stop.vector > 0).sum())} of {stop.vector.numel()}</td>'
        f'<td class="number">{int((stop.grid > 0).sum())} of {stop.grid.numel()}</td>'
        f'<td class="number">{margin}</td><td>{reference}</td></tr>\n'
    )
