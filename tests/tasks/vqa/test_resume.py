"""Runs that were stopped, and go on as if they had not been."""

import os
import pickle
import signal

import pytest
import torch
from small_runs import curve, same_weights, weights
from tests.tasks.vqa.runs import fit, scenes

from omegamax.cli.vqa.application import VQA
from omegamax.tasks.checkpoint_io import PlainCheckpointIO
from omegamax.tasks.vqa import VQATask

pytestmark = pytest.mark.usefixtures("one_thread")

# 6 batches in an epoch. Validation at the end of each, within it, and without regard to it.
INTERVALS = {
    "epoch": {},
    "half": {"val_check_interval": 0.5},
    "batches": {"val_check_interval": 4},
    "steps": {"val_check_interval": 5, "check_val_every_n_epoch": "null", "max_steps": 16, "max_epochs": "null"},
    "epochs and steps": {"max_steps": 16, "max_epochs": 5},
    "second epoch": {"check_val_every_n_epoch": 2, "max_epochs": 4},
}


class Stop(Exception):
    pass


def stop_at(monkeypatch, step):
    """Have training fail in the middle of a step, once; and note what samples it sees."""
    seen, whole = [], VQATask.training_step

    def training_step(self, batch, index):
        seen.append((self.trainer.current_epoch, *batch["id"]))
        if len(seen) == step:
            raise Stop
        return whole(self, batch, index)

    monkeypatch.setattr(VQATask, "training_step", training_step)
    return seen


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Each kind of run as it is when nothing happens, made once."""
    made = {}

    def make(interval, *more):
        key = interval, more
        if key not in made:
            made[key] = fit(tmp_path_factory.mktemp("whole"), *more, **INTERVALS[interval])
        return made[key]

    return make


QUICK = [("half", 11), ("steps", 11)]
MORE = [
    ("epoch", 11),
    ("epochs and steps", 14),
    ("batches", 11),
    ("half", 7),
    ("half", 13),
    ("steps", 7),
    ("epochs and steps", 11),
    ("second epoch", 15),
]
STOPS = [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)]


@pytest.mark.parametrize("interval, step", STOPS)
def test_run_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch, uninterrupted, interval, step):
    wanted = uninterrupted(interval)
    with monkeypatch.context() as patch:
        before = stop_at(patch, step)
        with pytest.raises(Stop):
            VQA.run_stage("fit", scenes(tmp_path, **INTERVALS[interval]))
    with monkeypatch.context() as patch:
        after = stop_at(patch, 0)
        assert VQA.run_stage("fit", scenes(tmp_path, "--ckpt_path=last", **INTERVALS[interval])) == 0
    assert (tmp_path / "curve.json").read_text() == (wanted / "curve.json").read_text()
    assert same_weights(weights(tmp_path), weights(wanted))
    assert same_weights(weights(tmp_path, "best"), weights(wanted, "best"))
    total = INTERVALS[interval].get("max_steps", 6 * INTERVALS[interval].get("max_epochs", 3))
    lost = len(before) + len(after) - total
    assert 1 <= lost <= 6  # no more than one interval
    seen = before[: len(before) - lost] + after
    for epoch in range(2):  # each sample once, in epochs that were whole
        samples = [name for at, *batch in seen if at == epoch for name in batch]
        assert len(samples) == 24 and len(set(samples)) == 24


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ("--model.network.dropout=0.5",),
        pytest.param(("--model.network.output.kind=multimodal",), marks=pytest.mark.slow),
    ],
)
def test_random_numbers_go_on_too(tmp_path, monkeypatch, uninterrupted, more):
    wanted = uninterrupted("half", *more)
    with monkeypatch.context() as patch:
        stop_at(patch, 11)
        with pytest.raises(Stop):
            VQA.run_stage("fit", scenes(tmp_path, *more, **INTERVALS["half"]))
    assert VQA.run_stage("fit", scenes(tmp_path, *more, "--ckpt_path=last", **INTERVALS["half"])) == 0
    assert curve(tmp_path) == curve(wanted) and same_weights(weights(tmp_path), weights(wanted))


KILLED = """
import os, signal, sys
from omegamax.cli.vqa.application import VQA
from omegamax.tasks.vqa import VQATask
whole, count = VQATask.training_step, 0
def training_step(self, batch, index):
    global count
    count += 1
    if count == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, batch, index)
