"""Find the best dependency tree without crossing arcs: dynamic programming over spans (Eisner)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def projective(scores: Tensor, single_root: bool) -> Tensor:
    """Return heads ``[B, n]`` of projective trees of largest score, -1 throughout where there is none.

    ``scores [B, n, n]`` are [modifier, head]; the diagonal attaches a word to the root, which stands left of the
    first word, and a root is its own head in the answer. With ``single_root`` exactly one is.

    Reference: Eisner (COLING 1996).
    """
    size = scores.shape[-1]
    at_root = scores.diagonal(dim1=-2, dim2=-1)
    arcs = scores.mT.clone()  # [B, head, modifier]
    arcs.diagonal(dim1=-2, dim2=-1).fill_(-math.inf)
    if single_root:
        spans = _Spans(arcs)
        whole = spans.left[:, 0] + spans.right[:, :, size - 1] + at_root
        value, root = whole.max(-1)
        heads = spans.trace([[(True, False, 0, r), (False, False, r, size - 1)] for r in root.tolist()])
        heads[torch.arange(len(heads)), root.cpu()] = root.cpu()
    else:
        # The root is position 0, and no arc leads to it.
        arcs = torch.nn.functional.pad(arcs, (1, 0, 1, 0), value=-math.inf)
        arcs[:, 0, 1:] = at_root
        spans = _Spans(arcs)
        value = spans.right[:, 0, size]
        heads = spans.trace([[(False, False, 0, size)]] * len(scores))[:, 1:] - 1
        own = torch.arange(size)
        heads = torch.where(heads < 0, own, heads)
    return heads.to(scores.device).where((value > -math.inf)[:, None], -1)


class _Spans:
    """Best subtrees over every span: ``right`` is headed by its left end, ``left`` by its right end.

    Incomplete spans, which end in an arc between both ends, carry the scores ``open_right`` and ``open_left``.
    """

    def __init__(self, arcs: Tensor):
        rows, size, _ = arcs.shape
        self.size = size
        empty = torch.full_like(arcs, -math.inf)
        empty.diagonal(dim1=-2, dim2=-1).fill_(0.0)
        right, left, open_right, open_left = (empty.clone() for _ in range(4))
        splits = torch.zeros(3, rows, size, size, dtype=torch.int64, device=arcs.device)
        for width in range(1, size):
            i = torch.arange(size - width, device=arcs.device)
            j = i + width
            step = torch.arange(width, device=arcs.device)
            a, b = i[:, None], j[:, None]
            joined, split = (right[:, a, a + step] + left[:, a + step + 1, b]).max(-1)
            open_right[:, i, j] = joined + arcs[:, i, j]
            open_left[:, i, j] = joined + arcs[:, j, i]
            splits[0, :, i, j] = split + i
            right[:, i, j], split = (open_right[:, a, a + step + 1] + right[:, a + step + 1, b]).max(-1)
            splits[1, :, i, j] = split + i + 1
            left[:, i, j], split = (left[:, a, a + step] + open_left[:, a + step, b]).max(-1)
            splits[2, :, i, j] = split + i
        self.right, self.left = right, left
        self.splits = splits.cpu()

    def trace(self, spans: list[list[tuple[bool, bool, int, int]]]) -> Tensor:
        """Return heads of the trees made of ``spans``, each (headed by its right end, incomplete, first, last)."""
        heads = torch.zeros(len(spans), self.size, dtype=torch.int64)
        for row, given in enumerate(spans):
            joint, right, left = self.splits[:, row].tolist()
            todo, found = list(given), [0] * self.size
            while todo:
                leftward, incomplete, i, j = todo.pop()
                if i == j:
                    continue
                if incomplete:
                    q = joint[i][j]
                    if leftward:
                        found[i] = j
                    else:
                        found[j] = i
                    todo += [(False, False, i, q), (True, False, q + 1, j)]
                elif leftward:
                    q = left[i][j]
                    todo += [(True, False, i, q), (True, True, q, j)]
                else:
                    q = right[i][j]
                    todo += [(False, True, i, q), (False, False, q, j)]
            heads[row] = torch.tensor(found)
        return heads
