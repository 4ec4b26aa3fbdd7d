"""Which words translate which: IBM model 1, learnt from pairs of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data.files import DataError
from omegamax.data.ragged import RaggedRows

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
        source, target, slot, *_ = _link(pairs)
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
        return self.align_all([(source, target)])[0]

    def align_all(self, pairs: Iterable[Rows]) -> list[list[tuple[int, int]]]:
        """Return what :meth:`align` does of each pair, many at a time."""
        links = _link(pairs)
        found: list[list[tuple[int, int]]] = [[] for _ in range(links.pairs)]
        for pair, i, j in zip(*(each.tolist() for each in self._best(links)), strict=True):
            found[pair].append((i, j))
        return [sorted(each) for each in found]

    def fertilities(self, pairs: Iterable[Rows], size: int, default: float) -> Tensor:
        """Return the most words that each source token was ever aligned with, ``[size]``; ``default`` if never seen."""
        links = _link(pairs)
        pair, i, _ = self._best(links)
        first = links.begin[pair] + 1  # the empty word is before it
        counts = torch.bincount(first + i, minlength=len(links.tokens))
        counts[links.begin] = -1
        found = torch.full((size,), -1, dtype=torch.long)
        there = counts >= 0
        found.scatter_reduce_(0, links.tokens[there], counts[there], "amax")
        return torch.where(found < 0, default, found.double()).float()

    def _best(self, links: Links) -> tuple[Tensor, Tensor, Tensor]:
        """Return the pair, the source word and the target word of each target word that has a source word."""
        t = self.probability(links.source, links.target)
        slots = len(links.owner)
        most = t.new_zeros(slots).scatter_reduce_(0, links.slot, t, "amax")
        place = torch.where(t == most[links.slot], links.place, len(links.tokens))
        first = torch.full((slots,), len(links.tokens)).scatter_reduce_(0, links.slot, place, "amin")
        kept = ((most > 0) & (first > 0)).nonzero().squeeze(-1)
        pair = links.owner[kept]
        return pair, first[kept] - 1, kept - links.slots[pair]


class Links(NamedTuple):
    """Every source word of every pair, the empty one included, with every target word: L links of N target words.

    Args:
        source, target: tokens of each link, ``[L]``.
        slot: the target word of each link, counted over all pairs, ``[L]``; ``place``: its source word, within its
            sentence, 0 for the empty one.
        owner: the pair of each target word, ``[N]``; ``slots``: the first target word of each pair.
        tokens: of all sources, an empty word before each; ``begin``: where each source begins.
    """

    source: Tensor
    target: Tensor
    slot: Tensor
    place: Tensor
    owner: Tensor
    slots: Tensor
    tokens: Tensor
    begin: Tensor

    @property
    def pairs(self) -> int:
        """Return how many pairs there are."""
        return len(self.begin)


def _link(pairs: Iterable[Rows]) -> Links:
    """Return all links of all pairs."""
    ours, theirs = RaggedRows("i"), RaggedRows("i")
    for source, target in pairs:
        ours.add([_NULL, *source])
        theirs.add(target)
    (f, begin), (e, slots) = ours.tensors(), theirs.tensors()
    owner = torch.arange(theirs.count).repeat_interleave(slots.diff())
    counts = begin.diff()[owner]  # links of each target word
    slot = torch.arange(len(owner)).repeat_interleave(counts)
    place = torch.arange(len(slot)) - (counts.cumsum(0) - counts)[slot]
    f, e = f.long(), e.long()
    return Links(f[begin[owner][slot] + place], e[slot], slot, place, owner, slots[:-1], f, begin[:-1])
