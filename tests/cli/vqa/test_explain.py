"""``omegamax vqa explain``: new pictures of all sorts, and what is not one."""

import json
import shutil

import numpy as np
import pytest
import torch
from tasks.vqa.networks import scenes, write_runs
from tasks.vqa.runs import fit
from tests.cli.refusals import check_refusal

from omegamax.cli.main import main
from omegamax.data import Sample
from omegamax.data.pictures import decode, read_picture
from omegamax.data.vqa2 import write_grid
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.vqa import DaquarData, VQATask, read_checkpoint, write_safetensors
from omegamax.tasks.vqa.explain import explain

PIL = pytest.importorskip("PIL.Image", reason="reads pictures, for which pillow is not installed")
QUESTION = "what colour is the circle?"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """One photograph in every form that people have pictures in."""
    folder = tmp_path_factory.mktemp("pictures")
    colours = PIL.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))
    for name, mode in {"rgb": "RGB", "grey": "L", "alpha": "RGBA", "grey_alpha": "LA", "one_bit": "1"}.items():
        colours.convert(mode).save(folder / f"{name}.png")
    for name in ("photo.jpg", "photo.webp", "photo.bmp", "photo.tif", "photo.gif"):
        colours.save(folder / name)
    colours.convert("CMYK").save(folder / "print.jpg")
    colours.quantize(16).save(folder / "palette.png", transparency=bytes([0] * 8 + [255] * 8))
    PIL.fromarray(np.arange(900, dtype=np.uint16).reshape(30, 30) * 70).save(folder / "deep.png")
    for name, size in {"dot": (1, 1), "wide": (300, 3), "tall": (3, 300), "large": (2400, 1600)}.items():
        colours.resize(size).save(folder / f"{name}.png")
    turned = PIL.Exif()
    turned[0x0112] = 6  # the camera was held upright
    colours.save(folder / "turned.jpg", exif=turned, quality=95)
    return folder


def ask(picture, question, *checkpoints, out):
    return main(["vqa", "explain", str(picture), question, "--checkpoint", *map(str, checkpoints), "--out", str(out)])


def table(text):
    """Rows of the table by name: answers with their probabilities."""
    lines = text.split("\n\n")[0].splitlines()[1:]
    cells = [[cell for cell in line.split("  ") if cell] for line in lines]
    return {name.strip(): [cell.strip() for cell in rest] for name, *rest in cells}


def test_all_kinds_side_by_side_say_what_each_says_alone(runs, pictures, tmp_path, capsys):
    kinds = [name for name in runs if name != "language_only"]
    out = tmp_path / "new" / "where.png"
    assert ask(pictures / "rgb.png", QUESTION, *(runs[kind] for kind in kinds), out=out) == 0
    shown = capsys.readouterr()
    assert shown.err == "" and shown.out.endswith(f"Where they looked: {out}\n")
    said = table(shown.out)
    assert list(said) == [kind.replace("_", " ") for kind in kinds]
    sample = Sample(QUESTION, {}, "other", "x", image=read_picture(pictures / "rgb.png"))
    for kind in kinds:
        alone = explain(VQATask.load(runs[kind] / "model.safetensors"), sample, 3)
        assert said[kind.replace("_", " ")] == [f"{answer} {p:.2f}" for answer, p in alone.answers]
    height, width = decode(out.read_bytes(), "where").shape[1:]
    assert width > 4 * height > 400  # six panels of a picture that is wider than high


@pytest.mark.parametrize(
    "name",
    [
        *("rgb.png", "grey.png", "alpha.png", "grey_alpha.png", "one_bit.png", "palette.png", "deep.png"),
        *("photo.jpg", "photo.webp", "photo.bmp", "photo.tif", "photo.gif", "print.jpg", "turned.jpg"),
        *("dot.png", "wide.png", "tall.png", "large.png"),
    ],
)
def test_picture_of_any_form_is_read_and_drawn(runs, pictures, tmp_path, capsys, name):
    out = tmp_path / "where.png"
    assert ask(pictures / name, QUESTION, runs["softmax"], out=out) == 0
    assert list(table(capsys.readouterr().out)) == ["softmax"]
    assert 50_000 < decode(out.read_bytes(), "where")[0].numel() < 5_000_000


def test_camera_held_upright_turns_the_picture(pictures):
    turned, plain = (read_picture(pictures / name) for name in ("turned.jpg", "rgb.png"))
    assert turned.shape == (3, 60, 40)
    upright = plain.float().rot90(-1, (1, 2))
    assert (turned.float() - upright).abs().mean() < (turned.float() - upright.flip(1, 2)).abs().mean()


