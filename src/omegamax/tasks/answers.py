"""Answers in words, and how likely they are: what a network says of what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def list_likeliest(p: Tensor, answers: Sequence[str], top: int) -> list[tuple[str, float]]:
    """List the answers to one question with their probabilities, the likeliest first.

    Args:
        p: a probability for each answer, ``[A]``.
        answers: their names.
        top: how many to list, at most.

    >>> import torch
    >>> list_likeliest(torch.tensor([0.25, 0.75]), ["no", "yes"], 1)
    [('yes', 0.75)]
    """
    best = p.topk(min(top, len(answers)))
    return [(answers[index], value) for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def tell_best(p: Tensor, answers: Sequence[str], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return ``id``, ``answer`` and ``probability`` of each question, as files of answers have them.

    Args:
        p: a probability for each answer, ``[B, A]``.
        answers: their names.
        ids: of the questions.

    >>> import torch
    >>> tell_best(torch.tensor([[0.25, 0.75]]), ["no", "yes"], ["first"])
    [{'id': 'first', 'answer': 'yes', 'probability': 0.75}]
    """
    best, choice = p.max(-1)
    return [
        {"id": name, "answer": answers[which], "probability": value}
        for name, which, value in zip(ids, choice.tolist(), best.tolist(), strict=True)
    ]
