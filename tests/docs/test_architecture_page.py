"""The walks of docs/architecture.md name the files whose functions run, and files that exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tasks.vqa.networks import write_runs

import omegamax
from omegamax.basis import GaussianRBF, grid_positions
from omegamax.cli.main import main
from omegamax.nn import ContinuousAttention

SOURCE = Path(omegamax.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
# One-line functions over private names of torch, which say what they do by their names.
PASSED_BY = {"_torch_internals.py"}


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]


def named(text: str) -> list[str]:
    return [name for name in re.findall(r"`([\w/]+\.(?:py|h))`", text) if (SOURCE / name).exists()]


def run_and_list_files(call: Callable[[], object]) -> set[str]:
    call()  # what is imported or cached at the first call is no part of the walk
    files = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            files.add(path.relative_to(SOURCE).as_posix())

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files - PASSED_BY


def test_files_with_a_folder_exist():
    paths = set(re.findall(r"`([a-z_]+/[\w/]+\.(?:py|h))`", PAGE))
    assert len(paths) > 30
    missing = [path for path in paths if not (SOURCE / path).exists() and not (SOURCE.parents[1] / path).exists()]
    assert not missing


def test_walk_of_scores_on_a_cpu():
    steps = named(section("The walk of a score vector, on a CPU").split("Its gradient")[0])
    ran = run_and_list_files(lambda: omegamax.entmax(torch.ones(2, 3), 1.5))
    assert len(steps) <= 9
    assert ran <= set(steps), ran - set(steps)


def test_walk_of_scores_on_a_gpu():
    cpu = named(section("The walk of a score vector, on a CPU"))[:4]
    assert len(cpu + named(section("The walk of a score vector, on a GPU"))) <= 11


def test_walk_of_a_value_through_continuous_attention():
    steps, _ = map(named, section("The walk of a value through continuous attention").split("For compact support"))
    layer = ContinuousAttention(GaussianRBF.grid(8, 1, 0.01), alpha=1.0)
    values, weights, positions = torch.randn(3, 25, 8), torch.rand(3, 25), grid_positions((25,))
    ran = run_and_list_files(lambda: layer(values, weights, positions=positions))
    assert len(steps) <= 17
    assert ran == set(steps), ran ^ set(steps)


def test_walk_of_a_value_through_continuous_attention_of_compact_support():
    steps, more = map(named, section("The walk of a value through continuous attention").split("For compact support"))
    layer = ContinuousAttention(GaussianRBF.grid(8, 2, 0.01), alpha=2.0)
    values, weights, positions = torch.randn(3, 25, 8), torch.rand(3, 25), grid_positions((5, 5))
    ran = run_and_list_files(lambda: layer(values, weights, positions=positions))
    compiled = {name for name in more if name.endswith(".h")}
    left_out = {"densities/expectations/_line.py", "kernels/gaussian/reference.py"}
    wanted = {*steps, *more} - left_out - compiled
    assert len(wanted) <= 20
    assert ran == wanted, ran ^ wanted


def test_walk_of_an_image_through_explain(tmp_path):
    walk = section("The walk of an image through `omegamax vqa explain`")
    steps, helpers = (named(part) for part in walk.split("On the way, small helpers"))
    scores = named(section("The walk of a score vector, on a CPU").split("Its gradient")[0])
    run = write_runs(tmp_path / "runs")["softmax"]
    picture, out = tmp_path / "picture.png", tmp_path / "where.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(picture)
    asked = ["vqa", "explain", str(picture), "is it red?", "--checkpoint", str(run), "--out", str(out)]
    ran = run_and_list_files(lambda: main(asked))
    assert out.exists() and len(steps) <= 25
    assert set(steps) <= ran, set(steps) - ran
    assert ran <= {*steps, *helpers, *scores}, ran - {*steps, *helpers, *scores}