def test_checkpoint_may_be_a_file_and_names_tell_equal_kinds_apart(runs, pictures, tmp_path, capsys):
    other = shutil.copy(runs["softmax"] / "model.safetensors", tmp_path / "other.safetensors")
    assert ask(pictures / "rgb.png", QUESTION, runs["softmax"], other, out=tmp_path / "where") == 0
    shown = capsys.readouterr().out
    assert list(table(shown)) == [str(runs["softmax"]), str(other)]
    assert (tmp_path / "where.png").is_file() and "where.png\n" in shown


def test_network_that_sees_nothing_answers_and_is_not_drawn(runs, pictures, tmp_path, capsys):
    assert ask(pictures / "rgb.png", QUESTION, runs["language_only"], out=tmp_path / "where.png") == 0
    shown = capsys.readouterr().out
    assert list(table(shown)) == ["language only"] and "Where they looked" not in shown
    assert not (tmp_path / "where.png").exists()


def test_unknown_words_are_reported(runs, pictures, tmp_path, capsys):
    assert ask(pictures / "rgb.png", "is the zebra red?", runs["softmax"], out=tmp_path / "w.png") == 0
    assert capsys.readouterr().err == "softmax: words it was not trained with: zebra\n"


@pytest.fixture(scope="module")
def on_features(tmp_path_factory):
    torch.manual_seed(0)
    task = VQATask(scenes().vocabulary, MCANConfig.small(pixels=False, image_dim=24, layers=1)).eval()
    path = tmp_path_factory.mktemp("features") / "model.safetensors"
    write_safetensors(path, task.record, task.model.state_dict())
    return path


@pytest.mark.parametrize(("name", "grid"), [("grid.npz", (4, 4)), ("grid.pth", (3, 5))])
def test_network_on_features(on_features, tmp_path, capsys, name, grid):
    features = torch.randn(*grid, 24)
    write_grid(tmp_path / name, features)
    assert ask(tmp_path / name, QUESTION, on_features, out=tmp_path / "where.png") == 0
    wanted = explain(VQATask.load(on_features), Sample(QUESTION, {}, "other", "x", features=features), 3)
    assert table(capsys.readouterr().out)["softmax"] == [f"{answer} {p:.2f}" for answer, p in wanted.answers]
    assert (tmp_path / "where.png").is_file()


def test_features_are_drawn_on_the_picture_given(on_features, pictures, tmp_path):
    write_grid(tmp_path / "grid.npz", torch.randn(4, 4, 24))
    drawn = []
    for more in ([], ["--picture", str(pictures / "rgb.png")]):
        out = tmp_path / f"{len(drawn)}.png"
        given = [str(tmp_path / "grid.npz"), QUESTION, "--checkpoint", str(on_features), "--out", str(out)]
        assert main(["vqa", "explain", *given, *more]) == 0
        drawn.append(decode(out.read_bytes(), "where").float())
    grey, coloured = ((each.amax(0) - each.amin(0)).mean() for each in drawn)
    assert drawn[1].shape[1] < drawn[0].shape[1]  # 40 x 60 pixels, in place of a square
    assert coloured > 2 * grey


def test_features_are_drawn_on_the_picture_of_the_data(on_features, pictures, tmp_path, capsys):
    (tmp_path / "images").mkdir()
    shutil.copy(pictures / "rgb.png", tmp_path / "images" / "image3.png")
    task = VQATask.load(on_features)
    task.data_settings = DaquarData(str(tmp_path)).settings
    write_safetensors(tmp_path / "model.safetensors", task.record, task.model.state_dict())
    for name, found in (("image3.npz", True), ("image3.png.npz", True), ("image4.npz", False)):
        write_grid(tmp_path / name, torch.randn(4, 4, 24))
        out = tmp_path / "where.png"
        assert ask(tmp_path / name, QUESTION, tmp_path / "model.safetensors", out=out) == 0
        wanted = "" if found else "no picture image4 was found: drawn on grey; give the picture with --picture\n"
        assert capsys.readouterr().err == wanted
        height, width = decode(out.read_bytes(), "where").shape[1:]
        assert (height < 0.5 * width) == found  # a picture of 40 x 60 pixels, or a square


def test_run_that_was_stopped_is_read_from_its_checkpoint(pictures, tmp_path, capsys):
    run = fit(tmp_path / "run", max_epochs=1)
    capsys.readouterr()
    said = []
    for gone in (None, "model.safetensors", "checkpoints/best.ckpt"):
        if gone:
            (run / gone).unlink()
        assert ask(pictures / "rgb.png", QUESTION, run, out=tmp_path / "w.png") == 0
        said.append(table(capsys.readouterr().out)["softmax"])
    assert len(said[0]) == 3 and said[0] == said[1] == said[2]  # there was one validation


