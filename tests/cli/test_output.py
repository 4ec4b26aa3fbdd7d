"""Every command that writes says that it cannot before it works, in a line."""

import pytest
from tests.cli.refusals import refused

from omegamax.cli.main import APPLICATIONS, COMMANDS, main

# The arguments that a command needs beside where to write; none of the files named is there.
FOLDERS = {
    "demo": ["demo"],
    "tour": ["tour"],
    "vqa compare": ["vqa", "compare", "no-run"],
    "vqa figures": ["vqa", "figures", "no-comparison"],
    "features": ["features", "no-pictures", "--backbone", "gridcnn:no.safetensors"],
    "vqa fit": ["vqa", "fit"],
    "caption fit": ["caption", "fit"],
    "caption demo": ["caption", "demo"],
    "caption compare": ["caption", "compare", "no-run"],
    "mil fit": ["mil", "fit", "--data.folder", "no-set"],
    "text fit": ["text", "fit"],
    "text compare": ["text", "compare", "no-run"],
    "text demo": ["text", "demo"],
    "translate fit": ["translate", "fit"],
    "translate demo": ["translate", "demo"],
    "translate compare": ["translate", "compare", "no-run"],
    "lm fit": ["lm", "fit"],
    "lm compare": ["lm", "compare", "no-run"],
    "lm demo": ["lm", "demo"],
}
FILES = {
    "play": (["play"], "playground.html"),
    "vqa pretrain": (["vqa", "pretrain"], "cnn.safetensors"),
    "vqa explain": (["vqa", "explain", "no.png", "what is it?", "--checkpoint", "no-run"], "where.png"),
    "caption rate": (["caption", "rate", "--runs", "no-run"], "rating.html"),
    "caption ratings": (["caption", "ratings", "no.json"], "ratings.csv"),
    "caption explain": (["caption", "explain", "no.jpg", "--checkpoint", "no-run"], "strip.png"),
    "vqa rate": (["vqa", "rate", "--runs", "no-run"], "rating.html"),
    "vqa ratings": (["vqa", "ratings", "no.json"], "ratings.csv"),
    "mil explain": (["mil", "explain", "no-run"], "bags.png"),
    "text explain": (["text", "explain", "a film", "--checkpoint", "no-run"], "words.png"),
    "text alphas": (["text", "alphas", "--checkpoint", "no-run"], "alphas.png"),
    "text game": (["text", "game", "--checkpoint", "no-run"], "game.csv"),
    "translate alphas": (["translate", "alphas", "--checkpoint", "no-run"], "alphas.png"),
    "lm generate": (["lm", "generate", "--checkpoint", "no-run"], "out.txt"),
    "translate predict": (["translate", "predict", "--checkpoint", "no-run"], "out.txt"),
    "translate explain": (["translate", "explain", "ein hund", "--checkpoint", "no-run"], "alignment.png"),
}
NO_FILES = {
    "maps",
    "kernels",
    "cite",
    "vqa validate",
    "vqa test",
    "vqa predict",
    "caption validate",
    "caption test",
    "caption predict",
    "mil validate",
    "mil test",
    "mil predict",
    "text validate",
    "text test",
    "text predict",
    "translate type",
    "translate validate",
    "translate test",
    "lm validate",
    "lm test",
}


def refused_out(capsys, arguments):
    """The line that says what is wrong with --out."""
    line = refused(capsys, *arguments)
    assert ": error: --out" in line
    return line


def test_every_command_is_tried():
    every = {*COMMANDS}
    every |= {f"{name} {each}" for name, one in APPLICATIONS.items() for each in (*one.stages, *one.commands)}
    assert every == {*FOLDERS, *FILES, *NO_FILES}


@pytest.mark.parametrize("name", FOLDERS)
def test_folder_that_cannot_be_is_refused_first(tmp_path, capsys, name):
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused_out(capsys, [*FOLDERS[name], "--out", tmp_path / "file"])
    assert "Not a directory" in refused_out(capsys, [*FOLDERS[name], "--out", tmp_path / "file" / "deep" / "er"])
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", FILES)
def test_file_that_cannot_be_is_refused_first(tmp_path, capsys, name):
    arguments, file = FILES[name]
    (tmp_path / "file").write_text("mine")
    (tmp_path / file).mkdir()
    assert "is a folder" in refused_out(capsys, [*arguments, "--out", tmp_path / file])
    refused_out(capsys, [*arguments, "--out", tmp_path / "file" / file])
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["vqa explain", "caption explain", "mil explain", "text explain", "text alphas", "translate explain"]
)
def test_picture_of_a_format_unknown_is_refused_first(tmp_path, capsys, name):
    assert ".png" in refused_out(capsys, [*FILES[name][0], "--out", tmp_path / "where.xyz"])


def test_table_is_not_written_where_it_cannot_be(tmp_path, capsys):
    page = tmp_path / "page.md"
    assert main(["maps", "--into", str(page)]) == 2
    page.write_text("no place for it")
    assert main(["maps", "--into", str(page)]) == 2
    assert page.read_text() == "no place for it"
    page.write_bytes(b"\xff\xfe not text")
    assert main(["maps", "--into", str(page)]) == 2
    assert all("error: " in line for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["tour"],
        ["vqa", "pretrain", "--steps", "2", "--samples", "64", "--image-size", "32", "--grid", "2", "2"],
    ],
)
def test_full_disk_is_reported_in_one_line(tmp_path, capsys, monkeypatch, arguments):
    """The disk fills up while the command works: what it wrote before stays, and no traceback is shown."""
    import errno

    from omegamax.cli import _page, _plates
    from omegamax.tasks.vqa import pretrain

    def full(*unused, **settings):
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr(_page, "page", full)
    monkeypatch.setattr(_plates, "PLATES", _plates.PLATES[:1])  # which are drawn before
    monkeypatch.setattr(pretrain, "save_grid_cnn", full)
    out = tmp_path / ("out.safetensors" if "pretrain" in arguments else "out")
    assert main([*arguments, "--out", str(out)]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("error: No space left on device: somewhere")
