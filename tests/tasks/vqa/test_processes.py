"""Two processes against one with the doubled batch."""

import json
import os
import subprocess
import sys

import pytest
import torch
from tests.tasks.vqa.runs import curve, same_weights, scenes, weights

from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn

pytestmark = pytest.mark.slow

# Neither the training part nor the others can be dealt out evenly in batches; in validation one process has a batch
# more. Double precision: rounding is then all that may differ, and Adam does not make steps of it.
MORE = ["--data.samples=[26,9,7]", "--trainer.precision=64-true", "--model.network.output.kind=continuous_softmax"]


def command(stage, *arguments):
    """As a user calls it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = [sys.executable, "-m", "omegamax", "vqa", stage, *arguments]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def two(stage, out, *more, **trainer):
    return command(stage, *scenes(out, *more, devices=2, strategy="ddp", **trainer))


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    one, both = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    command("fit", *scenes(one, *MORE, "--data.batch_size=8", devices=1))
    two("fit", both, *MORE)
    return one, both


def test_losses_weights_and_measures_are_the_same(one_and_two):
    one, both = one_and_two
    assert [point["step"] for point in curve(one)] == [4, 8, 12]
    for a, b in zip(curve(one), curve(both), strict=True):
        assert a == pytest.approx(b, rel=1e-6)
    alone, together = weights(one), weights(both)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        torch.testing.assert_close(value, together[name], rtol=1e-7, atol=1e-9, msg=name)
    assert any(not torch.equal(value, together[name]) for name, value in alone.items())  # it was not one process twice


def test_measures_count_each_sample_once(one_and_two, tmp_path):
    measures = {}
    for name, out in zip(("one", "two"), one_and_two, strict=True):
        logger = ["--trainer.logger=CSVLogger", f"--trainer.logger.save_dir={tmp_path / name}"]
        best = [f"--ckpt_path={one_and_two[0]}/checkpoints/last.ckpt"]
        if name == "one":
            command("test", *scenes(out, *MORE, *logger, *best, devices=1))
        else:
            two("test", out, *MORE, *logger, *best)
        lines = next((tmp_path / name).rglob("metrics.csv")).read_text().splitlines()
        measures[name] = dict(zip(lines[0].split(","), map(float, lines[1].split(",")), strict=True))
    assert {"test_loss", "test_accuracy", "test_divergence"} <= measures["one"].keys()
    assert measures["two"] == pytest.approx(measures["one"], rel=1e-6)


def test_answers_of_all_processes_are_written_once_in_order(one_and_two):
    one, both = one_and_two
    command("predict", *scenes(one, *MORE, devices=1))
    done = two("predict", both, *MORE)
    answers = [json.loads((out / "answers.json").read_text()) for out in (one, both)]
    assert [entry["id"] for entry in answers[1]] == [f"scenes-0-test-{i}" for i in range(7)]
    assert [entry["answer"] for entry in answers[0]] == [entry["answer"] for entry in answers[1]]
    assert done.stdout.count("7 answers") == 1


def test_two_processes_go_on_after_a_stop(one_and_two, tmp_path):
    two("fit", tmp_path, *MORE, max_epochs=2)
    two("fit", tmp_path, *MORE, "--ckpt_path=last")
    found, wanted = weights(tmp_path), weights(one_and_two[1])
    assert same_weights(found, wanted) and curve(tmp_path) == curve(one_and_two[1])


def test_hidden_image_and_frozen_network_train_in_two_processes(tmp_path):
    two("fit", tmp_path / "blind", "--model.blind=true", max_epochs=1)
    save_grid_cnn(GridCNN(8, (2, 2)), tmp_path / "cnn.safetensors")
    given = f"--model.cnn={tmp_path / 'cnn.safetensors'}"
    two("fit", tmp_path / "frozen", "--model.freeze_cnn=true", given, max_epochs=1)
    assert (tmp_path / "blind" / "model.safetensors").exists() and (tmp_path / "frozen" / "model.safetensors").exists()


def test_error_of_two_processes_ends_both_and_is_shown(tmp_path):
    whole = [sys.executable, "-m", "omegamax", "vqa", "fit"]
    arguments = scenes(tmp_path, "--data.grid=[3,3]", devices=2, strategy="ddp")
    done = subprocess.run([*whole, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode != 0 and "data.grid is (3, 3)" in done.stderr and "Traceback" not in done.stderr
