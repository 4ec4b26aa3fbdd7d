"""``omegamax mil``: runs, their files, what is refused, and the picture."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
import torch
import yaml
from small_runs import check_goes_on, curve, options, trainer
from tests.cli.refusals import refused
from tests.tasks.mil.sets import write_benchmark, write_digits

from omegamax.cli.main import main
from omegamax.tasks.mil import MILTask

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    return write_benchmark(tmp_path_factory.mktemp("benchmark"))


def of_digits(folder, out, *more):
    data = {"folder": folder, "bags": "[16,8,6]", "held_out": 40, "batch_size": 4, "mean": 4}
    return [*options("data", data), "--model.dim=8", "--model.omega=sparsemax", *run_in(out), *more]


def of_benchmark(folder, out, *more):
    data = {"folder": folder, "folds": 4, "batch_size": 5}
    return ["--data=MILBenchmarkData", *options("data", data), "--model.dim=8", *run_in(out), *more]


def run_in(out):
    return [*trainer(2), f"--out={out}"]


@pytest.fixture(scope="module")
def done(tmp_path_factory, digits):
    """A run on bags of digits."""
    out = tmp_path_factory.mktemp("run") / "sparsemax"
    assert main(["mil", "fit", *of_digits(digits, out)]) == 0
    return out


def test_run_leaves_its_files(done):
    files = {str(path.relative_to(done)) for path in done.rglob("*") if path.is_file()}
    checkpoints = {"checkpoints/best.ckpt", "checkpoints/last.ckpt"}
    assert files == {"config.yaml", "curve.json", "model.safetensors", "log/version_0/metrics.csv", *checkpoints}
    assert [point["step"] for point in curve(done)] == [4, 8]
    wanted = {"train_loss", "val_loss", "val_accuracy", "val_auc", "val_zero", "val_inside"}
    assert all(wanted <= point.keys() for point in curve(done))


def test_saved_settings_reproduce_the_run(done, tmp_path):
    assert main(["mil", "fit", f"--config={done / 'config.yaml'}", f"--out={tmp_path}"]) == 0
    assert curve(tmp_path) == curve(done)
    assert yaml.safe_load((done / "config.yaml").read_text())["trainer"]["gradient_clip_val"] == 1.0


def test_run_that_was_stopped_goes_on_as_if_it_had_not(done, digits, tmp_path):
    check_goes_on(MILTask, partial(of_digits, digits), tmp_path, done, 7)


def test_trained_network_is_measured(done, capsys):
    assert main(["mil", "test", f"--config={done / 'config.yaml'}"]) == 0
    shown = capsys.readouterr().out
    assert all(f"test_{name}" in shown for name in ("accuracy", "auc", "loss", "zero", "inside"))
    assert main(["mil", "validate", f"--config={done / 'config.yaml'}"]) == 0
    best = max(reversed(curve(done)), key=lambda point: point["val_auc"])  # the last of equal ones
    (loss,) = re.findall(r"val_loss\W+([\d.]+)", capsys.readouterr().out)
    assert float(loss) == pytest.approx(best["val_loss"], rel=1e-5)


def test_predictions_have_the_weights_of_every_instance(done, capsys):
    assert main(["mil", "predict", f"--config={done / 'config.yaml'}"]) == 0
    assert f"6 answers: {done / 'answers.json'}" in capsys.readouterr().out
    found = json.loads((done / "answers.json").read_text())
    assert [entry["id"] for entry in found] == [f"test-1-{number}" for number in range(6)]
    for entry in found:
        assert entry["answer"] == int(entry["probability"] > 0.5)
        assert sum(entry["weights"]) == pytest.approx(1, abs=1e-5) and len(entry["weights"]) >= 2


def test_both_kinds_of_file_give_the_same_network(done):
    best, shared = MILTask.load(done / "checkpoints/best.ckpt"), MILTask.load(done / "model.safetensors")
    assert best.network == shared.network and best.network["omega"] == "sparsemax" and not shared.training
    bag, mask = torch.rand(2, 3, 1, 28, 28), torch.ones(2, 3, dtype=torch.bool)
    with torch.no_grad():
        assert torch.equal(best.model(bag, mask).logits, shared.model(bag, mask).logits)
    assert shared.data_settings["class"] == "MNISTBagsData" and shared.data_settings["bags"] == [16, 8, 6]


def test_benchmark_tells_the_network_its_features(benchmark, tmp_path):
    more = ["--model.omega=k_subsets", '--model.options={"k": 2}', "--data.fold=3"]  # bags of one among them
    assert main(["mil", "fit", *of_benchmark(benchmark, tmp_path, *more)]) == 0
    task = MILTask.load(tmp_path / "model.safetensors")
    assert task.network["features"] == 6 and task.network["options"] == {"k": 2} and task.data_settings["fold"] == 3


@pytest.mark.parametrize(
    "setting, said",
    [
        ("--model.omega=sharpmax", "sharpmax"),
        ("--model.rate=0", "rate must be a finite number > 0"),
        ("--model.heads=3", "hidden_dim must be a multiple of num_heads=3"),
        ("--data.positives=0", "positives must be an integer >= 1"),
        ("--data.held_out=0", "held_out must be an integer from 1"),
        ("--data.folder=/no/digits", "/no/digits does not exist"),
        ("--data=Bags", "there is no such set; known: MNISTBagsData, MILBenchmarkData"),
    ],
)
def test_settings_that_make_no_sense_are_named(digits, tmp_path, capsys, setting, said):
    assert said in refused(capsys, "mil", "fit", *of_digits(digits, tmp_path, setting))


def test_checkpoint_of_another_network_is_refused_by_setting(done, digits, tmp_path, capsys):
    checkpoint = f"--ckpt_path={done / 'checkpoints/best.ckpt'}"
    said = refused(capsys, "mil", "test", *of_digits(digits, tmp_path, "--model.omega=softmax", checkpoint))
    assert "the checkpoint is of another configuration" in said and "omega: 'sparsemax', not 'softmax'" in said


def test_files_that_are_no_networks_are_named(tmp_path, capsys):
    torch.save({"state_dict": {}, "vqa": {}}, tmp_path / "other.ckpt")
    assert "is no checkpoint of `omegamax mil`" in refused(capsys, "mil", "explain", str(tmp_path / "other.ckpt"))
    torch.save({"state_dict": {}, "mil": {"format": 9, "network": {}}}, tmp_path / "new.ckpt")
    assert "has format 9, this version reads 1" in refused(capsys, "mil", "explain", str(tmp_path / "new.ckpt"))
    assert "holds no trained network" in refused(capsys, "mil", "explain", str(tmp_path))


def test_explain_tells_and_draws_which_instances_were_picked(done, tmp_path, capsys):
    out = tmp_path / "picture.png"
    assert main(["mil", "explain", str(done), str(done / "model.safetensors"), "--bags", "1", "2", f"--out={out}"]) == 0
    shown = capsys.readouterr().out
    assert "test-1-1" in shown and "positive" in shown and shown.count("sparsemax") == 4 and str(out) in shown
    assert out.stat().st_size > 10_000
    assert "--bags must be below 6" in refused(capsys, "mil", "explain", str(done), "--bags", "6")


def test_explain_finds_the_set_where_it_is_now(done, digits, tmp_path, capsys):
    task = MILTask.load(done / "model.safetensors")
    task.data_settings["folder"] = "/gone"
    torch.save(
        {"state_dict": {f"model.{k}": v for k, v in task.model.state_dict().items()}, "mil": task.describe()},
        tmp_path / "a.ckpt",
    )
    arguments = ["explain", str(tmp_path / "a.ckpt"), f"--out={tmp_path / 'b.png'}"]
    assert "/gone does not exist" in refused(capsys, "mil", *arguments)
    assert main(["mil", *arguments, f"--folder={digits}"]) == 0


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["mil", "--help"])
    shown = capsys.readouterr().out
    assert exit.value.code == 0 and all(
        f"    {name} " in shown for name in ("fit", "validate", "test", "predict", "explain")
    )
