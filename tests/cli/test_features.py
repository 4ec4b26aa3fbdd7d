"""``omegamax features``, as the command line runs it."""

import argparse

import pytest
from torch import nn

from omegamax.cli import features
from omegamax.cli._checks import CommandError
from omegamax.cli.main import main
from omegamax.data.vqa2 import read_grid

pytest.importorskip("PIL", reason="reads pictures, for which pillow is not installed")
BACKBONE = ["--backbone", f"python:{__name__}:small"]


def small():
    return nn.Conv2d(3, 4, 8, 8)


def command(*arguments):
    parser = argparse.ArgumentParser(prog="omegamax features")
    features.add_arguments(parser)
    return features.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def folder(tmp_path):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    for i in range(3):
        Image.new("RGB", (20, 30), (80 * i, 0, 0)).save(tmp_path / "pictures" / f"{i}.jpg")
    return tmp_path / "pictures"


def test_command_writes_features_and_says_what(folder, tmp_path, capsys):
    out = tmp_path / "out"
    options = [folder, *BACKBONE, "--out", out, "--size", "32", "--grid", 2, 2, "--dtype", "float16", "--device", "cpu"]
    assert command(*options) == 0
    shown = capsys.readouterr().out
    assert "3 written, 0 already there, 0 passed over, of 3" in shown
    assert "2 x 2 cells of 4 numbers (last map of python:" in shown and f"are in {out}." in shown
    assert read_grid(out / "1.npz").shape == (2, 2, 4)
    assert command(*options) == 0
    assert "0 written, 3 already there" in capsys.readouterr().out
    assert command(*options, "--size", "40") == 1
    assert "made otherwise (size [32, 32], now [40, 40]); give another --out" in capsys.readouterr().err


def test_sides_of_pictures_may_differ(folder, tmp_path):
    out = tmp_path / "out"
    assert command(folder, *BACKBONE, "--out", out, "--size", "24x32", "--format", "pth") == 0
    assert read_grid(out / "1.pth").shape == (3, 4, 4)


def test_channels_can_be_fewer(folder, tmp_path, capsys):
    pytest.importorskip("safetensors")
    out = tmp_path / "out"
    assert command(folder, *BACKBONE, "--out", out, "--size", "32", "--channels", "1") == 0
    assert read_grid(out / "1.npz").shape == (4, 4, 1)
    assert "principal components of 4, with 100% of the variance" in capsys.readouterr().out


def test_broken_picture_is_named_and_the_way_out_too(folder, tmp_path, capsys):
    (folder / "9.jpg").write_bytes(b"not a picture")
    options = [folder, *BACKBONE, "--out", tmp_path / "out", "--size", "32"]
    assert command(*options) == 1
    shown = capsys.readouterr().err
    assert "9.jpg is damaged or not a picture" in shown and "--skip-broken" in shown
    with pytest.warns(UserWarning, match="passed over"):
        assert command(*options, "--skip-broken") == 0
    assert "3 written, 0 already there, 1 passed over, of 4" in capsys.readouterr().out


def test_missing_files_are_named(folder, tmp_path, capsys):
    assert command(tmp_path / "none", *BACKBONE, "--out", tmp_path / "out") == 1
    assert command(folder, *BACKBONE, "--weights", tmp_path / "none.pth", "--out", tmp_path / "out") == 1
    shown = capsys.readouterr().err
    assert "none does not exist; give a folder" in shown and "none.pth does not exist" in shown


@pytest.mark.parametrize(
    "options, message",
    [
        (["--backbone", "resnet50"], "a backbone is torchvision:NAME"),
        (["--device", "nonsense"], "--device nonsense cannot be used"),
        (["--size", "32x40"], "4 x 5 needs --format pth"),
        (["--size", "32", "--channels", "9"], "has 4 channels"),
        (["--size", "32", "--layer", "stem"], "no layer 'stem'"),
    ],
)
def test_request_that_makes_no_sense_is_refused(options, message, folder, tmp_path):
    with pytest.raises(CommandError, match=message):
        command(folder, *BACKBONE, "--out", tmp_path / "out", *options)


@pytest.mark.parametrize("size", ["0", "x", "32x", "-4", "1x2x3", "big"])
def test_size_that_is_none_is_refused(size, folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command(folder, *BACKBONE, "--out", tmp_path / "out", f"--size={size}")
    assert "argument --size: must be a number of pixels, or HxW" in capsys.readouterr().err


def test_interrupted_run_says_that_it_goes_on(folder, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("omegamax.tasks.features.extract", stop)
    assert main(["features", *map(str, [folder, *BACKBONE, "--out", tmp_path / "out"])]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_bar_counts_pictures_on_the_standard_error(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with features._progress() as report:
        report("features", 0, 3)
        report("features", 2, 3)
    shown = capsys.readouterr()
    assert "features" in shown.err and "2/3" in shown.err and not shown.out
