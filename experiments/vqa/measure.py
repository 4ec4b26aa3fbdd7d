"""What is measured of a trained network: answers by kind of question, maps beside those of what is relevant."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from torch import Tensor
from training import CHUNK

from omegamax.data import KINDS, Ready
from omegamax.data.scenes import QUESTIONS
from omegamax.metrics import JensenShannon, RankCorrelation
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.probe import collect_counts, probe_counts
from omegamax.tasks.vqa.scores import Scores

TEMPLATES = tuple(QUESTIONS)
WIDTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8)  # deviations of the blur, in 64ths of the side of a picture
MAPS = ("rank", "divergence_blurred", "rank_blurred")
MEASURED = (
    *("accuracy", "accuracy_yes_no", "accuracy_number", "accuracy_other", "divergence", "inside", "zero"),
    *MAPS,
    *("by_question", "components"),
)

PROBES = ("probe", "probe_hidden")
HIDDEN, PROBED = 16, 12000  # units of the second probe; training questions whose contexts teach them


def blur_matrix(cells: int, width: float) -> Tensor:
    r"""Return the matrix ``[cells, cells]`` that blurs a map along one side; ``width`` in sides of the picture.

    A map is taken to be constant in each cell; it is convolved with a Gaussian, and averaged over each cell again:

    .. math:: M_{ij} = \frac1h \int_{ih}^{(i+1)h} \int_{jh}^{(j+1)h} N(s; t, \sigma^2) \,dt\,ds

    What leaves the picture is gone.

        >>> blur_matrix(3, 0.0)
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]], dtype=torch.float64)
    """
    if width == 0:
        return torch.eye(cells, dtype=torch.float64)
    h = 1 / cells
    x = torch.arange(-cells, cells + 1, dtype=torch.float64) * h / width
    # The second antiderivative of the normal density: x Phi(x) + phi(x). Its second differences are the integrals.
    second = x * torch.special.ndtr(x) + torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    whole = (second[2:] - 2 * second[1:-1] + second[:-2]) * width / h  # of i - j = -cells + 1, ..., cells - 1
    whole = whole.where(whole > 1e-12, 0.0)  # less is the rounding of the differences
    index = torch.arange(cells)
    return whole[index[:, None] - index + cells - 1]


@torch.no_grad()
def measure(task: VQATask, ready: Ready) -> dict[str, Any]:
    """Measure a network on a split: one value for each of :data:`MEASURED`, or none where there is nothing."""
    task.eval()
    device = ready.batch["question"].device
    scores = Scores().to(device)
    settings: dict[str, Any] = {"dim": (-2, -1), "undefined": "skip"}
    blurred = [(JensenShannon(**settings).to(device), RankCorrelation(**settings).to(device)) for _ in WIDTHS]
    right = []
    for rows in torch.arange(len(ready)).split(CHUNK):
        batch = ready.__getitems__(rows)
        answer = task(batch)
        scores.update(answer, batch, maps=not task.blind)
        right.append(batch["answers"].gather(1, answer.logits.argmax(1, keepdim=True)).squeeze(1))
        if "relevance" in batch and not task.blind:
            known = batch["relevance"].flatten(1).any(1)
            weights, relevance = answer.attention.weights[known], batch["relevance"][known].double()
            h, w = relevance.shape[1:]
            for width, metrics in zip(WIDTHS, blurred, strict=True):
                down, across = (blur_matrix(k, width / 64).to(device) for k in (h, w))
                for metric in metrics:
                    metric.update(weights.double(), down @ relevance @ across.T)
    found: dict[str, Any] = {name: round(value, 6) for name, value in scores.compute().items()}
    if "relevance" in ready.batch and not task.blind:
        divergences, ranks = ([round(float(m.compute()), 6) for m in each] for each in zip(*blurred, strict=True))
        found |= {"rank": ranks[0], "divergence_blurred": json.dumps(divergences), "rank_blurred": json.dumps(ranks)}
    if "template" in ready.batch:
        found["by_question"] = json.dumps(by_question(torch.cat(right), ready.batch["template"]))
    counted = scores.components()
    return {**found, "components": json.dumps(counted) if counted else ""}


def by_question(right: Tensor, template: Tensor) -> dict[str, float]:
    """Return the accuracy for each question of the embedded set."""
    return {
        name: round(float(right[template == number].mean()), 6)
        for number, name in enumerate(TEMPLATES)
        if bool((template == number).any())
    }


def count_probes(task: VQATask, splits: dict[str, Ready]) -> dict[str, float]:
    """Return how often a count is read from the context alone: by a linear map, and with hidden units between.

    Nothing for networks that see no image, and for sets that ask for no number.
    """
    number = KINDS.index("number")
    if task.blind or not bool((splits["test"].batch["kind"] == number).any()):
        return {}
    some = {name: torch.arange(min(len(splits[name]), PROBED)).split(CHUNK) for name in ("train", "test")}
    train, test = (
        collect_counts(task, (splits[name].__getitems__(rows) for rows in some[name])) for name in ("train", "test")
    )
    return {
        name: round(probe_counts(train, test, hidden=hidden).accuracy, 6)
        for name, hidden in zip(PROBES, (0, HIDDEN), strict=True)
    }
