"""The tree of all pages beside each of them, made of titles alone.

Sphinx copies the contents of every page, each name of the reference included, to take the titles from the copy; with
hundreds of pages that is most of the time of a build. Here the tree is found once, and written for each page.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

WITHOUT = ("files/", "_modules/")  # text of files, of which the tree would be the larger part


def setup(app: Sphinx) -> dict[str, bool]:
    """Give the theme this tree when it asks for one."""
    app.connect("html-page-context", give_tree, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def give_tree(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Put the tree in the place of the one of Sphinx."""
    if not hasattr(app.builder, "groups"):
        app.builder.groups = find_groups(app.env, app.config.root_doc)
    groups = [] if pagename.startswith(WITHOUT) else app.builder.groups
    context["toctree"] = lambda **options: "".join(group.write(pagename, app.builder) for group in groups)


@dataclass(frozen=True)
class Group:
    """Pages that a page lists together."""

    caption: str
    entries: list[Entry]

    def write(self, pagename: str, builder: Any, level: int = 1) -> str:
        """Return the group as seen from a page."""
        head = f'<p class="caption" role="heading" aria-level="2"><span class="caption-text">{self.caption}</span></p>'
        items = "".join(entry.write(pagename, builder, level) for entry in self.entries)
        return f"{head if self.caption else ''}<ul>{items}</ul>"


@dataclass(frozen=True)
class Entry:
    """A page in the tree, and those it lists."""

    title: str
    docname: str
    groups: list[Group]

    @cached_property
    def pages(self) -> set[str]:
        """The page, and all below it."""
        return {self.docname}.union(*(entry.pages for group in self.groups for entry in group.entries))

    def write(self, pagename: str, builder: Any, level: int) -> str:
        """Return the entry as seen from a page."""
        current = " current" if pagename in self.pages else ""
        inside = "".join(group.write(pagename, builder, level + 1) for group in self.groups)
        address = "#" if pagename == self.docname else builder.get_relative_uri(pagename, self.docname)
        link = f'<a class="reference internal{current}" href="{address}">{self.title}</a>'
        return f'<li class="toctree-l{level}{current}">{link}{inside}</li>'


def find_groups(env: BuildEnvironment, docname: str) -> list[Group]:
    """Return what a page lists, and what those list in turn."""
    groups = []
    for node in env.tocs[docname].findall(addnodes.toctree):
        listed = [(title, name) for title, name in node["entries"] if name in env.titles]
        entries = [
            Entry(html.escape(title or env.titles[name].astext()), name, find_groups(env, name))
            for title, name in listed
        ]
        groups.append(Group(html.escape(node.get("caption") or ""), entries))
    return groups
