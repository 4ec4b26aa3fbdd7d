"""Pages of the documentation as tests read them: their links, and the names of code that they mention."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    """Leave out blocks of code, and formulas, in which brackets are no links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "", text, flags=re.DOTALL)


def find_names(text: str) -> set[str]:
    """List what stands in backticks and begins with ``omegamax.``; of a call, what is called."""
    return set(re.findall(r"`(omegamax(?:\.\w+)+)(?:\([^`]*\))?`", text))


def resolve(name: str) -> object:
    """Import a dotted name: a module, or attributes of one.

    An attribute counts before a module of the same name, as it does for whoever writes the name in a program.
    """
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(".".join(parts[: i + 1]))
    return found


def anchors(page: Path) -> set[str]:
    """List the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(read(page)), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"[`*$]", "", heading)).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def find_broken_links(page: Path) -> list[str]:
    """List the relative links whose file is missing, or whose heading is."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(read(page))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken
