"""``omegamax demo``: what it prints and writes, in a pipe and on a terminal."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from rich.console import Console
from tasks.vqa.small_demo import RECIPE, in_this_process

from omegamax.cli import demo
from omegamax.cli._bars import show_bars
from omegamax.cli.demonstration import make_recipe
from omegamax.cli.main import main
from omegamax.tasks.vqa.demo import BLIND, ROWS, START, Recipe
from omegamax.tasks.vqa.report import Comparison, summarise

LABELS = [
    *("softmax", "tvmax", "continuous softmax", "continuous softmax, combined", "continuous sparsemax", "multimodal"),
    "test-MCA",
]


def run_demo(out, *arguments):
    """Run the command with few steps; what it printed."""
    before, shown = torch.get_num_threads(), StringIO()
    with in_this_process() as patch, redirect_stdout(shown):
        patch.setattr(demo, "make_recipe", lambda kind, options: RECIPE)
        assert main(["demo", "--out", str(out), "--examples", "1", *arguments]) == 0
    torch.set_num_threads(before)
    return shown.getvalue()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The folder of a demonstration, with a space in its name, and what was printed."""
    out = tmp_path_factory.mktemp("demo") / "my demo"
    (out / "runs" / "mine").mkdir(parents=True)
    (out / "runs" / "softmax").mkdir()
    (out / "runs" / "softmax" / "old").write_text("")
    return out, run_demo(out)


def test_everything_is_written(shown):
    out, _ = shown
    assert sorted(path.name for path in out.iterdir()) == ["comparison.json", "pictures", "report.html", "runs"]
    for name in (START, BLIND, *ROWS):
        assert (out / "runs" / name / "model.safetensors").is_file()
        assert json.loads((out / "runs" / name / "curve.json").read_text())
    assert len(list((out / "pictures").glob("*.png"))) == 6


def test_what_others_left_in_the_folder_stays(shown):
    out, _ = shown
    assert (out / "runs" / "mine").is_dir() and not (out / "runs" / "softmax" / "old").exists()


def test_table_has_all_kinds_and_the_baseline_last(shown):
    out, text = shown
    comparison = Comparison.load(out / "comparison.json")
    assert [row.name for row in comparison.rows] == LABELS and comparison.baseline.kind == "blind"
    assert all(row.curve and row.step_ms > 0 for row in (*comparison.rows, comparison.baseline))
    (start,) = [n for n, line in enumerate(text.splitlines()) if line.startswith("attention")]
    names = [line.split("  ")[0] for line in text.splitlines()[start + 1 : start + 9]]
    assert names == [*LABELS, "language only"]
    assert summarise(comparison).split(". ")[0] in text.replace("\n", " ")  # what the rows say, from the rows
    assert f"maps to look at: {out / 'report.html'}\n" in text
    assert comparison.settings["command"] == "omegamax demo --seed 0"


def test_command_it_prints_works_as_printed(shown, capsys):
    out, text = shown
    arguments = shlex.split(text.splitlines()[-1])
    assert main(arguments[arguments.index("vqa") :]) == 0
    assert (out / "where.png").is_file()
    said = capsys.readouterr()
    assert said.err == "" and [line.split("  ")[0] for line in said.out.splitlines()[1:8]] == LABELS


@pytest.mark.slow
def test_same_seed_gives_the_same_table(shown, tmp_path):
    out, _ = shown
    run_demo(tmp_path)
    one, other = (Comparison.load(each / "comparison.json") for each in (out, tmp_path))
    for a, b in zip([*one.rows, one.baseline], [*other.rows, other.baseline], strict=True):
        assert (a.accuracy, a.divergence, a.inside, a.zero) == (b.accuracy, b.divergence, b.inside, b.zero)
        assert (a.components, a.curve) == (b.components, b.curve)
    assert one.examples == other.examples


@pytest.mark.parametrize(("option", "value"), [("--steps", "0"), ("--seed", "-1"), ("--examples", "-1")])
def test_numbers_that_make_no_sense(option, value, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["demo", "--out", str(tmp_path), option, value])
    assert exit.value.code == 2 and f"{option}: must be an integer" in capsys.readouterr().err


def test_steps_are_those_asked_for():
    assert make_recipe(Recipe, Namespace(steps=7)).steps == 7
    assert make_recipe(Recipe, Namespace(steps=None)) == Recipe()


def test_lines_at_quarters_where_there_is_no_terminal(capsys):
    with show_bars({"start": 40, "language_only": 10}) as tell:
        for done in (1, 10, 11, 39, 40):
            tell("start", done)
        tell("language_only", 10)
    assert capsys.readouterr().err.splitlines() == [
        *("  start: 25 %", "  start: 75 %", "  start: 100 %"),
        "  language only: 100 %",
    ]


def test_bars_on_a_terminal(monkeypatch):
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    monkeypatch.setattr("rich.console.Console", lambda **settings: console)
    with show_bars({"start": 40, "language_only": 10}) as tell:
        tell("start", 40)
        tell("language_only", 5)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    last = plain.rstrip().splitlines()[-2:]
    assert [line.split()[0] for line in last] == ["start", "language"]
    assert "━━━━" in last[0] and "40/40" in last[0] and "5/10" in last[1]


PROGRAM = """
import sys
from omegamax.cli import demo
from omegamax.cli.main import main
from omegamax.tasks.vqa.demo import Recipe
demo.make_recipe = lambda kind, options: Recipe((128, 16, 16), 128, 4, 4, options.steps, 2, 32, (4, 4))
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_real_processes_on_a_real_terminal(tmp_path):
    """A process for each network at once, as users have it, and bars that move."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, tmp_path / "program.py", "demo", "--steps", "2", "--examples", "1", "--out", "demo"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path, text=True)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # on Linux, the end of a terminal
            break
        if not part:
            break
        drawn += part
    printed, _ = process.communicate()
    assert process.returncode == 0, drawn.decode()
    assert "multimodal" in printed and (tmp_path / "demo" / "report.html").is_file()
    text = drawn.decode()
    assert "━" in text and "continuous sparsemax" in text and "2/2" in text
    assert "Warning" not in text and "Traceback" not in text
