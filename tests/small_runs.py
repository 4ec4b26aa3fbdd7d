"""Runs of the commands of applications that take a second, and what they leave behind."""

import json
from pathlib import Path

import pytest
import torch

from omegamax.cli.main import main

TRAINER = {"accelerator": "cpu", "enable_progress_bar": "false", "enable_model_summary": "false"}


def options(group, settings):
    return [f"--{group}.{name}={value}" for name, value in settings.items()]


def trainer(epochs, **changes):
    """Arguments of a trainer without words."""
    return options("trainer", {**TRAINER, "max_epochs": epochs, **changes})


def curve(out):
    return json.loads((Path(out) / "curve.json").read_text())


def weights(out, name="last"):
    content = torch.load(Path(out) / "checkpoints" / f"{name}.ckpt", weights_only=True)
    return content["state_dict"]


def same_weights(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def check_goes_on(task, arguments, out, done, step):
    """Stop a run at a step of its training: one that goes on from there is as the run in ``done``.

    Args:
        task: class of the network.
        arguments: from a folder, and further ones, to all those of its ``fit``.
    """
    whole, count = task.training_step, []

    def training_step(self, batch, index):
        count.append(index)
        if len(count) == step:
            raise KeyError("stopped")
        return whole(self, batch, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "training_step", training_step)
        with pytest.raises(KeyError):
            main([task.kind, "fit", *arguments(out)])
    assert main([task.kind, "fit", *arguments(out, "--ckpt_path=last")]) == 0
    assert curve(out) == curve(done) and same_weights(weights(out), weights(done))
