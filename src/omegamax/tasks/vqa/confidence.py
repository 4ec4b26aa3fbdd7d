"""Whether a network that looks narrowly is right: the width of its look as confidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax.models.mcan import Answer
from omegamax.models.mcan.numbers import density_numbers
from omegamax.tasks.vqa.task import VQATask

SOURCES = ("width", "probability")


def narrowness(answer: Answer) -> Tensor:
    """Return how narrow each look was, ``[B]``: what is smaller by one is e times as wide.

    Of a density, minus the logarithm of the area of its ellipse, the last number of
    :func:`~omegamax.models.mcan.numbers.density_numbers`; of weights, minus their entropy in nats, the logarithm of as
    many cells as have equal weights of that entropy.
    """
    attention = answer.attention
    if attention.density is not None:
        return -density_numbers(attention.density)[:, 5]
    return -torch.special.entr(attention.discrete.flatten(1)).sum(-1)


@torch.no_grad()
def collect_confidence(
    task: VQATask, batches: Iterable[dict[str, Any]], source: str = "width"
) -> tuple[Tensor, Tensor]:
    """Return the confidence ``[N]`` of all answers and how right they are ``[N]``, for ``metrics.confidence_curve``.

    Args:
        source: ``"width"`` of the look, see :func:`narrowness`; or the ``"probability"`` of the answer.

    The network is asked in evaluation mode, and is left in the mode it was in.
    """
    check_choice("collect_confidence", "source", source, SOURCES)
    training, confidence, correct = task.training, [], []
    task.eval()
    try:
        for batch in batches:
            answer = task(batch)
            best, choice = task.loss.probabilities(answer.logits).max(-1)
            confidence.append((best if source == "probability" else narrowness(answer)).double().cpu())
            correct.append(batch["answers"].gather(-1, choice.unsqueeze(-1)).squeeze(-1).double().cpu())
    finally:
        task.train(training)
    if not confidence:
        raise ValueError("collect_confidence: batches must hold at least one batch, got none")
    return torch.cat(confidence), torch.cat(correct)
