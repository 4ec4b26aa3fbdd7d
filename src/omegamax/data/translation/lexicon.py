"""Which words translate which: IBM model 1, learnt from pairs of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data.files import DataError

Rows = tuple[Sequence[int], Sequence[int]]  # tokens of a sentence and of its translation
_NULL = 0  # padding stands for the word that is not there, which every sentence has


class Lexicon:
    r"""Probabilities t(target token | source token) of IBM model 1.

    .. math:: P(e \mid f) \propto \prod_j \sum_{i=0}^{m} t(e_j \mid f_i)

    with an empty word :math:`f_0` for what no source word has said. EM starts from equal probabilities, and each of its
    steps raises the likelihood; its logarithm is concave, so no other start is needed.

    Args:
        pairs: tokens of sentences and of their translations, without end tokens.
        size: number of target tokens.
        iterations: of EM.

    >>> lexicon = Lexicon([([4, 5], [6, 7]), ([4], [6]), ([5], [7])], size=8, iterations=10)
    >>> lexicon.align([5, 4], [6, 7])
    [(0, 1), (1, 0)]

    Reference: Brown et al., "The mathematics of statistical machine translation" (Computational Linguistics 1993).
    """

    def __init__(self, pairs: Iterable[Rows], size: int, iterations: int = 5) -> None:
        check_integer("Lexicon", "size", size, least=1)
        check_integer("Lexicon", "iterations", iterations, least=1)
        self.size = size
        source, target, slot = _link(pairs)
        if not len(source):
            raise DataError("there is no pair of words to learn a lexicon from; check the part that training takes")
        self._keys, entry = torch.unique(source * size + target, return_inverse=True)
        owner = self._keys // size
        self._t = torch.ones(len(self._keys), dtype=torch.float64)
        slots = int(slot[-1]) + 1
        for _ in range(iterations):
            weight = self._t[entry]
            total = torch.zeros(slots, dtype=torch.float64).index_add_(0, slot, weight)
            counts = torch.zeros_like(self._t).index_add_(0, entry, weight / total[slot])
            words, place = torch.unique(owner, return_inverse=True)
            mass = torch.zeros(len(words), dtype=torch.float64).index_add_(0, place, counts)
            self._t = counts / mass[place]

    def probability(self, source: Tensor, target: Tensor) -> Tensor:
        """Return t(target | source) of tokens of the same shape; 0 for what never occurred together."""
        key = source.long() * self.size + target.long()
        place = torch.searchsorted(self._keys, key).clamp(max=len(self._keys) - 1)
        return torch.where(self._keys[place] == key, self._t[place], 0.0)

    def align(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Return which source word each target word most probably comes from, as pairs of their indices.

        A target word whose likeliest source is the empty word, or none, has no pair. Of equals the first counts.
        """
        if not len(source) or not len(target):
            return []
        f, e = torch.tensor([_NULL, *source]), torch.tensor(list(target))
        t = self.probability(f.unsqueeze(0).expand(len(e), -1), e.unsqueeze(-1).expand(-1, len(f)))
        best, place = t.max(-1)
        return sorted((i - 1, j) for j, (p, i) in enumerate(zip(best.tolist(), place.tolist(), strict=True)) if p and i)

    def fertilities(self, pairs: Iterable[Rows], size: int, default: float) -> Tensor:
        """Return the most words that each source token was ever aligned with, ``[size]``; ``default`` if never seen."""
        found = torch.full((size,), -1.0, dtype=torch.float64)
        for source, target in pairs:
            counts = [0] * len(source)
            for i, _ in self.align(source, target):
                counts[i] += 1
            for token, count in zip(source, counts, strict=True):
                found[token] = max(float(found[token]), count)
        return torch.where(found < 0, default, found).float()


def _link(pairs: Iterable[Rows]) -> tuple[Tensor, Tensor, Tensor]:
    """Return source and target tokens of all links of all pairs, and the number of each target word."""
    source: list[Tensor] = []
    target: list[Tensor] = []
    slot: list[Tensor] = []
    first = 0
    for ours, theirs in pairs:
        f, e = torch.tensor([_NULL, *ours]), torch.tensor(list(theirs), dtype=torch.long)
        source.append(f.repeat(len(e)))
        target.append(e.repeat_interleave(len(f)))
        slot.append(torch.arange(first, first + len(e)).repeat_interleave(len(f)))
        first += len(e)
    if not first:
        return torch.zeros(0), torch.zeros(0), torch.zeros(0)
    return torch.cat(source), torch.cat(target), torch.cat(slot)
