"""The public names of the library, as its sources state them.

A package says what is public by ``from ... import name as name``. The bridges to other libraries are modules of their
own, whose functions and classes are public unless they begin with an underscore.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import omegamax

SOURCE = Path(omegamax.__file__).parent


def public_names() -> dict[str, dict[str, str]]:
    """Return, for each public module, its public names and the full name under which each is described."""
    stated = {module: dict(read_names(file, module)) for module, file in modules()}
    stated = {module: names for module, names in stated.items() if names}
    first: dict[tuple[str, str], str] = {}  # two modules can take the same from a third that is not public
    for module, names in stated.items():
        for name, source in names.items():
            first.setdefault((source, name), f"{module}.{name}")
    return {
        module: {name: home(stated, source, name) or first[source, name] for name, source in names.items()}
        for module, names in stated.items()
    }


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules that can state public names, with their files."""
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        elif parts[1] not in ("functional", "integrations"):
            continue
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), file


def read_names(file: Path, module: str) -> Iterator[tuple[str, str]]:
    """Yield each public name of a file and the module it comes from."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node in (inner for outer in body for inner in (outer.body if isinstance(outer, ast.If) else [outer])):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname == alias.name and not alias.name.startswith("_"):
                    yield alias.name, node.module or ""
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, module


def home(stated: dict[str, dict[str, str]], source: str, name: str) -> str | None:
    """Return the full name that another public module has for what comes from it, or None."""
    if f"{source}.{name}" in stated:
        return f"{source}.{name}"  # a module
    if name not in stated.get(source, {}):
        return None
    further = stated[source][name]
    return (home(stated, further, name) if further != source else None) or f"{source}.{name}"
