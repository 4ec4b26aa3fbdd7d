"""Networks of experiments/vqa that are trained side by side make the steps that each makes alone."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("jsonargparse")

from omegamax.data import Ready, Vocabulary
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.vqa import VQATask

FOLDER = Path(__file__).parents[2] / "experiments" / "vqa"
MODULES = ("training", "stacked", "measure", "job", "run")
KINDS: dict[str, OutputConfig] = {
    "softmax": OutputConfig("softmax"),
    "softmax, features": OutputConfig("softmax", density_features=True),
    "sparsemax": OutputConfig("sparsemax"),
    "entmax": OutputConfig("entmax", alpha=1.5, learnable=True),
    "tvmax": OutputConfig("tvmax", strength=0.01),
    "k-subsets": OutputConfig("k_subsets", k=2),
    "continuous softmax, features": OutputConfig("continuous_softmax", functions=4, density_features=True),
    "continuous sparsemax": OutputConfig("continuous_sparsemax", functions=4, combined=True),
    "2-MCA": OutputConfig("multimodal", functions=4, components="fixed", max_components=2),
}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, Any, Any]]:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in MODULES:
        sys.modules.pop(name, None)
    import job
    import run
    import stacked
    import training

    yield training, stacked, job, run
    for name in MODULES:
        sys.modules.pop(name, None)


def questions(count: int) -> Ready:
    make = torch.Generator().manual_seed(count)
    answer = torch.randint(3, (count,), generator=make)
    words = torch.randint(1, 4, (count, 4), generator=make)
    words[::3, 2:] = 0
    features = torch.randn(count, 9, 8, generator=make, dtype=torch.float64)
    answers = torch.nn.functional.one_hot(answer, 3).double()
    kind = torch.full((count,), 2)
    return Ready({"question": words, "features": features, "grid": (3, 3), "answers": answers, "kind": kind})


def make_task(seed: int, output: OutputConfig, peak: float, scale: float, blind: bool = False) -> VQATask:
    torch.manual_seed(seed)
    sizes = {"word_dim": 8, "image_dim": 8, "hidden_dim": 16, "heads": 2, "feedforward_dim": 16, "flat_dim": 8}
    network = MCANConfig.small(layers=1, pixels=False, grid=(3, 3), fused_dim=16, dropout=0.0, output=output, **sizes)
    rate = Rate(peak, warmup=2, fall="cosine", interval="step")
    words = Vocabulary(["red", "blue"], ["red", "blue", "no"])
    task = VQATask(words, network, "softmax", rate=rate, weight_decay=0.01, blind=blind).double()
    task.model.output.score_scale.fill_(scale)
    with torch.no_grad():  # so that what is nothing at first has a gradient elsewhere, too
        if task.model.output.numbers is not None:
            task.model.output.numbers.normal_()
    return task


def differ(one: VQATask, other: VQATask) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("kind", [*KINDS, "language only"])
def test_side_by_side_is_as_alone(modules: tuple[Any, Any, Any, Any], kind: str) -> None:
    training, stacked, _, _ = modules
    output, blind = KINDS.get(kind, OutputConfig("softmax")), kind == "language only"
    splits = {"train": questions(40), "val": questions(30)}
    tasks = [make_task(seed, output, peak, scale, blind) for seed, peak, scale in ((0, 1e-2, 1.0), (5, 4e-3, 0.7))]
    alone, before = copy.deepcopy(tasks), copy.deepcopy(tasks)
    # Clipped in some networks and steps, and not in others; more than an epoch, in orders of their own.
    schedules = [training.Schedule(steps=6, every=3, clip=0.8, batch_size=16, seed=seed) for seed in (0, 5)]
    found = stacked.train_stacked(tasks, splits, schedules)
    for task, own, was, schedule, trained in zip(tasks, alone, before, schedules, found, strict=True):
        wanted = training.train(own, splits, schedule)
        assert trained.curve == wanted.curve and trained.best_step == wanted.best_step
        assert differ(task, own) < 1e-8 < 1e-4 < differ(task, was)
        assert not task.training


def test_each_keeps_its_own_best(modules: tuple[Any, Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    training, stacked, _, _ = modules
    values = iter([[0.5, 0.1], [0.4, 0.3], [0.5, 0.2]])
    kept: list[torch.Tensor] = []

    def accuracies(folded: Any, ready: Ready) -> list[float]:
        kept.append(folded.weights.detach().clone())
        return next(values)

    monkeypatch.setattr(stacked, "accuracies", accuracies)
    tasks = [make_task(seed, OutputConfig("softmax"), 1e-2, 1.0) for seed in (0, 1)]
    schedules = [training.Schedule(steps=6, every=2, clip=1.0, batch_size=16, seed=seed) for seed in (0, 1)]
    first, second = stacked.train_stacked(tasks, {"train": questions(40), "val": questions(5)}, schedules)
    assert (first.best_step, second.best_step) == (6, 4) and second.val_accuracy == 0.3
    best = stacked.Folded(tasks, stacked.EACH).weights
    assert torch.equal(best[0], kept[2][0]) and torch.equal(best[1], kept[1][1])


def test_what_can_be_stacked(modules: tuple[Any, Any, Any, Any]) -> None:
    _, stacked, _, _ = modules
    task = make_task(0, OutputConfig("softmax"), 1e-2, 1.0)
    assert stacked.can_stack(task)
    for output in (OutputConfig("softmax", glimpses=2), OutputConfig("softmax", heads=2)):
        assert not stacked.can_stack(make_task(0, output, 1e-2, 1.0))
    seen = VQATask(task.vocabulary, MCANConfig.small(), freeze_cnn=False)
    assert not stacked.can_stack(seen)


def test_runs_that_differ_in_seed_rate_or_scale_are_a_stack(modules: tuple[Any, Any, Any, Any]) -> None:
    _, _, job, _ = modules
    jobs = [job.Job("scenes", "tvmax", seed) for seed in range(5)]
    jobs += [job.Job("scenes", "tvmax_0.2", seed) for seed in range(3)]
    jobs += [job.Job("scenes", "tvmax", 0, "softmax-300"), job.Job("crowds", "tvmax", 0)]
    jobs += [job.Job("scenes", "tvmax", 0, options=(f"--model.rate.peak={rate}", "--a=1")) for rate in (1, 2)]
    stacks = job.stack_jobs(jobs, 5)
    assert sorted(len(stack.jobs) for stack in stacks) == [1, 1, 2, 4, 4]
    assert [each for stack in stacks for each in stack.jobs] == jobs
    assert len(job.stack_jobs([job.Job("scenes", "test_mca_0.5", 0), job.Job("scenes", "test_mca_10", 0)], 5)) == 2
    assert len(job.stack_jobs([job.Job("easy_vqa", "tvmax", seed, "softmax") for seed in range(3)], 5)) == 3


def test_networks_are_measured_once_they_are_trained(modules: tuple[Any, Any, Any, Any], tmp_path: Path) -> None:
    _, _, job, run = modules
    start, later = job.Job("scenes", "softmax", 0), job.Job("scenes", "tvmax", 0, "softmax-300")
    place = job.Place("", None, str(tmp_path), str(tmp_path), "cpu")
    progress = run.Progress([start, later], place, tmp_path)
    first, second = job.Stack((start,)), job.Stack((later,))
    assert progress.can_begin("scenes") and not progress.can_begin(first)
    progress.note("scenes", [])
    assert progress.can_begin(first) and not progress.can_begin(second) and not progress.can_begin(start)
    progress.note(first, [])
    assert progress.can_begin(second) and progress.can_begin(start) and not progress.can_begin(later)
    progress.note(second, "an error")
    assert progress.failed == {later} and not progress.can_begin(later)
