"""Formulas as MathML, which browsers draw by themselves: no script runs and nothing is loaded but a font."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
converter = LatexToMathML(fancy_error=False)
# A bracket of a given size with a sub- or superscript, which Chromium draws too small and too low unless in a row.
SIZED = re.compile(r"(<m(?:sub|sup|subsup)>)(<mo [^>]*size=[^>]*>[^<]*</mo>)")
WORDS = re.compile(r"\\text\{((?:[^{}]|\{[^{}]*\})*\$(?:[^{}]|\{[^{}]*\})*)\}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def to_mathml(latex: str, block: bool) -> str:
    r"""Return a formula as MathML; lines and columns of a block need no environment of their own.

    >>> to_mathml(r"x^2", block=False)
    '<math><msup><mi>x</mi><mn>2</mn></msup></math>'
    >>> "<msub><mrow><mo" in to_mathml(r"\bigl[z\bigr]_+", block=True)
    True
    """
    latex = WORDS.sub(split_words, latex)
    if block and r"\begin" not in latex and (r"\\" in latex or "&" in latex):
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    return SIZED.sub(r"\1<mrow>\2</mrow>", converter.convert_with_local_state(latex, displaystyle=block))


def split_words(found: re.Match[str]) -> str:
    r"""Return words with formulas among them as words and formulas.

    >>> WORDS.sub(split_words, r"\text{for $x_{i}$ only}")
    '\\text{for }x_{i}\\text{ only}'
    """
    parts = found[1].split("$")
    return "".join(part if i % 2 else rf"\text{{{part}}}" for i, part in enumerate(parts))


def write(writer: HTML5Translator, node: nodes.Element, block: bool) -> None:
    """Write a formula, or a warning and the LaTeX as it is."""
    latex = node.astext()
    try:
        writer.body.append(to_mathml(latex, block))
    except LatexError as error:
        logger.warning("%s in the formula %s", error, latex, location=node, type="formula")
        writer.body.append(f"<code>{html.escape(latex)}</code>")


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(writer.starttag(node, "span", "", CLASS="math"))
    write(writer, node, block=False)
    writer.body.append("</span>")
    raise nodes.SkipNode  # the children of a formula are its LaTeX


def visit_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands by itself, with its number if it has one; wide ones scroll."""
    writer.body.append(writer.starttag(node, "div", "", CLASS="math"))
    write(writer, node, block=True)
    if node["number"]:
        writer.body.append(f'<span class="eqno">({node["number"]})</span>')
    writer.body.append("</div>\n")
    raise nodes.SkipNode
