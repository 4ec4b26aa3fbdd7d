"""The help of the training commands: short, and a text for every setting."""

import re

import pytest

from omegamax.cli.main import main
from omegamax.tasks.mil import BagsData
from omegamax.tasks.vqa import VQAData

SETS = [("vqa", name) for name in VQAData.known()] + [("mil", name) for name in BagsData.known()]


def shown(capsys, *arguments):
    with pytest.raises(SystemExit) as exit:
        main(list(arguments))
    assert exit.value.code == 0
    return capsys.readouterr().out


def texts(help):
    """What is said of each setting, without its type and default."""
    parts = re.split(r"^  (?:-\w \w+, )?(--(?:model|data)\.[\w.]+)", help, flags=re.MULTILINE)
    for name, rest in zip(parts[1::2], parts[2::2], strict=True):
        words = " ".join(rest.split("\n\n")[0].split())
        yield name, re.sub(r"\((required, )?type: .*", "", words).partition(" ")[2].strip()


@pytest.mark.parametrize("group", ["vqa", "mil"])
def test_every_setting_of_the_network_has_a_text(group, capsys):
    found = dict(texts(shown(capsys, group, "fit", "--help.full")))
    assert len(found) > 10
    assert not [name for name, text in found.items() if len(text) < 8]
    assert not [name for name, text in found.items() if "``" in text or ":class:" in text or ">>>" in text]


@pytest.mark.parametrize("group, name", SETS)
def test_every_setting_of_a_set_has_a_text(group, name, capsys):
    found = dict(texts(shown(capsys, group, "fit", "--data.help", name)))
    assert {"--data.batch_size", "--data.workers", "--data.seed"} <= found.keys()
    assert not [setting for setting, text in found.items() if len(text) < 5]


@pytest.mark.parametrize("group", ["vqa", "mil"])
def test_help_fits_on_a_few_pages_and_says_where_the_rest_is(group, capsys):
    text = shown(capsys, group, "fit", "--help")
    assert len(text.splitlines()) < 160 and "--help.full" in text
    assert all(f"\n  {name} " in text for name in ("--out", "--ckpt_path", "--data.help", "--trainer.max_steps"))


@pytest.mark.parametrize("group, name", SETS)
def test_what_a_set_needs_is_asked_for_in_a_line(group, name, capsys):
    if name == "ScenesData":
        return
    with pytest.raises(SystemExit) as exit:
        main([group, "fit", "--data", name])
    line = capsys.readouterr().err.strip()
    assert exit.value.code == 2 and len(line.splitlines()) == 1
    assert f"{name} needs --data.folder" in line and "Namespace" not in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["vqa", "fit", "--model.network.transform", "k_subsets"],
        ["vqa", "fit", "--model.network.transform", "entmax", "--model.network.transform_options", '{"beta": 1}'],
        ["mil", "fit", "--data.folder", "x", "--model.omega", "k_subsets"],
        ["mil", "fit", "--data.folder", "x", "--model.omega", "sparsemax", "--model.options", '{"k": 1}'],
    ],
)
def test_wrong_options_of_a_map_are_reported_in_one_line(arguments, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("omegamax ")]
    assert len(shown) == 1 and "options" in shown[0]
