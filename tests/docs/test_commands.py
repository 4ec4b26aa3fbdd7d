"""Every command that the README and the docs print: it is known here, its files are there, and it does what it says."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from omegamax.cli.main import APPLICATIONS, main, parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EASY = (
    "--data.image_size=64 --data.grid=[8,8] --model.network.grid=[8,8] --data.objects=[3,5] "
    "--data.shapes=[circle,triangle,cross,ring,bar] --data.colours=[red,green,blue,yellow] "
    "--data.questions=[exists,has_colour,colour_of,shape_of] --model.rate.peak=3e-3 --trainer.accelerator=cpu"
).split()


def commands():
    """The commands of all ``sh`` blocks, without comments, lines that go on joined."""
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    yield page.name, words


COMMANDS = list(commands())


def ours(*start):
    return [words[1:] for _, words in COMMANDS if words[0] == "omegamax" and words[1 : 1 + len(start)] == list(start)]


def test_there_are_commands_and_all_are_of_programs_that_are_tried():
    assert {words[0] for _, words in COMMANDS} == {"omegamax", "pip", "make", "python"}


def test_no_command_hides_in_an_indented_block():
    for page in PAGES:
        assert not re.search(r"^    (omegamax|make|pip) ", page.read_text(encoding="utf-8"), re.MULTILINE), page


@pytest.mark.parametrize("page, words", COMMANDS, ids=[" ".join(words)[:70] for _, words in COMMANDS])
def test_command_is_understood(page, words, capsys):
    """Options are known, and files that come with the library are there."""
    program, *arguments = words
    for word in arguments:
        if word.startswith(("experiments/", "benchmarks/", "docs/")):
            assert (ROOT / word).exists(), word
    if program == "pip" and tomllib is not None:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"\[(\w+)\]", arguments[-1])) <= extras.keys()
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "omegamax" and arguments[0] in APPLICATIONS and arguments[1] in APPLICATIONS[arguments[0]].stages:
        if any(word.startswith("runs/") and word.endswith(".yaml") for word in arguments):
            return  # the settings that a run has saved
        files = [str(ROOT / word) if word.startswith("experiments/") else word for word in arguments]
        with pytest.raises(SystemExit) as exit:
            main([*files, "--print_config"])
        assert exit.value.code == 0, capsys.readouterr().err
    elif program == "omegamax":
        assert callable(parser(arguments, APPLICATIONS).parse_args(arguments).run)


@pytest.mark.parametrize("words", [*ours("cite"), *ours("maps")], ids=" ".join)
def test_short_command_runs(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.strip()


def test_cleaning_leaves_what_was_trained():
    (recipe,) = re.findall(r"^clean:\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    removed = set(recipe.split())
    assert not removed & {"demo", "tour", "runs", "comparison", "$(OUT)", "$(VENV)", "."}


@pytest.mark.slow
@pytest.mark.long
def test_flagship_command_learns_more_than_words_alone(tmp_path, monkeypatch, capsys):
    """The tour's training, its picture and its comparison, on fewer and easier pictures."""
    from omegamax.cli.vqa import _cnn

    fits = [words[1:] for page, words in COMMANDS if page == "tour.md" and words[1:3] == ["vqa", "fit"]]
    first, second = ([str(ROOT / word) if word.startswith("experiments/") else word for word in fit] for fit in fits)
    monkeypatch.chdir(tmp_path)
    for name, value in {"STEPS": 200, "SAMPLES": 2000, "UNSEEN": 100}.items():  # of the CNN
        monkeypatch.setattr(_cnn, name, value)
    steps = ["--data.samples=[3000,500,100]", "--trainer.max_steps=75", "--trainer.val_check_interval=75"]
    assert main([*first, *EASY, *steps, "--trainer.max_steps=225"]) == 0
    start = tmp_path / "runs" / "softmax"
    assert (start / "cnn.safetensors").is_file() and (start / "model.safetensors").is_file()
    assert main([*second, *EASY, *steps]) == 0
    run = tmp_path / "runs" / "tvmax"
    blind = [*first, *EASY, *steps, "--model.blind=true", "--out=runs/blind"]
    assert main(blind) == 0
    seen, words = (
        max(point["val_accuracy"] for point in json.loads((folder / "curve.json").read_text()))
        for folder in (run, tmp_path / "runs" / "blind")
    )
    assert seen > words + 0.1
    from omegamax.tasks.vqa import VQATask, demo
    from omegamax.tasks.vqa.examples import save_pictures

    save_pictures(demo.Recipe().data(0, 0).read("test"), tmp_path / "demo" / "pictures", 1)  # as the demo does
    (explain,) = [words for words in ours("vqa", "explain") if words.count("runs/softmax") == 0]
    capsys.readouterr()
    assert main(explain) == 0 and (tmp_path / "where.png").is_file()
    said = capsys.readouterr()
    assert "words it was not trained with" not in said.err and said.out.splitlines()[1].startswith("tvmax")
    assert VQATask.load(run / "model.safetensors").network.output.kind == "tvmax"
    assert main(["vqa", "compare", "runs/tvmax", "runs/blind", "--out", "comparison", "--examples", "1"]) == 0
    assert (tmp_path / "comparison" / "report.html").is_file()
