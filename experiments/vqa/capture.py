"""Tell for which kinds of attention a training step can be captured as a CUDA graph, and is the same as without.

    python experiments/vqa/capture.py softmax tvmax --out kinds.json

A capture that fails leaves its process unusable, so each kind is tried in one of its own. Twenty steps without dropout
are made both ways from the same weights, on the same random batches; losses must agree to 0.5 %. A step is that of as
many networks as are trained side by side.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from job import HERE, Job, Place, build, parent
from stacked import StackedStep, repeat
from training import Captured

from omegamax.tasks.experiment import silent_training
from omegamax.tasks.vqa import VQATask

STEPS, BATCH, LENGTH = 20, 64, 12
TOLERANCE = 5e-3


def random_batches(task: VQATask, grid: tuple[int, int], device: str) -> list[dict]:
    """Draw batches of features, words and answers that mean nothing."""
    make = torch.Generator().manual_seed(0)
    found = []
    for _ in range(STEPS):
        features = torch.randn(BATCH, grid[0] * grid[1], task.network.image_dim, generator=make)
        question = torch.randint(1, task.vocabulary.num_words, (BATCH, LENGTH), generator=make)
        answers = torch.zeros(BATCH, task.vocabulary.num_answers)
        answers[torch.arange(BATCH), torch.randint(task.vocabulary.num_answers, (BATCH,), generator=make)] = 1.0
        batch = {"features": features, "question": question, "answers": answers}
        found.append({**{key: value.to(device) for key, value in batch.items()}, "grid": grid})
    return found


def attempt(kind: str, name: str, stack: int, options: tuple[str, ...]) -> tuple[str, float]:
    """Try one kind; return what is wrong, or nothing, and the milliseconds of a captured step."""
    device = "cuda"
    place = Place(str(HERE / "results"), None, "", "", device)
    # A number of components that is drawn anew would be another one without the graph.
    drawn = ["--model.network.output.components=fixed"] if parent(kind).startswith("multimodal") else []
    own = ("--model.network.dropout=0", *drawn, *options)
    torch.set_float32_matmul_precision("high")
    try:
        with TemporaryDirectory() as out, silent_training():
            jobs = [Job(name, kind, seed, options=own) for seed in range(stack)]
            first: list[VQATask] = [build(job.arguments(), place, name, out).model.to(device).train() for job in jobs]
        second = copy.deepcopy(first)
        given = [repeat(batch, stack) for batch in random_batches(first[0], first[0].network.grid, device)]
        plain = StackedStep(first, 1.0)
        expected = [float(plain.run(batch)) for batch in given]
        captured = Captured(StackedStep(second, 1.0), given[0])
        found = [float(captured.run(batch)) for batch in given]
        began = time.perf_counter()
        for batch in given:
            captured.run(batch)
        torch.cuda.synchronize()
        took = (time.perf_counter() - began) / STEPS * 1e3
    except Exception as error:
        return f"{type(error).__name__}: {error}", 0.0
    worst = max(abs(a - b) / abs(a) for a, b in zip(expected, found, strict=True))
    wrong = "" if worst <= TOLERANCE else f"losses differ by {worst:.1e}: {expected[-1]:.4f} and {found[-1]:.4f}"
    return wrong, took


def _outcome(future: Future[tuple[str, float]]) -> tuple[str, float]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        return str(error), 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+")
    parser.add_argument("--set", default="scenes")
    parser.add_argument("--stack", type=int, default=5, help="networks that are trained side by side, as for run.py")
    parser.add_argument("--out", type=Path, required=True)
    options, rest = parser.parse_known_args()
    with ExitStack() as stack:
        pools = {kind: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for kind in options.kinds}
        said = {
            kind: pool.submit(attempt, kind, options.set, options.stack, tuple(rest)) for kind, pool in pools.items()
        }
        found = {kind: _outcome(future) for kind, future in said.items()}
    for kind, (wrong, took) in found.items():
        print(f"{kind}: {wrong or f'captured, {took:.2f} ms a step'}", flush=True)
    options.out.write_text(json.dumps({kind: not wrong for kind, (wrong, _) in found.items()}))


if __name__ == "__main__":
    main()
