"""Docstrings as they are written here, read as the reStructuredText they mean.

Doctests are indented below the last section of a docstring (``Args:``, ``Returns:``), although they belong to none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before napoleon, which looks for sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
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
