"""The parts of the site that are ours do what their docstrings show."""

import doctest
import importlib
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs sphinx: pip install -c constraints.txt '.[docs]'")
DOCS = Path(__file__).parents[2] / "docs"
MODULES = sorted(path.stem for path in (DOCS / "_extensions").glob("[a-z]*.py"))
WITH_EXAMPLES = {"docstrings", "formulas", "pages", "tree"}


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_docstrings_hold(name, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    result = doctest.testmod(importlib.import_module(f"_extensions.{name}"))
    assert result.failed == 0 and (result.attempted > 0) == (name in WITH_EXAMPLES)


def test_names_lead_to_one_description_each(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    names = importlib.import_module("_extensions.public").public_names()
    assert names["omegamax"]["entmax"] == names["omegamax.functional"]["entmax"] == "omegamax.functional.entmax"
    assert names["omegamax.mixtures"]["Mixture"] == "omegamax.densities.Mixture"
    assert names["omegamax"]["nn"] == "omegamax.nn"
    for some in names.values():
        for full in some.values():
            module, _, name = full.rpartition(".")
            assert full in names or names[module][name] == full
