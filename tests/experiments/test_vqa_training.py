"""The loop of experiments/vqa trains as Lightning does, and its measures are what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

from omegamax.data import Ready, Vocabulary
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.vqa import VQATask

FOLDER = Path(__file__).parents[2] / "experiments" / "vqa"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import measure
    import training

    yield training, measure
    for name in ("training", "measure"):
        sys.modules.pop(name, None)


def questions(count: int) -> Ready:
    """Colours of the one cell that is not empty: easy to learn."""
    make = torch.Generator().manual_seed(count)
    answer = torch.randint(2, (count,), generator=make)
    features = torch.zeros(count, 4, 8)
    place = torch.randint(4, (count,), generator=make)
    features[torch.arange(count), place, answer] = 3.0
    relevance = torch.nn.functional.one_hot(place, 4).float().view(-1, 2, 2)
    return Ready(
        {
            "question": torch.full((count, 2), 2),
            "features": features,
            "grid": (2, 2),
            "answers": torch.nn.functional.one_hot(answer, 2).float(),
            "kind": torch.full((count,), 2),
            "relevance": relevance,
        }
    )


def small_task() -> VQATask:
    torch.manual_seed(0)
    sizes = {"word_dim": 8, "image_dim": 8, "hidden_dim": 16, "heads": 2, "feedforward_dim": 16, "flat_dim": 8}
    network = MCANConfig.small(layers=1, pixels=False, grid=(2, 2), fused_dim=16, **sizes)
    rate = Rate(1e-2, warmup=5, fall="cosine", interval="step")
    return VQATask(Vocabulary(["colour"], ["red", "blue"]), network, "softmax", rate=rate)


def test_it_learns_and_keeps_the_best(modules: tuple[Any, Any]) -> None:
    training, measure = modules
    task, splits = small_task(), {"train": questions(200), "val": questions(60), "test": questions(50)}
    schedule = training.Schedule(steps=60, every=20, clip=1.0, batch_size=32, seed=0)
    trained = training.train(task, splits, schedule)
    assert [step for step, _ in trained.curve] == [20, 40, 60]
    assert trained.val_accuracy == max(value for _, value in trained.curve) > 0.9
    assert training.accuracy(task, splits["val"]) == pytest.approx(trained.val_accuracy)  # with the weights of the best
    found = measure.measure(task, splits["test"])
    assert found["accuracy"] > 0.9 and 0 <= found["divergence"] <= 1


def test_batches_are_whole_and_those_of_an_epoch_differ(modules: tuple[Any, Any]) -> None:
    training, _ = modules
    schedule = training.Schedule(steps=5, every=5, clip=1.0, batch_size=32, seed=1)
    found = list(training.batches(questions(70), schedule))
    assert [len(batch["answers"]) for batch in found] == [32] * 5
    assert "relevance" not in found[0] and "grid" in found[0]


@pytest.mark.parametrize("width", [0.03, 0.2])
def test_a_blur_is_that_of_the_constant_cells(modules: tuple[Any, Any], width: float) -> None:
    _, measure = modules
    cells, fine = 5, 400
    matrix = measure.blur_matrix(cells, width)
    # By sums over points: each cell spread by the Gaussian, and averaged again.
    points = (torch.arange(cells * fine, dtype=torch.float64) + 0.5) / (cells * fine)
    kernel = (-0.5 * ((points[:, None] - points) / width).square()).exp() / (width * (2 * torch.pi) ** 0.5)
    sums = kernel.view(cells, fine, cells, fine).sum((1, 3)) / (fine * fine * cells)
    assert torch.allclose(matrix, sums, atol=2e-6)
    assert torch.allclose(matrix, matrix.T, rtol=0, atol=1e-12) and (matrix.sum(1) <= 1 + 1e-12).all()