@pytest.mark.parametrize("question", ["", "   ", "?!"])
def test_question_without_words(runs, pictures, tmp_path, capsys, question):
    code = ask(pictures / "rgb.png", question, runs["softmax"], out=tmp_path / "w.png")
    check_refusal(capsys, code, "has no words; ask one")
    assert not (tmp_path / "w.png").exists()


@pytest.mark.parametrize("content", [b"", b"this is a letter\n", "cut"])
def test_image_that_is_not_an_image(runs, pictures, tmp_path, capsys, content):
    path = tmp_path / "photo.png"
    path.write_bytes((pictures / "rgb.png").read_bytes()[:400] if content == "cut" else content)
    check_refusal(capsys, ask(path, QUESTION, runs["softmax"], out=tmp_path / "w.png"), path, "not a picture", "again")


def test_image_that_is_not_there(runs, tmp_path, capsys):
    missing = tmp_path / "no.png"
    check_refusal(capsys, ask(missing, QUESTION, runs["softmax"], out=tmp_path / "w.png"), f"{missing} does not exist")
    check_refusal(
        capsys, ask(tmp_path, QUESTION, runs["softmax"], out=tmp_path / "w.png"), tmp_path, "give a picture file"
    )


def test_picture_for_a_network_on_features_and_features_of_another_kind(on_features, pictures, tmp_path, capsys):
    code = ask(pictures / "rgb.png", QUESTION, on_features, out=tmp_path / "w.png")
    check_refusal(capsys, code, pictures / "rgb.png", "give a file of features")
    write_grid(tmp_path / "other.npz", torch.randn(4, 4, 7))
    code = ask(tmp_path / "other.npz", QUESTION, on_features, out=tmp_path / "w.png")
    check_refusal(capsys, code, tmp_path / "other.npz", "takes 24 features of a cell, and there are 7")
    (tmp_path / "cut.pth").write_bytes(b"PK")
    code = ask(tmp_path / "cut.pth", QUESTION, on_features, out=tmp_path / "w.png")
    check_refusal(capsys, code, tmp_path / "cut.pth", "damaged", "again")


@pytest.fixture
def broken(runs, tmp_path):
    """Makes files that are no checkpoints, by name."""
    from safetensors.torch import save_file

    file = runs["softmax"] / "model.safetensors"
    record, weights = read_checkpoint(file)

    def make(name):
        path = tmp_path / name
        if name == "text.ckpt":
            path.write_text("no checkpoint")
        elif name == "other.ckpt":
            torch.save({"epoch": 3}, path)
        elif name == "cut.safetensors":
            path.write_bytes(file.read_bytes()[:-50])
        elif name == "other.safetensors":
            save_file({"weight": torch.ones(2)}, path)
        elif name == "newer.safetensors":
            save_file(weights, path, {"omegamax.vqa": json.dumps({**record.to_dict(), "format": 99})})
        elif name == "misfit.safetensors":
            network = record.network.replace(hidden_dim=32).to_dict()
            save_file(weights, path, {"omegamax.vqa": json.dumps({**record.to_dict(), "network": network})})
        elif name == "empty":
            path.mkdir()
        return path

    return make


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("text.ckpt", "damaged, or no checkpoint of plain data"),
        ("other.ckpt", "give a file that `omegamax vqa fit` wrote"),
        ("cut.safetensors", "damaged or no safetensors file"),
        ("other.safetensors", "give a file that `omegamax vqa fit` wrote"),
        ("newer.safetensors", "has format 99, this version reads 1; train again, or change version"),
        ("misfit.safetensors", "get it again"),
        ("empty", "holds no trained network"),
        ("missing", "does not exist; give a file that `omegamax vqa fit` wrote"),
    ],
)
def test_checkpoint_that_is_none(broken, pictures, tmp_path, capsys, name, remedy):
    path = broken(name)
    check_refusal(capsys, ask(pictures / "rgb.png", QUESTION, path, out=tmp_path / "w.png"), path, remedy)


def test_same_network_twice_is_named(runs, pictures, tmp_path, capsys):
    code = ask(pictures / "rgb.png", QUESTION, runs["tvmax"], runs["tvmax"], out=tmp_path / "w.png")
    check_refusal(capsys, code, "named twice", runs["tvmax"])


def test_place_that_cannot_be_written(runs, pictures, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code = ask(pictures / "rgb.png", QUESTION, runs["softmax"], out=tmp_path / "file" / "w.png")
    shown = capsys.readouterr().err
    assert code == 2 and str(tmp_path / "file") in shown and shown.count("\n") == 1
