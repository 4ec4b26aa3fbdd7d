"""What the layperson is told: bags of words, whose order is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.models.text import TextClassifier
from omegamax.tasks.text.game.explainers import decide

Score = Callable[[TextClassifier, Tensor], Tensor]


class Messages(NamedTuple):
    """Bags of words, one for each text, and the class that each is about.

    Args:
        words: of all bags, one behind the other, each bag in the order of the vocabulary.
        starts: where each begins, ``[N]``.
        decided: what the classifier said of the text, ``[N]``.
        label: its true class, ``[N]``.
    """

    words: Tensor
    starts: Tensor
    decided: Tensor
    label: Tensor


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


def collect_messages(
    model: TextClassifier, batches: Iterable[dict[str, Tensor]], score: Score, k: int | None = None
) -> Messages:
    """Return the messages that an explainer makes of texts.

    Args:
        model: the classifier, in evaluation mode.
        batches: with ``words [B, L]`` and ``label [B]``.
        score: of the words, see :mod:`omegamax.tasks.text.game.explainers`.
        k: most words of a message; None: all that have a score.
    """
    device = model.classify.weight.device
    bags: list[Tensor] = []
    decided, label = [], []
    for batch in batches:
        words = batch["words"].to(device)
        chosen = choose_words(score(model, words), k).cpu()
        bags += [row[told].sort().values for row, told in zip(words.cpu(), chosen, strict=True)]
        decided.append(decide(model, words).cpu())
        label.append(batch["label"])
    if not bags:
        raise ValueError("collect_messages: batches must have a text at least, got none")
    ends = torch.tensor([len(bag) for bag in bags]).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    return Messages(torch.cat(bags), starts, torch.cat(decided), torch.cat(label))
