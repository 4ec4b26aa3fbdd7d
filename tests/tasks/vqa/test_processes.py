"""Two processes against one with the doubled batch."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch
from small_runs import curve, same_weights, weights
from tests.tasks.vqa.runs import scenes

from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn

pytestmark = pytest.mark.slow

# Neither the training part nor the others can be dealt out evenly in batches; in validation one process has a batch
# more. Double precision: rounding is then all that may differ, and Adam does not make steps of it.
MORE = ["--data.samples=[26,9,7]", "--trainer.precision=64-true", "--model.network.output.kind=continuous_softmax"]


def launch(stage, *arguments):
    """As a user calls it: the first process starts the second."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = [sys.executable, "-m", "omegamax", "vqa", stage, *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=600, env=environment)


def both_of(out, *more, **trainer):
    """Arguments of a run in two processes."""
    return scenes(out, *more, devices=2, strategy="ddp", **trainer)


@pytest.fixture(scope="module")
def one(warm_processes):
    """Runs a stage in one process; what it printed."""

    def run(stage, *arguments):
        done = warm_processes.run(["-m", "omegamax", "vqa", stage, *arguments])
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def two(warm_processes):
    """Runs a stage in two processes that the first need not start, as a cluster does; what both printed."""

    def run(stage, out, *more, **trainer):
        arguments = ["-m", "omegamax", "vqa", stage, *both_of(out, *more, **trainer)]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "NODE_RANK": "0"}
        environments = [{**os.environ, **meeting, "LOCAL_RANK": str(rank)} for rank in (0, 1)]
        done = warm_processes.run_together([(arguments, environment) for environment in environments])
        assert [each.returncode for each in done] == [0, 0], done[0].stderr + done[1].stderr
        return "".join(each.stdout for each in done)

    return run


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory, one):
    alone, both = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    one("fit", *scenes(alone, *MORE, "--data.batch_size=8", devices=1))
    done = launch("fit", *both_of(both, *MORE))
    assert done.returncode == 0, done.stderr
    return alone, both


def test_losses_weights_and_measures_are_the_same(one_and_two):
    folders = one_and_two
    first, second = map(curve, folders)
    assert [point["step"] for point in first] == [4, 8, 12]
    for a, b in zip(first, second, strict=True):
        assert a == pytest.approx(b, rel=1e-6)
    alone, together = map(weights, folders)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        torch.testing.assert_close(value, together[name], rtol=1e-7, atol=1e-9, msg=name)
    assert any(not torch.equal(value, together[name]) for name, value in alone.items())  # it was not one process twice


def test_measures_count_each_sample_once(one_and_two, one, two, tmp_path):
    best = f"--ckpt_path={one_and_two[0]}/checkpoints/last.ckpt"
    loggers = [
        ["--trainer.logger=CSVLogger", f"--trainer.logger.save_dir={tmp_path / name}"] for name in ("one", "two")
    ]
    one("test", *scenes(one_and_two[0], *MORE, *loggers[0], best, devices=1))
    two("test", one_and_two[1], *MORE, *loggers[1], best)
    measures = {}
    for name in ("one", "two"):
        lines = next((tmp_path / name).rglob("metrics.csv")).read_text().splitlines()
        measures[name] = dict(zip(lines[0].split(","), map(float, lines[1].split(",")), strict=True))
    assert {"test_loss", "test_accuracy", "test_divergence"} <= measures["one"].keys()
    assert measures["two"] == pytest.approx(measures["one"], rel=1e-6)


def test_answers_of_all_processes_are_written_once_in_order(one_and_two, one, two):
    alone, both = one_and_two
    one("predict", *scenes(alone, *MORE, devices=1))
    printed = two("predict", both, *MORE)
    answers = [json.loads((out / "answers.json").read_text()) for out in (alone, both)]
    assert [entry["id"] for entry in answers[1]] == [f"scenes-0-test-{i}" for i in range(7)]
    assert [entry["answer"] for entry in answers[0]] == [entry["answer"] for entry in answers[1]]
    assert printed.count("7 answers") == 1


def test_two_processes_go_on_after_a_stop(one_and_two, two, tmp_path):
    two("fit", tmp_path, *MORE, max_epochs=2)
    two("fit", tmp_path, *MORE, "--ckpt_path=last")
    found, wanted = weights(tmp_path), weights(one_and_two[1])
    assert same_weights(found, wanted) and curve(tmp_path) == curve(one_and_two[1])


def test_hidden_image_and_frozen_network_train_in_two_processes(two, tmp_path):
    two("fit", tmp_path / "blind", "--model.blind=true", max_epochs=1)
    save_grid_cnn(GridCNN(8, (2, 2)), tmp_path / "cnn.safetensors")
    given = f"--model.cnn={tmp_path / 'cnn.safetensors'}"
    two("fit", tmp_path / "frozen", "--model.freeze_cnn=true", given, max_epochs=1)
    assert (tmp_path / "blind" / "model.safetensors").exists() and (tmp_path / "frozen" / "model.safetensors").exists()


def test_error_of_two_processes_ends_both_and_is_shown(tmp_path):
    done = launch("fit", *both_of(tmp_path, "--data.grid=[3,3]"))
    assert done.returncode != 0 and "data.grid is (3, 3)" in done.stderr and "Traceback" not in done.stderr
