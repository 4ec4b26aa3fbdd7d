"""Links of pages to files and folders of the repository, wherever these are on the site.

A page leads to its page, a folder to its README, an example to its place in the gallery, and any other file or folder
to a page that shows its text.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from _extensions import tree
from _extensions.files import make_pages, shows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite links as pages are read, and make pages of the files they lead to."""
    app.add_transform(RepositoryLinks)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect(
        "html-collect-pages", lambda app: make_pages(app, {p for some in linked(app.env).values() for p in some})
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def linked(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the files and folders without a page of their own that each page links to."""
    if not hasattr(env, "linked_files"):
        env.linked_files = {}  # type: ignore[attr-defined]
    return env.linked_files  # type: ignore[attr-defined]


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget the links of a page that is read anew."""
    linked(env).pop(docname, None)


def merge(app: Sphinx, env: BuildEnvironment, docnames: Sequence[str], other: BuildEnvironment) -> None:
    """Take over what another process has read."""
    linked(env).update({name: linked(other)[name] for name in docnames if name in linked(other)})


def path_of(docname: str) -> str:
    """Return the path of a page in the repository."""
    return tree.FRONT if docname == "index" else f"{docname}.md"


class RepositoryLinks(SphinxTransform):
    """Rewrites the links of a page that Markdown leaves as paths."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        """Rewrite links, and the paths of pictures on the front page, which stands elsewhere than its file."""
        for kind in (addnodes.pending_xref, addnodes.download_reference):
            for node in list(self.document.findall(kind)):
                target = node["reftarget"]
                if node["reftype"] == "myst" and node["refdomain"] is None and not target.startswith("#"):
                    self.rewrite(node, target)
        if self.env.docname == "index":
            for image in self.document.findall(nodes.image):
                image["uri"] = "/" + self.resolve(image["uri"])

    def resolve(self, target: str) -> str:
        """Return a path relative to the page as one of the repository."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(path_of(self.env.docname)), target))

    def rewrite(self, node: nodes.Element, target: str) -> None:
        """Put a link to a page in the place of one to a path. What is nowhere stays, and Sphinx warns of it."""
        path, _, fragment = target.partition("#")
        path = self.resolve(path)
        page = tree.page_of(path, self.env.found_docs)
        if page is not None:
            found: nodes.Element = addnodes.pending_xref(
                refdomain="doc", reftarget=page, reftargetid=fragment or None, refdoc=self.env.docname, reftype="myst"
            )
            found["refexplicit"] = node["refexplicit"]
            found += node.children
        elif shows(path):
            linked(self.env).setdefault(self.env.docname, set()).add(path)
            here = posixpath.dirname(self.env.docname)
            found = nodes.reference("", "", *node.children, internal=True)
            found["refuri"] = posixpath.relpath(f"files/{path}.html", here or ".")
        else:
            return
        found.source, found.line = node.source, node.line
        node.replace_self(found)
