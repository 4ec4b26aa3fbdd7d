"""The reference: a page for each public module, with a table of its names and a description of each.

What a module has from another public one is described there; its page has the table, and the name leads to it.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from _extensions.public import public_names

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

# By what comes after ``omegamax.``; the rest comes last.
FAMILIES = {
    "Maps and losses": ("", "functional", "maps", "losses"),
    "Structure": ("structured",),
    "Time and space": ("basis", "densities", "mixtures"),
    "On faces of the simplex": ("mixed",),
    "Layers and memories": ("nn", "hopfield"),
    "Words and measures": ("generation", "metrics"),
    "Pictures": ("viz", "play"),
    "Other libraries": ("compat", "integrations"),
    "Networks": ("models",),
    "Data": ("data",),
    "Tasks": ("tasks",),
    "Kernels": ("kernels",),
}
LONGEST = 200  # characters of a value that is shown


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before any is read."""
    app.connect("builder-inited", write_pages)
    app.connect("env-updated", note_aliases)
    app.connect("warn-missing-reference", is_internal)
    app.connect("html-page-context", mend_back_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write the pages that have changed, and remove those of modules that are gone."""
    names = public_names()
    pages = {module: make_page(module, names) for module in names}
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in {**pages, "index": make_index(list(names))}.items():
        file = folder / f"{name}.rst"
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    for file in folder.glob("*.rst"):
        if file.stem not in pages and file.stem != "index":
            file.unlink()


def note_aliases(app: Sphinx, env: BuildEnvironment) -> None:
    """Let a name, and the members of a class, lead to their description from every module that has it."""
    objects = env.domains.python_domain.objects
    aliases = [(full, f"{module}.{name}") for module, names in public_names().items() for name, full in names.items()]
    for full, alias in aliases:
        members = [one for one in objects if one.startswith(f"{full}.")] if kind_of(full) == "class" else []
        for one in [full, *members]:
            if full != alias and one in objects:
                objects.setdefault(alias + one.removeprefix(full), objects[one]._replace(aliased=True))


def is_internal(app: Sphinx, domain: object, node: Element) -> bool | None:
    """Tell whether a name without a description is there nevertheless: a type or a helper that is not public."""
    try:
        resolve_name(node["reftarget"])
    except (AttributeError, ImportError, ValueError):
        return None
    return True


def mend_back_links(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let sources lead back to descriptions: Sphinx takes those of one source to be under the name of one module."""
    if pagename.startswith("_modules/omegamax"):
        objects = app.env.domains.python_domain.objects

        def mend(found: re.Match[str]) -> str:
            parts = found["name"].split(".")
            names = [".".join([found["module"], *parts[i:]]) for i in range(len(parts))]
            return found["page"] + next(name for name in names if name in objects)

        pattern = r"(?P<page>reference/(?P<module>[\w.]+)\.html#)(?P<name>[\w.]+)"
        context["body"] = re.sub(pattern, mend, context["body"])


def make_index(modules: list[str]) -> str:
    """Return the page that lists the modules by family."""
    families: dict[str, list[str]] = {title: [] for title in (*FAMILIES, "More")}
    for module in modules:
        room = module.partition(".")[2].partition(".")[0]
        families[next((t for t, rooms in FAMILIES.items() if room in rooms), "More")].append(module)
    lines = heading("Reference", "=")
    lines += ["Every public name, by module: what a table says in a line, the name leads to in full.", ""]
    for title, some in families.items():
        if some:
            lines += [*heading(title, "-"), *make_table({module: module for module in some})]
            lines += [".. toctree::", "   :hidden:", "", *(f"   {short(module)} <{module}>" for module in some), ""]
    return "\n".join(lines)


def short(module: str) -> str:
    """Return the name of a module as one says it."""
    return module.removeprefix("omegamax.")


def heading(title: str, mark: str) -> list[str]:
    """Return the lines of a heading."""
    return [title, mark * len(title), ""]


def make_table(names: dict[str, str]) -> list[str]:
    """Return the lines of a table of names, each with the first sentence of what it leads to."""
    lines = [".. list-table::", "   :class: names", "   :widths: auto", ""]
    for name, full in names.items():
        lines += [f"   * - :py:obj:`{name} <{full}>`", f"     - {first_sentence(full)}"]
    return [*lines, ""]


def first_sentence(full: str) -> str:
    """Return the first sentence of a docstring; data have none of their own."""
    text = "" if kind_of(full) == "data" else inspect.getdoc(find(full)) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z])|(?<=\.)$", paragraph)[0]


def make_page(module: str, names: dict[str, dict[str, str]]) -> str:
    """Return the page of a module."""
    own = names[module]
    described = {find(full) for some in names.values() for full in some.values() if kind_of(full) == "class"}
    lines = [*heading(module, "="), f".. automodule:: {module}", "", *make_table(own)]
    for name, full in own.items():
        kind = kind_of(full)
        if full == f"{module}.{name}" and kind != "module":
            lines += describe(full, kind, described)
    return "\n".join(lines)


@cache
def find(full: str) -> object:
    """Return what has this full name."""
    module, _, name = full.rpartition(".")
    try:
        return getattr(import_module(module), name) if module else import_module(full)
    except AttributeError:
        return import_module(full)


def kind_of(full: str) -> str:
    """Return what something is, in the words of Sphinx."""
    found = find(full)
    if inspect.ismodule(found):
        return "module"
    if inspect.isclass(found):
        return "class"
    return "function" if callable(found) else "data"


def describe(full: str, kind: str, described: set[object]) -> list[str]:
    """Return the directive that describes a name."""
    if kind == "data":
        value = repr(find(full))
        return [
            f".. autodata:: {full}",
            *([] if len(value) < LONGEST and " at 0x" not in value else ["   :no-value:"]),
            "",
        ]
    lines = [f".. auto{kind}:: {full}"]
    if kind == "class" and (members := members_of(find(full), described)):
        lines.append(f"   :members: {', '.join(members)}")
    return [*lines, ""]


def members_of(cls: object, described: set[object]) -> list[str]:
    """Return the members that a class documents, also those of bases that are described nowhere else."""
    members: dict[str, None] = {}
    for base in cls.__mro__:  # type: ignore[attr-defined]
        if base.__module__.partition(".")[0] != "omegamax" or base in described - {cls}:
            continue
        for name, value in vars(base).items():
            documented = getattr(value, "__doc__", None) or getattr(getattr(value, "func", None), "__doc__", None)
            routine = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
            if not name.startswith("_") and routine and documented:
                members[name] = None
    return list(members)
