"""Alignments between the words of two sentences: rows one by one, sequences, or one-to-one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import functional
from omegamax._arguments import check_choice
from omegamax.models.text.config import ALIGNMENTS
from omegamax.structured import Matching, Sequence, sparsemap

JUMPS = 3  # longest jump that has a transition score of its own


@dataclass(frozen=True, eq=False)
class WordAlignment:
    """Which words of two sentences were put beside each other.

    Args:
        onward: ``[B, n, m]``, what each word of the first sentence is compared with.
        back: ``[B, m, n]``, what each word of the second is compared with.
        mask: ``[B, n, m]``, True where there is a word in both.
    """

    onward: Tensor
    back: Tensor
    mask: Tensor

    def empty(self) -> Tensor:
        """Return which pairs of words are aligned in neither direction, bool ``[B, n, m]``; padding is among them."""
        return (self.onward == 0) & (self.back.mT == 0)


class AlignmentLayer(torch.nn.Module):
    r"""The alignment of two sentences as a hidden layer: ``forward(scores [B, n, m], mask [B, n, m])``.

    ``"softmax"``, ``"sparsemax"`` and ``"entmax15"`` map each row of the scores by itself, and each column for the way
    back. ``"sequence"`` chooses for all words of a sentence together, by SparseMAP,

    .. math:: \max_y \sum_i s_{i, y_i} + \sum_i t_{y_{i+1} - y_i},

    with one learnt score t for each jump from -3 to 3 words, longer ones counting as 3: seven parameters, 0 at first,
    when it is sparsemax. ``"matching"`` gives each word of the shorter sentence one of the longer, none twice, by
    SparseMAP; the way back is the same matrix, transposed, and words that are left over are compared with nothing.

    Args:
        kind: one of these.

    What is padding has exactly no alignment. Returns a :class:`WordAlignment`.

        >>> scores = torch.tensor([[[2.0, 0.0, 0.0], [1.5, 1.0, 0.0]]])
        >>> found = AlignmentLayer("matching")(scores, torch.ones(1, 2, 3, dtype=torch.bool))
        >>> found.onward
        tensor([[[0.8571, 0.0714, 0.0714],
                 [0.1429, 0.8571, 0.0000]]])

    Reference: Niculae et al., "SparseMAP" (ICML 2018), Sec. 5.2.
    """

    def __init__(self, kind: str):
        super().__init__()
        check_choice("AlignmentLayer", "kind", kind, ALIGNMENTS)
        self.kind = kind
        self.jumps = torch.nn.Parameter(torch.zeros(2 * JUMPS + 1)) if kind == "sequence" else None

    def forward(self, scores: Tensor, mask: Tensor) -> WordAlignment:
        if self.kind == "matching":
            matched = match(scores, mask)
            return WordAlignment(matched, matched.mT, mask)
        return WordAlignment(self._map(scores, mask), self._map(scores.mT, mask.mT), mask)

    def _map(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return rows that sum to one."""
        if self.jumps is None:
            return getattr(functional, self.kind)(scores, mask=mask)
        if not scores.numel():
            return scores
        place = torch.arange(scores.shape[-1], device=scores.device)
        jump = (place - place.unsqueeze(-1)).clamp(-JUMPS, JUMPS) + JUMPS  # from, to
        return sparsemap(scores, Sequence(transition=self.jumps[jump]), mask=mask)

    def extra_repr(self) -> str:
        return f"{self.kind!r}"


def match(scores: Tensor, mask: Tensor) -> Tensor:
    """Return SparseMAP matchings ``[B, n, m]`` of sentences of any lengths, whichever is the longer of each pair.

    Args:
        scores: ``[B, n, m]``.
        mask: True where there is a word in both, the words before the padding.

        >>> mask = torch.tensor([[[True, False], [True, False]], [[True, True], [True, True]]])
        >>> match(torch.tensor([[[2.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]]), mask)
        tensor([[[1., 0.],
                 [0., 0.]],
        <BLANKLINE>
                [[0., 1.],
                 [1., 0.]]])
    """
    if not scores.numel():
        return scores
    n, m = scores.shape[1:]
    rows, columns = mask.any(2).sum(1), mask.any(1).sum(1)
    turn = (rows > columns)[:, None, None]
    short, long = torch.minimum(rows, columns), torch.maximum(rows, columns)
    # The shorter sentence of each pair is in the rows. Its padding is matched to that of the other, of which there must
    # be as much at least.
    height = max(int(short.max()), 1)
    width = max(int((long - short).max()) + height, 1)
    size = max(n, m, width)
    pad = (0, size - m, 0, size - n)
    square, there = torch.nn.functional.pad(scores, pad), torch.nn.functional.pad(mask, pad)
    square, there = torch.where(turn, square.mT, square), torch.where(turn, there.mT, there)
    found = sparsemap(square[:, :height, :width], Matching(), mask=there[:, :height, :width])
    whole = torch.nn.functional.pad(found, (0, size - width, 0, size - height))
    return torch.where(turn, whole.mT, whole)[:, :n, :m]
