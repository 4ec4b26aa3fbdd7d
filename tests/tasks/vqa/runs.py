"""Runs of the training command that take a second, and what they leave behind."""

import os
import subprocess
import sys
from pathlib import Path

from small_runs import options, trainer

from omegamax.cli.vqa.application import VQA

SIZES = ("word_dim", "image_dim", "hidden_dim", "feedforward_dim", "flat_dim", "fused_dim")
NETWORK = {**dict.fromkeys(SIZES, 8), "heads": 2, "layers": 1, "dropout": 0.0}
SCENES = {"samples": "[24,10,6]", "image_size": 32, "grid": "[2,2]", "batch_size": 4}


def network(**changes):
    return options("model.network", {**NETWORK, **changes})


def scenes(out, *more, **changes):
    """Arguments of a run on the embedded set."""
    learning = ["--model.rate.peak=0.01", "--model.rate.warmup=1"]
    return [
        *network(pixels="true", grid="[2,2]"),
        *learning,
        *options("data", SCENES),
        *trainer(3, **changes),
        f"--out={out}",
        *more,
    ]


def fit(out, *more, **changes):
    assert VQA.run_stage("fit", scenes(out, *more, **changes)) == 0
    return Path(out)


def program(code, *arguments, timeout=600):
    """Run Python code in a process of its own, with one thread and these arguments."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
