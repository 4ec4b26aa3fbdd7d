"""Docstrings as they are written here, read as the reStructuredText they mean, and signatures that break into lines.

Doctests are indented below the last section of a docstring (``Args:``, ``Returns:``), although they belong to none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before napoleon, which looks for sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("html-page-context", rewrite_signatures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Move the doctests of a docstring to the margin; of data, drop what their type says of itself."""
    lines[:] = [] if what == "data" else move_doctests(lines)


def move_doctests(lines: list[str]) -> list[str]:
    """Return the lines with doctests at the margin, a blank line before and after each.

    >>> move_doctests(["Args:", "    z: scores.", "", "    >>> 1 + 1", "    2", "", "Reference: none."])
    ['Args:', '    z: scores.', '', '>>> 1 + 1', '2', '', 'Reference: none.']
    """
    moved: list[str] = []
    indent = None  # of the doctest that the line is in
    for line in lines:
        text = line.lstrip()
        if indent is None and text.startswith(">>> "):
            indent = len(line) - len(text)
            if moved and moved[-1]:
                moved.append("")
        if not text:
            indent = None
        moved.append(line if indent is None else line[indent:])
    return moved


def rewrite_signatures(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Rewrite the signatures of a page of the reference."""
    if pagename.startswith("reference/"):
        context["body"] = re.sub(r'<dt class="sig .*?</dt>', as_lines, context["body"], flags=re.S)


def as_lines(found: re.Match[str]) -> str:
    """Return a signature with lines in place of a list, which screen readers would read out as one without terms.

    >>> re.sub(".*", as_lines, "<dt><dl><dd>z</dd></dl></dt>", count=1)
    '<dt><span class="sig-lines"><span class="sig-line">z</span></span></dt>'
    """
    text = found[0].replace("<dl>", '<span class="sig-lines">').replace("<dd>", '<span class="sig-line">')
    return text.replace("</dl>", "</span>").replace("</dd>", "</span>")
