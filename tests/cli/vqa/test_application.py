"""``omegamax vqa`` as a whole: its commands, and how fast it is there."""

import subprocess
import sys

import pytest

from omegamax.cli.application import STAGES
from omegamax.cli.main import main
from omegamax.cli.vqa.application import VQA

HEAVY = ("lightning", "matplotlib", "torchmetrics", "jsonargparse", "transformers", "torchvision", "PIL", "rich")


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["vqa", "--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown for name in (*STAGES, *VQA.commands))


@pytest.mark.parametrize("name", VQA.commands)
def test_help_of_a_command_says_what_it_takes(name, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["vqa", name, "--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: omegamax vqa {name}" in shown and "--out" in shown


@pytest.mark.parametrize("arguments", [["vqa"], ["vqa", "no-such-command"], ["vqa", "explain"], ["vqa", "compare"]])
def test_nonsense_exits_with_2_and_says_why(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert "usage: omegamax vqa" in capsys.readouterr().err


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_start_is_light():
    done = run(f"""
import sys
from omegamax.cli.main import main
for arguments in ["vqa", "--help"], ["vqa", "explain", "--help"], ["demo", "--help"], ["maps"]:
    try:
        main(arguments)
    except SystemExit:
        pass
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    if loaded:
        sys.exit(f"{{arguments}} loaded {{loaded}} for nothing")
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("lightning", ["vqa", "pretrain"], "omegamax[train]"),
        ("matplotlib.pyplot", ["vqa", "explain", "x.png", "what?", "--checkpoint", "y"], "omegamax[viz]"),
    ],
)
def test_package_that_is_missing_is_named_with_its_extra(missing, arguments, extra):
    main = f"from omegamax.cli.main import main; sys.exit(main({arguments!r}))"
    done = run(f"import sys; sys.modules[{missing!r}] = None; {main}")
    assert done.returncode == 1
    assert extra in done.stderr and "Traceback" not in done.stderr
