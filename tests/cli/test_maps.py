"""``omegamax maps``."""

import pytest

from omegamax.cli import _table
from omegamax.cli._checks import CommandError
from omegamax.cli.main import main
from omegamax.maps import records

BEGIN, END = "<!-- maps:begin -->", "<!-- maps:end -->"


@pytest.mark.parametrize("options", [[], ["--markdown"]])
def test_every_map_has_a_line_with_its_purpose_and_cost(options, capsys):
    assert main(["maps", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    for t in records().values():
        (line,) = [x for x in lines if x.startswith((f"{t.name} ", f"| `{t.name}` "))]
        assert t.summary in line and t.complexity in line


def test_table_goes_between_the_markers_and_leaves_the_rest(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main(["maps", "--into", str(file)]) == 0
    text = file.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| map |") and text.endswith(f"|\n{END}\nafter\n") and "old" not in text
    assert main(["maps", "--into", str(file)]) == 0
    assert file.read_text() == text


def test_missing_markers_are_an_error():
    with pytest.raises(CommandError, match="maps:begin"):
        _table.replace_between("no markers here", "maps", "table")


def test_table_in_a_terminal_uses_rich(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _table.show(["map", "margin"], [["sparsemax", "[1]"]])
    shown = capsys.readouterr().out
    assert "sparsemax" in shown and "[1]" in shown
