"""What the layperson is told: bags of words, whose order is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.tasks.text.game.explainers import Batch, Classifier, decide, take_words

Score = Callable[[Classifier, Batch], Tensor]


class Messages(NamedTuple):
    """Bags of words, one for each text, and the class that each is about.

    Args:
        words: of all bags, one behind the other, each bag in the order of :func:`number_words`.
        starts: where each begins, ``[N]``.
        decided: what the classifier said of the text, ``[N]``.
        label: its true class, ``[N]``.
        told: words that the explainer chose, ``[N]``; of pairs the layperson has the second sentence besides.
    """

    words: Tensor
    starts: Tensor
    decided: Tensor
    label: Tensor
    told: Tensor


def choose_words(scores: Tensor, k: int | None = None) -> Tensor:
    """Return which words a message has, bool ``[B, L]``: the k of highest score, of equal ones the first.

    Args:
        scores: ``[B, L]``; words of score ``-inf`` are never told, so that there may be fewer than k.
        k: None: all others.

        >>> choose_words(torch.tensor([[0.2, 0.5, 0.2, 0.1], [0.9, -torch.inf, -torch.inf, -torch.inf]]), 2)
        tensor([[ True,  True, False, False],
                [ True, False, False, False]])
    """
    told = ~scores.isneginf()
    if k is None:
        return told
    check_integer("choose_words", "k", k, least=1)
    first = scores.argsort(dim=-1, descending=True, stable=True)[:, :k]
    return told & torch.zeros_like(told).scatter(-1, first, True)


def number_words(batch: Batch, words: int) -> tuple[Tensor, Tensor | None]:
    """Return the numbers that words have for a layperson: ``[B, L]``, and of pairs ``[B, M]`` of the second sentences.

    Those of single texts are as they are. Who is asked about two sentences knows the second one, and sees which of the
    words that are told of the first are also there: a word of the vocabulary has one number if it is, another, more by
    ``words``, if it is not, and a third as a word of the second sentence. Padding has the number 0.

        >>> batch = {"words": torch.tensor([[4, 5, 0]]), "second": torch.tensor([[5, 6]])}
        >>> number_words(batch, 10)
        (tensor([[14,  5,  0]]), tensor([[25, 26]]))
    """
    first, second = batch["words"], batch.get("second")
    if second is None:
        return first, None
    missing = (first.unsqueeze(2) != second.unsqueeze(1)).all(2)
    return torch.where(missing & (first != 0), first + words, first), torch.where(second != 0, second + 2 * words, 0)


def count_numbers(model: Classifier) -> int:
    """Return how many numbers :func:`number_words` has for what a classifier reads."""
    return model.config.words * (1 if model.config.alignment is None else 3)


def collect_messages(
    model: Classifier, batches: Iterable[dict[str, Any]], score: Score, k: int | None = None
) -> Messages:
    """Return the messages that an explainer makes of texts.

    Args:
        model: the classifier, in evaluation mode.
        batches: with ``words [B, L]`` and ``label [B]``, and ``second [B, M]`` for pairs.
        score: of the words, see :mod:`omegamax.tasks.text.game.explainers`.
        k: most words of a message; None: all that have a score.
    """
    device = model.embedding.weight.device
    bags: list[Tensor] = []
    decided, label, told = [], [], []
    for given in batches:
        batch = take_words(given, device)
        chosen = choose_words(score(model, batch), k)
        first, second = number_words(batch, model.config.words)
        numbers = first.where(chosen, 0) if second is None else torch.cat([first.where(chosen, 0), second], 1)
        bags += [row[row != 0].sort().values for row in numbers.cpu()]
        decided.append(decide(model, batch).cpu())
        label.append(given["label"])
        told.append(chosen.sum(-1).cpu())
    if not bags:
        raise ValueError("collect_messages: batches must have a text at least, got none")
    ends = torch.tensor([len(bag) for bag in bags]).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    return Messages(torch.cat(bags), starts, torch.cat(decided), torch.cat(label), torch.cat(told))
