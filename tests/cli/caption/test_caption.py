"""``omegamax caption``: runs, their files, what is refused, captions of pictures and the demonstration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import check_goes_on, curve, trainer
from tests.cli.refusals import refused

from omegamax.cli.main import main
from omegamax.data.captions import CaptionVocabulary
from omegamax.models.captioning import CaptionConfig
from omegamax.tasks.captioning import CaptionPredictions, CaptionTask
from omegamax.tasks.weights_file import write_weights

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = {"word_dim": 8, "hidden_dim": 8, "image_dim": 8, "feature_dim": 8, "score_dim": 8, "grid": "[2,3]"}


def run_in(out, *more, kind="tvmax"):
    sets = ["--data.samples=[6,3,4]", "--data.batch_size=10", "--data.image_size=32", "--data.grid=[2,3]"]
    network = [f"--model.network.{name}={value}" for name, value in SIZES.items()]
    network += [f"--model.network.attention.kind={kind}", "--model.rate.peak=0.01", "--model.max_length=6"]
    return [*sets, *network, *trainer(2), f"--out={out}", *more]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run on the embedded set."""
    out = tmp_path_factory.mktemp("run") / "tvmax"
    assert main(["caption", "fit", *run_in(out)]) == 0
    return out


def test_run_leaves_its_files(done):
    files = {str(path.relative_to(done)) for path in done.rglob("*") if path.is_file()}
    assert {"config.yaml", "curve.json", "model.safetensors", "checkpoints/last.ckpt"} <= files
    wanted = {"train_loss", "val_loss", "val_bleu1", "val_bleu4", "val_inside", "val_rep", "val_words"}
    assert [point["step"] for point in curve(done)] == [3, 6] and all(wanted <= point.keys() for point in curve(done))


def test_of_networks_that_score_the_same_the_last_is_kept(done):
    assert [point["val_bleu4"] for point in curve(done)] == [0, 0]  # six pictures and two epochs teach no four words
    best = torch.load(done / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["global_step"] == 6
    learnt, kept = best["state_dict"], CaptionTask.load(done / "model.safetensors").model.state_dict()
    assert all(torch.equal(learnt[f"model.{name}"], value) for name, value in kept.items())


def test_run_that_was_stopped_goes_on_as_if_it_had_not(done, tmp_path):
    check_goes_on(CaptionTask, run_in, tmp_path, done, 5)


def test_captions_are_written_to_files_that_are_read_again(done, capsys):
    assert main(["caption", "test", f"--config={done / 'config.yaml'}"]) == 0
    shown = capsys.readouterr().out
    assert all(f"test_{name}" in shown for name in ("bleu4", "loss", "rep", "rate", "inside", "exact"))
    assert main(["caption", "predict", f"--config={done / 'config.yaml'}"]) == 0
    assert f"4 captions: {done / 'captions.jsonl'}" in capsys.readouterr().out
    found = CaptionPredictions.load(done)
    assert found.images == tuple(f"scenes-0-test-{i}" for i in range(4))
    for each in found:
        assert len(each.references) == 5 and each.caption == " ".join(each.tokens) and len(each.tokens) <= 6
        assert each.maps.shape == (len(each.tokens), 2, 3) and each.log_probability <= 0
        assert np.allclose(each.maps.sum((1, 2)), 1, atol=2e-3)


@pytest.mark.parametrize(
    "setting, said",
    [
        ("--model.network.attention.kind=sharpmax", "sharpmax"),
        ("--model.network.decoder=gru", "decoder must be one of 'lstm', 'transformer'"),
        ("--model.beam=0", "beam must be"),
        ("--data.grid=[4,4]", "data.grid is (4, 4) and model.network.grid (2, 3)"),
        ("--model.network.pixels=false", "give --data.features"),
        ("--data=Postcards", "there is no such set; known: SceneCaptionsData"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, capsys, setting, said):
    assert said in refused(capsys, "caption", "fit", *run_in(tmp_path, setting))


def test_explain_writes_a_strip_of_several_networks(done, tmp_path, capsys):
    other = tmp_path / "softmax"
    assert main(["caption", "fit", *run_in(other, "--trainer.max_epochs=1", kind="softmax")]) == 0
    picture, out = tmp_path / "photo.jpg", tmp_path / "strip.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(picture)
    capsys.readouterr()
    asked = ["caption", "explain", str(picture), "--checkpoint", str(done), str(other), "--out", str(out)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["attention", "caption", "log-probability"]
    assert lines[1].startswith("tvmax ") and lines[2].startswith("softmax ")
    assert out.read_bytes()[:4] == b"\x89PNG"
    assert main([*asked, "--zeros", "transparent", "--beam", "1"]) == 0
    picture.write_bytes(b"no picture")
    assert "is damaged or not a picture" in refused(capsys, "caption", *asked[1:])
    assert "does not exist" in refused(capsys, "caption", "explain", tmp_path / "no.jpg", *asked[3:])
    np.savez(tmp_path / "cells.npz", x=np.zeros((4, 5), np.float32))
    assert "features must be [h, w, 8]" in refused(capsys, "caption", "explain", tmp_path / "cells.npz", *asked[3:])


def test_networks_on_the_same_features_have_them_made_once(tmp_path, monkeypatch):
    seen = []

    class Cells:
        def __init__(self, folder):
            seen.append(str(folder))

        def __call__(self, image):
            return torch.zeros(2, 3, 4)

    monkeypatch.setattr("omegamax.tasks.features.FolderFeatures", Cells)
    config = CaptionConfig.small(image_dim=4, pixels=False, grid=(2, 3))
    for name, folder in (("a", "one"), ("b", "one"), ("c", "two")):
        task = CaptionTask(CaptionVocabulary(["a", "dog"]), config)
        task.data_settings = {"features": folder}
        write_weights(tmp_path / name / "model.safetensors", task.kind, task.describe(), task.model.state_dict())
    Image.new("RGB", (8, 6)).save(tmp_path / "photo.png")
    runs = [str(tmp_path / name) for name in "abc"]
    asked = ["caption", "explain", str(tmp_path / "photo.png"), "--checkpoint", *runs]
    assert main([*asked, "--out", str(tmp_path / "strip.png")]) == 0
    assert seen == ["one", "two"]


@pytest.mark.slow
def test_demo_ends_with_a_strip(tmp_path, capsys, monkeypatch):
    few = {"samples": (64, 8, 8), "pictures": 64, "feature_steps": 3}
    monkeypatch.setattr("omegamax.cli.caption.demo.make_recipe", lambda kind, options: kind(steps=options.steps, **few))
    assert main(["caption", "demo", "--out", str(tmp_path / "demo"), "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    assert "continuous sparsemax" in shown and "caption explain" in shown
    assert (tmp_path / "demo" / "strip.png").is_file() and (tmp_path / "demo" / "picture.png").is_file()
