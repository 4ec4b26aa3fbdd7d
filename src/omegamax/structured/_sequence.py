"""Sequences of labels with scores for neighbours."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_floating, check_mask
from omegamax.kernels.structures.oracles import sequence_sizes
from omegamax.structured._factor import BuiltIn, expand_parameter


class Sequence(BuiltIn):
    r"""Sequences of n labels out of s, scores ``[*, n, s]``.

    .. math:: \sum_i x_{i, y_i} + a_{y_1} + \sum_i t_{y_i, y_{i+1}} + b_{y_n}

    Start, transition and end scores are not regularised. Gradients reach them. All of them may have leading axes that
    broadcast to those of the scores.

    Args:
        start: ``[s]``, of the first label.
        transition: ``[s, s]`` (from, to), of neighbours; ``[n - 1, s, s]`` to tell the pairs apart.
        end: ``[s]``, of the last label.

    Where these come with the data, pack them by :meth:`additional_scores` of a factor made for the purpose, or pass the
    factor itself: it holds nothing else. Positions at which ``mask`` is False for all labels are absent: they touch no
    transition, and start and end scores belong to the first and last position present.

        >>> from omegamax.structured import sparsemap
        >>> stay = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> sparsemap(torch.tensor([[0.5, 0.0], [0.0, 0.25], [0.75, 0.0]]), Sequence(transition=stay))
        tensor([[0.6667, 0.3333],
                [0.6667, 0.3333],
                [0.6667, 0.3333]])

    Reference: Niculae et al. (ICML 2018), Sec. 3.
    """

    event_dims = 2

    def __init__(self, start: Tensor | None = None, transition: Tensor | None = None, end: Tensor | None = None):
        for argument, value in (("start", start), ("transition", transition), ("end", end)):
            if value is not None:
                check_floating("Sequence", argument, value)
        self.start, self.transition, self.end = start, transition, end

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        return "sequence", event, None

    def part_count(self, event: tuple[int, ...]) -> int:
        return event[0]

    def additional_size(self, event: tuple[int, ...]) -> int:
        length, states = event
        return sum(sequence_sizes(length, states))

    def additional_scores(self, scores: Tensor) -> Tensor:
        """Start, transition and end scores one after the other, ``[*, s + (n - 1) s s + s]``."""
        *batch, length, states = scores.shape
        pairs = self.transition
        if pairs is not None and pairs.dim() > 2 and pairs.shape[-3] not in (1, length - 1):
            raise ValueError(
                f"Sequence: transition must be [{states}, {states}] or [*, {length - 1}, {states}, {states}] for "
                f"scores of shape {tuple(scores.shape)}, got shape {tuple(pairs.shape)}"
            )
        start = expand_parameter("Sequence", "start", self.start, scores, (*batch, states))
        transition = expand_parameter("Sequence", "transition", pairs, scores, (*batch, length - 1, states, states))
        end = expand_parameter("Sequence", "end", self.end, scores, (*batch, states))
        return torch.cat([start, transition.flatten(-3), end], -1)

    def additional_features(self, target: Tensor) -> Tensor:
        # An absent position, without any label, counts as pinned to the first.
        absent = (target == 0).all(-1, keepdim=True)
        target = torch.cat([torch.where(absent, 1.0, target[..., :1]), target[..., 1:]], -1)
        pairs = target[..., :-1, :, None] * target[..., 1:, None, :]
        return torch.cat([target[..., 0, :], pairs.flatten(-3), target[..., -1, :]], -1)

    def prepare(
        self, name: str, scores: Tensor, additional: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        check_mask(name, scores, mask)
        mask = mask.expand_as(scores)
        length, states = scores.shape[-2:]
        here = mask.any(-1)
        packed = self.additional_scores(scores) if additional is None else additional
        start, transition, end = packed.split(sequence_sizes(length, states), -1)
        transition = transition.unflatten(-1, (length - 1, states, states))
        # An absent position is pinned to label 0 at no cost, and its transitions say nothing but where the sequence
        # begins and ends.
        first = here & (here.cumsum(-1) == 1)
        last = here & (here.flip(-1).cumsum(-1).flip(-1) == 1)
        unary = scores.masked_fill(~mask, -math.inf)
        pinned = torch.full_like(scores, -math.inf)
        pinned[..., 0] = 0.0
        unary = torch.where(here[..., None], unary, pinned)
        both = (here[..., :-1] & here[..., 1:])[..., None, None]
        enters = torch.where(first[..., 1:, None, None], start[..., None, None, :], 0.0)
        leaves = torch.where(last[..., :-1, None, None], end[..., None, :, None], 0.0)
        transition = torch.where(both, transition, enters + leaves)
        start = torch.where(first[..., :1], start, 0.0)
        end = torch.where(last[..., -1:], end, 0.0)
        return unary, torch.cat([start, transition.flatten(-3), end], -1)

    def __repr__(self) -> str:
        given = ((n, getattr(self, n)) for n in ("start", "transition", "end"))
        return f"Sequence({', '.join(f'{n}={tuple(v.shape)}' for n, v in given if v is not None)})"
