"""Pages that show the text of a file of the repository, or what is in a folder."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from _extensions.tree import ROOT, page_of

if TYPE_CHECKING:
    from pathlib import Path

    from sphinx.application import Sphinx

BINARY = {".npz", ".png", ".safetensors", ".woff2", ".xz"}
Page = tuple[str, dict[str, Any], str]


def shows(path: str) -> bool:
    """Tell whether there is something at a path of the repository."""
    return not path.startswith("..") and (ROOT / path).exists()


def make_pages(app: Sphinx, paths: set[str]) -> Iterator[Page]:
    """Yield a page for each path, and for what is in the folders among them and has none."""
    waiting, done = sorted(paths), set()
    while waiting:
        path = waiting.pop()
        if path not in done:
            done.add(path)
            inside = {each: page_of(each, app.env.found_docs) for each in entries(ROOT / path)}
            waiting += [each for each, page in inside.items() if page is None]
            body = list_folder(path, inside) if (ROOT / path).is_dir() else show_text(app, path)
            yield f"files/{path}", {"title": path, "body": f"<h1>{html.escape(path)}</h1>{body}"}, "page.html"


def entries(folder: Path) -> list[str]:
    """Return the paths of what a folder holds that can be shown; none for a file."""
    if not folder.is_dir():
        return []
    found = sorted(folder.iterdir(), key=lambda file: (file.is_dir(), file.name))
    return [file.relative_to(ROOT).as_posix() for file in found if is_source(file)]


def is_source(file: Path) -> bool:
    """Tell what was written from what was built or cached."""
    return not file.name.startswith((".", "__pycache__")) and file.suffix != ".so"


def list_folder(path: str, inside: dict[str, str | None]) -> str:
    """Return a list of links to what is in a folder: pages of the site, or the text of files."""
    here = posixpath.dirname(f"files/{path}")
    addresses = {each: posixpath.relpath(f"{page or 'files/' + each}.html", here) for each, page in inside.items()}
    items = [
        f'<li><a href="{html.escape(address)}">{html.escape(posixpath.basename(each))}</a></li>'
        for each, address in addresses.items()
    ]
    return f"<ul>{''.join(items)}</ul>"


def show_text(app: Sphinx, path: str) -> str:
    """Return the text of a file, in colours where its kind is known; of data, how much there is."""
    file = ROOT / path
    if file.suffix in BINARY:
        return f"<p>Not text: {file.stat().st_size:,} bytes, in the repository.</p>"
    try:
        language = get_lexer_for_filename(path).aliases[0]
    except ClassNotFound:
        language = "text"
    text = file.read_text(encoding="utf-8")
    return app.builder.highlighter.highlight_block(text, language)
