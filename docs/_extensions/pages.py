"""Pages that are not written as such: tables of benchmarks, what no group of the front page names, the playground."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from omegamax.play import make_playground

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TABLES = "benchmarks/results/"
PLAYGROUND = "docs/playground"
OPEN = '<p><a href="../playground.html">Open the playground</a> of this version, or write it yourself:</p>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Complete pages as they are read, and write the playground at the end."""
    app.connect("source-read", complete)
    app.connect("build-finished", write_playground)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def complete(app: Sphinx, docname: str, text: list[str]) -> None:
    """Give a page what its file lacks on the site, and take off the blank lines that end doctests for Python."""
    text[0] = text[0].replace("\n\n```\n", "\n```\n")
    if docname.startswith(TABLES):
        text[0] = with_title(PurePosixPath(docname).name, text[0])
    if docname == PLAYGROUND:
        text[0] = text[0].replace("\n\n", f"\n\n{OPEN}\n\n", 1)
    if docname == "index":
        text[0] = with_all_pages(text[0], app.env.found_docs)


def with_title(name: str, text: str) -> str:
    """Return the tables of a benchmark with a title, and with a link to the rows they are made of.

    >>> with_title("text_cpu", "A processor.")
    '# Text, CPU\\n\\nA processor.\\n\\nThe rows: [text_cpu.csv](text_cpu.csv).\\n'
    """
    words = re.split("[_-]", name)
    title = f"{words[0].capitalize()}, {' '.join(words[1:]).upper()}"
    head = "" if text.startswith("# ") else f"# {title}\n\n"
    return f"{head}{text.rstrip()}\n\nThe rows: [{name}.csv]({name}.csv).\n"


def with_all_pages(front: str, docnames: set[str]) -> str:
    """Return the front page with groups that name all pages of ``docs``: those in no group make one of their own.

    >>> print(with_all_pages("/docs/b\\n", {"docs/b", "docs/c"}))
    /docs/b
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: More
    <BLANKLINE>
    /docs/c
    ```
    <BLANKLINE>
    """
    named = set(re.findall(r"^/(docs/\w+)$", front, re.M))
    rest = sorted(name for name in docnames if re.fullmatch(r"docs/\w+", name) and name not in named)
    more = ["```{toctree}", ":hidden:", ":caption: More", "", *(f"/{name}" for name in rest), "```", ""]
    return front + ("\n" + "\n".join(more) if rest else "")


def write_playground(app: Sphinx, error: Exception | None) -> None:
    """Write the playground beside the pages; it needs none of them."""
    if error is None:
        (Path(app.outdir) / "playground.html").write_text(make_playground(), encoding="utf-8")
