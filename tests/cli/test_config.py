"""Configurations of others: what they name is not imported, what they hold is counted."""

import json
import subprocess
import sys

import pytest
import yaml
from tests.cli.refusals import refused

from omegamax.cli._config import MOST_LEVELS, MOST_NODES, check_yaml, guard_imports, list_packages
from omegamax.cli.main import main

MODULE = """
from pathlib import Path
from lightning.pytorch.callbacks import Callback
from omegamax.tasks.vqa.sets import ScenesData
Path({mark!r}).touch()
class Harm(Callback): pass
class HarmData(ScenesData): pass
def harm(*arguments): Path({mark!r}).touch()
"""
LAMBDA = "lightning.pytorch.callbacks.LambdaCallback"
CONFIGS = {
    "data": "data: {class_path: harmful.HarmData}",
    "short": "data: harmful.HarmData",
    "callbacks": "trainer: {callbacks: [{class_path: harmful.Harm}]}",
    "logger": "trainer: {logger: [{class_path: harmful.Harm}]}",
    "function": f"trainer: {{callbacks: [{{class_path: {LAMBDA}, init_args: {{on_fit_start: harmful.harm}}}}]}}",
    "elsewhere": f"trainer: {{callbacks: [{{class_path: {LAMBDA}, init_args: {{on_fit_start: torch.os.abort}}}}]}}",
    "like ours": "trainer: {callbacks: [{class_path: omegamax_harmful.Harm}]}",
}
FIT = ("vqa", "fit", "--out", "run")
ARGUMENTS = [
    ["--data", "harmful.HarmData"],
    ["--data.class_path=harmful.HarmData"],
    ["--trainer.callbacks+=harmful.Harm"],
    ["--trainer.logger", "harmful.Harm"],
    ["--trainer.callbacks+=torch.os.system"],
]


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """The file that is there once a module of the current folder has run."""
    mark = tmp_path / "ran"
    for name in ("harmful", "omegamax_harmful"):
        (tmp_path / f"{name}.py").write_text(MODULE.format(mark=str(mark)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield mark
    for name in ("harmful", "omegamax_harmful"):
        sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore")  # newer versions of jsonargparse warn of torch.os by themselves
@pytest.mark.parametrize("case", CONFIGS)
def test_class_of_a_configuration_is_not_imported(case, mark, tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(CONFIGS[case])
    line = refused(capsys, *FIT, "--config", "config.yaml")
    assert "must name a class of omegamax, lightning" in line and len(line) < 400
    assert not mark.exists() and "harmful" not in sys.modules


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_class_of_the_command_line_is_not_imported(arguments, mark, capsys):
    assert "must name a class of omegamax, lightning" in refused(capsys, *FIT, *arguments)
    assert not mark.exists()


@pytest.mark.parametrize("program", ["", "import harmful; "], ids=["trusted by name", "imported before"])
def test_class_of_the_users_own_may_be_named(program, mark, tmp_path, monkeypatch, warm_processes):
    """In a process of its own: a set that is defined once is known for the rest of it."""
    if not program:
        monkeypatch.setenv("OMEGAMAX_MODULES", "other, harmful")
        assert "harmful" in list_packages()
    call = "from omegamax.cli.main import main; main(['vqa', 'fit', '--data', 'harmful.HarmData', '--print_config'])"
    done = warm_processes.run(["-c", program + call], cwd=tmp_path)
    assert done.returncode == 0 and "harmful.HarmData" in done.stdout and mark.exists()


def test_jsonargparse_is_left_as_it_was():
    from jsonargparse import _typehints, get_loader

    before = _typehints.import_object, get_loader("yaml")
    with pytest.raises(KeyError), guard_imports():
        assert _typehints.import_object is not before[0]
        raise KeyError
    assert (_typehints.import_object, get_loader("yaml")) == before


@pytest.mark.slow
def test_no_file_of_the_current_folder_passes_for_a_module(tmp_path):
    """Neither by what a configuration names nor by the name of what the command itself imports."""
    for name in ("harmful", "lightning", "rich"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r} + __name__, 'w')")
    (tmp_path / "config.yaml").write_text("trainer: {callbacks: [{class_path: harmful.Harm}]}")
    command = [sys.executable, "-m", "omegamax", "vqa", "fit", "--config", "config.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and "Traceback" not in done.stderr and not list(tmp_path.glob("ran*"))


@pytest.mark.parametrize("name", ["lightning", "rich"])
def test_class_that_a_package_does_not_have_is_refused(name, tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(f"trainer: {{callbacks: [{{class_path: {name}.Harm}}]}}")
    assert f"{name}.Harm" in refused(capsys, *FIT, "--config", tmp_path / "config.yaml")


def laughs(levels=12):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


HOSTILE = {
    "aliases": (laughs(), f"{MOST_NODES:,} values"),
    "deep": ("[" * 10_000 + "]" * 10_000, f"{MOST_LEVELS} levels"),
    "itself": ("a: &a {b: *a}", "not complete"),
    "long": ("a" * (1 << 25), "characters"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_yaml_that_grows_is_refused(case):
    text, message = HOSTILE[case]
    with pytest.raises(yaml.YAMLError, match=message):
        check_yaml(text)


@pytest.mark.parametrize("text", [laughs(), HOSTILE["deep"][0], "data: !!python/object/apply:os.getcwd []"])
def test_file_that_grows_or_calls_is_refused_on_the_command_line(text, tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(text)
    assert refused(capsys, *FIT, "--config", tmp_path / "config.yaml").startswith("omegamax vqa fit: error:")


def test_aliases_of_a_configuration_are_read():
    check_yaml("a: &a [1, 2]\nb: *a\nc: {d: *a}\n---\n")
    check_yaml("\n".join(f"k{i}: {{a: 1}}" for i in range(1000)))


SETS = [
    ("lm", "TextFilesData", "files: [a.txt]", "subwords: bytes"),
    ("translate", "PairFilesData", "{train: a, source: de, target: en}", "subwords: bpe"),
    ("caption", "Flickr8kData", "folder: a", "least: 5"),
]


@pytest.mark.parametrize(("name", "kind", "needed", "own"), SETS)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_set_that_is_named_takes_nothing_of_the_default_one(name, kind, needed, own, by_file, tmp_path, capsys):
    settings = yaml.safe_load(needed)
    (tmp_path / "part.yaml").write_text(yaml.safe_dump({"data": {"class_path": kind, "init_args": settings}}))
    by_name = [
        "--data.seed=3",
        "--data",
        kind,
        *(f"--data.{key}={json.dumps(value)}" for key, value in settings.items()),
    ]
    given = ["--config", str(tmp_path / "part.yaml")] if by_file else by_name
    with pytest.raises(SystemExit) as ended:
        main([name, "fit", *given, "--print_config"])
    assert ended.value.code in (0, None) and own in capsys.readouterr().out
