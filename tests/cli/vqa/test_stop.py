"""Training that is stopped, or goes astray, ends with a status and a line that says how to go on."""

import os
import shlex
import signal

import pytest
import torch
from small_runs import curve, weights
from tests.tasks.vqa.runs import scenes

from omegamax.cli.main import main
from omegamax.tasks.vqa import VQATask

pytestmark = pytest.mark.usefixtures("one_thread")


def at_step(monkeypatch, step, act):
    """Have something happen in a training step, once."""
    whole, done = VQATask.training_step, []

    def training_step(self, batch, index):
        done.append(index)
        loss = whole(self, batch, index)
        return act(loss) if len(done) == step else loss

    monkeypatch.setattr(VQATask, "training_step", training_step)


def last_line(capsys):
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text.strip().splitlines()[-1]


@pytest.fixture
def foreground():
    """A shell lets what it runs in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_a_run_with_the_command_that_goes_on(tmp_path, monkeypatch, capsys, number, status):
    arguments = ["vqa", "fit", *scenes(tmp_path, "--ckpt_path=last")]

    def kill(loss):
        os.kill(os.getpid(), number)
        return loss

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    at_step(monkeypatch, 9, kill)  # after a validation, and before the next
    assert main(arguments) == status
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    line = last_line(capsys)
    assert not (tmp_path / "model.safetensors").exists() and [point["step"] for point in curve(tmp_path)] == [6]
    words = shlex.split(line.partition("go on with: ")[2])
    assert main(words[words.index("vqa") :]) == 0
    assert [point["step"] for point in curve(tmp_path)] == [6, 12, 18]
    said = capsys.readouterr().out
    assert "best val_accuracy: " in said and str(tmp_path / "model.safetensors") in said


def test_loss_that_is_not_finite_ends_the_run_and_leaves_the_last_checkpoint(tmp_path, monkeypatch, capsys):
    at_step(monkeypatch, 9, lambda loss: loss * torch.nan)
    assert main(["vqa", "fit", *scenes(tmp_path)]) == 1
    assert "the loss became nan in step 9, and training stopped" in last_line(capsys)
    assert all(value.isfinite().all() for value in weights(tmp_path).values())
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("step", [6, 18])
def test_weights_that_are_not_finite_are_never_written(tmp_path, monkeypatch, capsys, step):
    """The last step before a validation, or of all, spoils the weights and not the loss."""

    def spoil(loss):
        loss.register_hook(lambda gradient: gradient * torch.nan)
        return loss

    at_step(monkeypatch, step, spoil)
    assert main(["vqa", "fit", *scenes(tmp_path)]) == 1
    assert "became NaN or infinite" in last_line(capsys)
    last = tmp_path / "checkpoints" / "last.ckpt"
    assert last.exists() == (step > 6)
    if step > 6:
        assert all(value.isfinite().all() for value in weights(tmp_path).values())


def test_going_on_where_there_is_nothing_starts(tmp_path, capsys):
    half = tmp_path / "checkpoints" / ".last.12.part.ckpt"  # the run was killed while it wrote its first checkpoint
    half.parent.mkdir()
    half.write_text("half")
    assert main(["vqa", "fit", *scenes(tmp_path, "--ckpt_path=last", max_epochs=1)]) == 0
    assert "is not there yet: starting anew" in capsys.readouterr().err
    assert len(curve(tmp_path)) == 1 and not half.exists()
