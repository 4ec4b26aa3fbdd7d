"""The pages of theory and of questions: their formulas hold, their names and links lead somewhere."""

from __future__ import annotations

import doctest
import re
from importlib import resources
from pathlib import Path

import pytest
from test_packaging import PAGES as RUN_WITH_THE_PACKAGE

from docs.pages import DOCS, find_broken_links, find_names, read, resolve

THEORY = sorted((DOCS / "theory").glob("*.md"))
CHAPTERS = [page for page in THEORY if page.name != "index.md"]
WRITTEN_HERE = [*THEORY, DOCS / "questions.md"]
# All other pages with examples, but for those that another test runs.
OTHERS = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if ">>> " in read(page) and page not in WRITTEN_HERE and page.stem not in RUN_WITH_THE_PACKAGE
]


def title(page: Path) -> str:
    return str(page.relative_to(DOCS))


def run_examples(page: Path) -> doctest.TestResults:
    return doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)


@pytest.mark.parametrize("page", [*CHAPTERS, DOCS / "questions.md"], ids=title)
def test_examples_run_and_print_what_they_say(page):
    failed, tried = run_examples(page)
    assert tried > 3 and not failed


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=title)
def test_examples_of_other_pages_run_and_print_what_they_say(page):
    failed, tried = run_examples(page)
    assert tried and not failed


@pytest.mark.parametrize("page", WRITTEN_HERE, ids=title)
def test_links_lead_somewhere(page):
    assert not find_broken_links(page)


@pytest.mark.parametrize("page", WRITTEN_HERE, ids=title)
def test_names_of_code_are_there(page):
    for name in find_names(read(page)):
        resolve(name)


def test_contents_list_every_chapter():
    contents = read(DOCS / "theory" / "index.md").split("```{toctree}")[1].split("\n\n")[1].split("```")[0]
    assert sorted(contents.split()) == sorted(page.stem for page in CHAPTERS) and len(CHAPTERS) == 8


@pytest.mark.parametrize("page", CHAPTERS, ids=title)
def test_chapter_has_its_parts(page):
    """Problem, solution, derivative, zeros, a check, and where to go on."""
    text = read(page)
    for part in (
        r"^## .*problem",
        r"(?i)solution|map",
        r"(?i)derivative|gradient",
        r"(?i)zeros",
        "^## Checked",
        "^## Further",
    ):
        assert re.search(part, text, re.MULTILINE), part


@pytest.mark.parametrize("page", CHAPTERS, ids=title)
def test_references_are_in_the_bibliography(page):
    known = set(re.findall(r"^@\w+\{(\w+),", resources.files("omegamax").joinpath("references.bib").read_text(), re.M))
    (cited,) = re.findall(r"^- References: (.*?)\.$", read(page), re.MULTILINE | re.DOTALL)
    keys = re.findall(r"`(\w+)`", cited)
    assert keys and set(keys) <= known, set(keys) - known


@pytest.mark.parametrize("page", THEORY, ids=title)
def test_formulas_are_closed(page):
    """Dollars come in pairs, and no line of a displayed formula begins a list, which would end it."""
    text = re.sub(r"^```.*?^```|`[^`]*`", "", read(page), flags=re.MULTILINE | re.DOTALL)
    displayed = re.findall(r"\$\$.*?\$\$", text, re.DOTALL)
    assert text.count("$$") == 2 * len(displayed)
    for formula in displayed:
        assert "\n\n" not in formula
        assert not re.search(r"\n\s*[-+*#>] ", formula), formula
    for paragraph in re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL).split("\n\n"):
        assert paragraph.count("$") % 2 == 0, paragraph
