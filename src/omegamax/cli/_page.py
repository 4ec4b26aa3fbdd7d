"""The page of ``omegamax tour``: one file, with its pictures inside."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import torch

from omegamax import __version__, viz
from omegamax.cli._bibliography import bibliography
from omegamax.cli._plates import Plate
from omegamax.cli._tour import Stop, Tour

_CSS = """
:root {
  color-scheme: light dark;
  --ink: #1f2933; --muted: #5f6b78; --line: #e4e8ec; --wash: #f7f8fa; --card: #ffffff; --link: #1d6a9d;
  --shadow: #1f293340;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e8ecf1; --muted: #a9b4c0; --line: #343c46; --wash: #12161b; --card: #1a2027; --link: #7cc0ee;
    --shadow: #000000a0;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink); font: 16px/1.6 system-ui, Roboto, sans-serif; }
h1, h2, p { overflow-wrap: anywhere; }
main { max-width: 1180px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font-size: 40px; line-height: 1.15; margin: 0 0 8px; letter-spacing: -0.02em; }
h2 { font-size: 22px; margin: 0 0 6px; letter-spacing: -0.01em; }
p { margin: 0 0 14px; max-width: 74ch; }
.lead { font-size: 19px; color: var(--muted); }
.formula { font: italic 20px/1.5 Georgia, "Times New Roman", serif; margin: 20px 0; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 28px 30px; margin-top: 28px;
}
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 310px), 1fr)); gap: 12px; }
.panels img {
  display: block; width: 100%; height: 100%; object-fit: contain; background: #fff; border-radius: 6px; padding: 2px;
}
.key { list-style: none; margin: 0 0 14px; padding: 0; display: flex; flex-wrap: wrap; gap: 8px 22px; font-size: 15px; }
.key li { display: flex; align-items: center; gap: 8px; line-height: 1.35; }
.key img { flex: none; width: 39px; height: 22px; background: #fff; border-radius: 3px; padding: 1px; }
.sideways { display: none; margin: 8px 0 0; font-size: 14px; color: var(--muted); }
.scroll {
  overflow-x: auto;
  background:
    linear-gradient(to right, var(--card) 30%, transparent) left / 40px 100% no-repeat local,
    linear-gradient(to left, var(--card) 30%, transparent) right / 40px 100% no-repeat local,
    linear-gradient(to right, var(--shadow), transparent) left / 12px 100% no-repeat scroll,
    linear-gradient(to left, var(--shadow), transparent) right / 12px 100% no-repeat scroll;
}
table { border-collapse: collapse; width: 100%; min-width: 860px; font-size: 14px; margin-top: 10px; }
th, td { text-align: left; padding: 8px 14px 8px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--muted); white-space: nowrap; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { white-space: nowrap; font-weight: 600; }
th:first-child, td.name { position: sticky; left: 0; background: var(--card); }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-right: 8px; }
code { font: 13px/1.5 ui-monospace, monospace; background: var(--wash); padding: 1px 5px; border-radius: 4px; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
.whole { margin: 12px 0 0; font-size: 14px; }
footer { color: var(--muted); font-size: 14px; margin-top: 28px; overflow-wrap: anywhere; }
@media (max-width: 960px) { .sideways { display: block; } }
@media (max-width: 640px) {
  main { padding: 28px 8px 48px; }
  h1 { font-size: 29px; }
  .lead { font-size: 17px; }
  section { padding: 20px 12px; }
  .panels { grid-template-columns: minmax(0, 1fr); }
  td.name { white-space: normal; overflow-wrap: anywhere; min-width: 132px; }
}
"""


@dataclass(frozen=True)
class Shown:
    """A plate as it was drawn: its panels, each with a title and as a PNG file, and the marks for the key."""

    plate: Plate
    panels: list[tuple[str, bytes]]
    marks: list[viz.Mark]


def page(tour: Tour, shown: Sequence[Shown], seed: int) -> str:
    """Write the HTML: the panels of each plate, as many in a row as the screen has room for, and links to files."""
    body = [_table(tour), *map(_section, shown)]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
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


def _section(shown: Shown) -> str:
    plate = shown.plate
    samples = ((_address(viz.swatch(mark)), escape(mark.text)) for mark in shown.marks)
    key = "".join(f'<li><img alt="" src="{sample}">{text}</li>' for sample, text in samples)
    panels = "".join(f'<img alt="{escape(title)}" src="{_address(file)}">\n' for title, file in shown.panels)
    return f"""<section>
<h2>{escape(plate.title)}</h2>
<p>{escape(plate.text)}</p>
<ul class="key" aria-label="Key">{key}</ul>
<div class="panels">
{panels}</div>
<p class="whole"><a href="{plate.file}">All in one picture, with its key</a></p>
</section>
"""


def _address(file: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")


def _table(tour: Tour) -> str:
    rows = "".join(_row(stop) for stop in tour.stops)
    return f"""<section>
<h2>The maps</h2>
<p>The support is how many entries get any probability at all: first of the {tour.scores.numel()} scores of the vector,
then of the {tour.image.numel()} cells of the image. The margin is a lead of the right answer at which the loss is
zero.</p>
<p class="sideways">More columns to the right: scroll sideways &rarr;</p>
<div class="scroll" tabindex="0" role="region" aria-label="The maps"><table>
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
