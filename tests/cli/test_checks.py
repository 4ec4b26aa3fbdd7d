"""After a plain install, without extras, every command that needs one says which."""

import json
import subprocess
import sys

import pytest

from omegamax.cli import _checks
from omegamax.cli._checks import TRAIN
from omegamax.cli.main import main

HIDE = """
import json, sys
from contextlib import redirect_stderr
from io import StringIO

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Hidden())
from omegamax.cli.main import main

said = []
for command in json.loads(sys.argv[2]):
    shown = StringIO()
    with redirect_stderr(shown):
        try:
            status = main(command)
        except SystemExit as exit:
            status = exit.code
    said.append([status, shown.getvalue()])
print(json.dumps(said))
"""
COMMANDS = {
    "demo": ["demo"],
    "tour": ["tour"],
    "vqa fit": ["vqa", "fit"],
    "vqa test": ["vqa", "test"],
    "vqa pretrain": ["vqa", "pretrain"],
    "vqa explain": ["vqa", "explain", "a.png", "what?", "--checkpoint", "no-run"],
    "vqa compare": ["vqa", "compare", "no-run"],
    "mil fit": ["mil", "fit", "--data.folder", "x"],
    "mil predict": ["mil", "predict", "--data.folder", "x"],
    "mil explain": ["mil", "explain", "no-run"],
    "text fit": ["text", "fit"],
    "text demo": ["text", "demo"],
    "text explain": ["text", "explain", "a film", "--checkpoint", "no-run"],
}


def told(hidden, names, folder):
    arguments = json.dumps(sorted(hidden)), json.dumps([COMMANDS[name] for name in names])
    done = subprocess.run([sys.executable, "-c", HIDE, *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(name, status, text):
    lines = text.splitlines()
    assert status == 1 and len(lines) == 1, (name, text)
    assert lines[0].startswith(f"omegamax {name}: ") and "pip install 'omegamax[" in lines[0], (name, text)


def test_command_after_a_plain_install_says_what_to_install(tmp_path):
    for name, (status, text) in zip(COMMANDS, told(TRAIN, COMMANDS, tmp_path), strict=True):
        check(name, status, text)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", TRAIN)
def test_each_package_of_an_extra_is_asked_for_before_work_begins(package, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_checks, "find_spec", lambda name: None if name == package else object())
    for name, arguments in COMMANDS.items():
        if name != "tour" or package == "matplotlib":
            check(name, main(arguments), capsys.readouterr().err)
