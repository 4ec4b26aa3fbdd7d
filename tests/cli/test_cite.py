"""``omegamax cite`` and the bibliography it prints from."""

from operator import attrgetter

import pytest

import omegamax
from omegamax.cli._bibliography import bibliography
from omegamax.cli._works import WORKS
from omegamax.cli.main import main
from omegamax.maps import find, records


@pytest.mark.parametrize("name", records())
def test_every_map_has_a_work(name, capsys):
    assert main(["cite", name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("@") and find(name).cite in shown


def test_a_key_works_as_well_as_a_name(capsys):
    main(["cite", "martins2016softmax"])
    by_key = capsys.readouterr().out
    main(["cite", "sparsemax"])
    assert capsys.readouterr().out == by_key


def test_a_work_is_printed_once(capsys):
    main(["cite", "sparsemax", "martins2016softmax", "entmax15"])
    assert capsys.readouterr().out.count("@inproceedings") == 2


def test_unknown_name_lists_the_known_ones(capsys):
    assert main(["cite", "sparsemax", "hardmax"]) == 2
    complaint = capsys.readouterr().err
    assert "'hardmax'" in complaint and "entmax15" in complaint and "blondel2020learning" in complaint


@pytest.mark.parametrize("work", bibliography().values(), ids=lambda work: work.key)
def test_every_entry_is_complete(work):
    assert {"title", "author", "year"} <= work.fields.keys()
    assert work.bibtex.count("{") == work.bibtex.count("}")
    assert not any(mark in work.short + work.fields["title"] for mark in "{}\\")
    assert work.fields["year"] in work.key and work.fields["year"] in work.short


def test_entries_are_all_read():
    from importlib import resources

    text = resources.files("omegamax").joinpath("references.bib").read_text(encoding="utf-8")
    assert len(bibliography()) == sum(line.startswith("@") for line in text.splitlines())


@pytest.mark.parametrize("name", WORKS)
def test_names_that_are_no_maps_are_public_and_have_their_works(name, capsys):
    assert callable(attrgetter(name)(omegamax)) and name not in records()
    assert main(["cite", name]) == 0
    shown = capsys.readouterr().out
    assert [line.split("{")[1].rstrip(",") for line in shown.splitlines() if line[:1] == "@"] == list(WORKS[name])