VQATask.training_step = training_step
VQA.run_stage("fit", sys.argv[1:])
"""


@pytest.mark.slow
def test_killed_process_loses_one_validation_interval(tmp_path, uninterrupted, warm_processes):
    wanted = uninterrupted("half")
    done = warm_processes.run(["-c", KILLED, *scenes(tmp_path, **INTERVALS["half"])])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [point["step"] for point in curve(tmp_path)] == [3, 6, 9]
    state = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert state["global_step"] == 9
    fit(tmp_path, "--ckpt_path=last", **INTERVALS["half"])
    assert curve(tmp_path) == curve(wanted) and same_weights(weights(tmp_path), weights(wanted))


def test_last_checkpoint_is_written_where_it_is_not_the_best(tmp_path, monkeypatch):
    scores = iter([0.5, 0.9, 0.1, 0.2])
    log = VQATask.log

    def worse(self, name, value, **settings):
        log(self, name, next(scores) if name == "val_accuracy" else value, **settings)

    monkeypatch.setattr(VQATask, "log", worse)
    fit(tmp_path, max_epochs=4, num_sanity_val_steps=0)
    steps = {
        name: torch.load(tmp_path / "checkpoints" / f"{name}.ckpt", weights_only=True)["global_step"]
        for name in ("best", "last")
    }
    assert steps == {"best": 12, "last": 24}


def test_checkpoint_that_is_being_written_leaves_the_one_before(tmp_path, monkeypatch):
    path, files = tmp_path / "last.ckpt", PlainCheckpointIO("vqa")
    files.save_checkpoint({"vqa": {}, "state_dict": {}, "step": 1}, path)
    save = torch.save

    def fail(content, place):
        save(content, place)
        os.truncate(place, 100)
        raise Stop

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(Stop):
        files.save_checkpoint({"vqa": {}, "state_dict": {}, "step": 2}, path)
    assert files.load_checkpoint(path)["step"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["last.ckpt"]


class Code:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_checkpoint_with_code_is_refused_and_not_run(tmp_path, uninterrupted, capsys, stage):
    content = torch.load(uninterrupted("epoch") / "checkpoints" / "last.ckpt", weights_only=True)
    path, trace = tmp_path / "other.ckpt", tmp_path / "code-ran"
    torch.save({**content, "callbacks": {"x": Code(str(trace))}}, path)
    assert VQA.run_stage(stage, scenes(tmp_path, f"--ckpt_path={path}")) == 2
    shown = capsys.readouterr().err
    assert f"{path} is damaged, or no checkpoint of plain data" in shown and "weights_only" not in shown.split("(")[0]
    assert not trace.exists()
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
    assert not trace.exists()


def test_checkpoints_hold_plain_data_alone(uninterrupted):
    def plain(value):
        if isinstance(value, dict):
            return all(plain(key) and plain(each) for key, each in value.items())
        if isinstance(value, (list, tuple)):
            return all(map(plain, value))
        return value is None or type(value) in (bool, int, float, str, torch.Tensor)

    content = torch.load(uninterrupted("half") / "checkpoints" / "last.ckpt", weights_only=True)
    odd = {key for key, value in content.items() if not plain(value)}
    assert not odd


@pytest.mark.parametrize(
    "change, said",
    [
        ("--model.network.hidden_dim=16", "hidden_dim: 8, not 16"),
        ("--model.network.output.kind=tvmax", "output.kind: 'softmax', not 'tvmax'"),
        ("--model.loss=sparsemax", "loss: 'bce', not 'sparsemax'"),
        ("--model.blind=true", "blind: False, not True"),
        ("--data.shapes=[circle,square,star]", "vocabulary: "),
    ],
)
def test_checkpoint_of_another_configuration_is_refused_by_setting(tmp_path, uninterrupted, capsys, change, said):
    last = uninterrupted("epoch") / "checkpoints" / "last.ckpt"
    for stage in ("fit", "test"):
        assert VQA.run_stage(stage, scenes(tmp_path, change, f"--ckpt_path={last}")) == 2
        shown = capsys.readouterr().err
        assert "the checkpoint is of another configuration" in shown and said in shown and "Traceback" not in shown


def test_middle_of_an_epoch_is_not_taken_up_with_other_batches(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(Stop):
            VQA.run_stage("fit", scenes(tmp_path, **INTERVALS["half"]))
    more = ["--ckpt_path=last", "--data.batch_size=3", "--data.seed=1"]
    assert VQA.run_stage("fit", scenes(tmp_path, *more, **INTERVALS["half"])) == 2
    assert "over other batches (batch_size 4, not 3; seed 0, not 1" in capsys.readouterr().err


@pytest.mark.slow
def test_run_that_ends_between_validations_is_kept_and_goes_on(tmp_path, uninterrupted):
    out = fit(tmp_path, max_steps=4)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["last.ckpt"]
    assert torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == 4
    assert VQA.run_stage("test", scenes(out)) == 0  # there is no best one; the last will do
    fit(tmp_path, "--ckpt_path=last")
    assert same_weights(weights(tmp_path), weights(uninterrupted("epoch")))
    assert [point["step"] for point in curve(tmp_path)] == [6, 12, 18]


def test_run_without_validation_is_kept_too(tmp_path):
    out = fit(tmp_path, limit_val_batches=0, max_epochs=1)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["last.ckpt"]
    found, wanted = VQATask.load(out / "model.safetensors"), VQATask.load(out / "checkpoints" / "last.ckpt")
    assert same_weights(found.state_dict(), wanted.state_dict())
