"""A network that looks through a CNN that is never trained is not trained: one is made first, or asked for."""

import pytest
from small_runs import weights
from tests.tasks.vqa.runs import scenes

from omegamax.cli.main import main
from omegamax.cli.vqa import _cnn
from omegamax.models.grid_cnn_file import load_grid_cnn

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, value in {"STEPS": 2, "SAMPLES": 64, "UNSEEN": 8}.items():
        monkeypatch.setattr(_cnn, name, value)


def test_frozen_cnn_is_trained_first_and_kept_beside_the_run(tmp_path, capsys):
    frozen = scenes(tmp_path, "--model.freeze_cnn=true", max_epochs=1)
    assert main(["vqa", "fit", *frozen]) == 0
    said = capsys.readouterr().out
    assert "No --model.cnn was given" in said and str(tmp_path / "cnn.safetensors") in said
    made = load_grid_cnn(tmp_path / "cnn.safetensors").state_dict()
    found = weights(tmp_path)
    assert all((found[f"model.cnn.{name}"] == value).all() for name, value in made.items())
    again = [f"--config={tmp_path / 'config.yaml'}", f"--out={tmp_path / 'again'}"]
    assert main(["vqa", "fit", *again]) == 0 and "No --model.cnn" not in capsys.readouterr().out
    assert not (tmp_path / "again" / "cnn.safetensors").exists()
    other = weights(tmp_path / "again")
    assert all((other[name] == value).all() for name, value in found.items())  # the settings saved make the same run


def test_cnn_that_is_there_is_taken(tmp_path, capsys):
    frozen = scenes(tmp_path, "--model.freeze_cnn=true", "--ckpt_path=last", max_epochs=1)
    assert main(["vqa", "fit", *frozen]) == 0
    before = (tmp_path / "cnn.safetensors").read_bytes()
    capsys.readouterr()
    assert main(["vqa", "fit", *frozen, "--trainer.max_epochs=2"]) == 0
    assert "No --model.cnn" not in capsys.readouterr().out
    assert (tmp_path / "cnn.safetensors").read_bytes() == before


@pytest.mark.parametrize("name", ["EasyVQAData", "ShapesData", "NLVRData", "DaquarData"])
def test_other_sets_ask_for_one(tmp_path, capsys, name):
    given = ["--data", name, "--data.folder", str(tmp_path), "--out", str(tmp_path / "run")]
    assert main(["vqa", "fit", *given, "--model.freeze_cnn", "true"]) == 2
    assert f"{name} needs --model.cnn FILE" in capsys.readouterr().err


def test_blind_network_needs_none(tmp_path, capsys):
    assert main(["vqa", "fit", *scenes(tmp_path, "--model.freeze_cnn=true", "--model.blind=true", max_epochs=1)]) == 0
    assert not (tmp_path / "cnn.safetensors").exists()
