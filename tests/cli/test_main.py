"""The command line as a whole."""

import re
import subprocess
import sys

import pytest

import omegamax
from omegamax.cli import _checks
from omegamax.cli.main import APPLICATIONS, COMMANDS, main


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^    {name}\s", shown, re.MULTILINE) for name in (*COMMANDS, *APPLICATIONS))


def test_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"omegamax {omegamax.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["tour", "--no-such-option"], ["cite"]])
def test_nonsense_exits_with_2_and_says_why(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert "usage: omegamax" in capsys.readouterr().err


def test_module_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "omegamax", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"omegamax {omegamax.__version__}\n")


def test_command_line_leaves_matplotlib_alone_until_something_is_drawn():
    probe = "import sys, omegamax.cli.main as m; m.main(['maps']); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], stdout=subprocess.DEVNULL).returncode == 0


def test_missing_matplotlib_is_named_with_its_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_checks, "find_spec", lambda name: None)
    assert main(["tour", "--out", str(tmp_path)]) == 1
    assert "omegamax[viz]" in capsys.readouterr().err
