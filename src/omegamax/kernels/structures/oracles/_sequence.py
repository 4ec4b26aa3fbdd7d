"""Find the best sequence of labels, by dynamic programming over positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sequence_sizes(length: int, states: int) -> tuple[int, int, int]:
    """Count the additional scores of each sort: start, transition, end."""
    return states, (length - 1) * states * states, states


def viterbi(scores: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
    """Return labels ``[B, n]`` of a sequence of largest score, and whether there is any, ``[B]``.

    ``scores [B, n, s]``; ``additional`` holds scores of the first label ``[s]``, of every pair of neighbours
    ``[n - 1, s, s]`` (from, to) and of the last label ``[s]``, one after the other.
    """
    _, length, states = scores.shape
    start, transition, end = additional.split(sequence_sizes(length, states), -1)
    transition = transition.unflatten(-1, (length - 1, states, states))
    best = scores[:, 0] + start
    before = []
    for i in range(1, length):
        best, previous = (best[..., None] + transition[:, i - 1]).max(1)
        before.append(previous)
        best = best + scores[:, i]
    value, label = (best + end).max(-1)
    labels = [label]
    for previous in reversed(before):
        label = previous.gather(1, label[:, None])[:, 0]
        labels.append(label)
    return torch.stack(labels[::-1], -1), value > -math.inf


def labels_to_parts(labels: Tensor, states: int) -> tuple[Tensor, Tensor]:
    """Return unary parts ``[B, n, s]`` of sequences ``[B, n]``, and additional ones as :func:`viterbi` takes scores."""
    unary = torch.nn.functional.one_hot(labels, states).double()
    return unary, torch.cat([unary[:, 0], (unary[:, :-1, :, None] * unary[:, 1:, None]).flatten(1), unary[:, -1]], -1)
