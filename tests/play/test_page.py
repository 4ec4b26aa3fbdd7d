"""The page of the playground and its command, without a browser."""

import re
from importlib import resources

import pytest

from omegamax.cli import play
from omegamax.cli.main import main
from omegamax.maps import records
from omegamax.play import make_playground
from omegamax.play.page import SCRIPTS


def test_page_is_small_and_names_no_other_host():
    page = make_playground()
    assert len(page.encode()) < 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<>)]+", page)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"\b(src|href)=|@import|url\(|\bfetch\(|XMLHttpRequest|\beval\(|innerHTML", page)


def test_every_asset_is_in_the_page():
    there = {path.name for path in resources.files("omegamax.play").joinpath("assets").iterdir()}
    assert there == {*SCRIPTS, "play.css", "play.html"}


def test_every_map_of_the_library_is_on_the_page():
    scripts = "".join(resources.files("omegamax.play").joinpath("assets", name).read_text() for name in SCRIPTS)
    named = set(re.findall(r'name: "(\w+)"|oneOf\("(\w+)"', scripts))
    assert {*records()} <= {first or second for first, second in named}


def test_command_writes_the_page_and_opens_it(tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(play.webbrowser, "open", lambda address: opened.append(address) or True)
    out = tmp_path / "deep" / "playground.html"
    assert main(["play", "--out", str(out)]) == 0
    assert opened == [out.as_uri()]
    assert out.read_text(encoding="utf-8") == make_playground()
    assert "KB" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--no-browser"]])
def test_command_says_where_the_page_is_if_there_is_no_browser(tmp_path, capsys, monkeypatch, arguments):
    monkeypatch.setattr(play.webbrowser, "open", lambda address: False)
    out = tmp_path / "playground.html"
    assert main(["play", "--out", str(out), *arguments]) == 0
    assert f"Open {out} in a browser." in capsys.readouterr().out
