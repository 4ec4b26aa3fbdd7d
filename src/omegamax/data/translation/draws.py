"""Words cut into subwords in several ways: BPE dropout."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_interval
from omegamax.data.ragged import RaggedRows
from omegamax.data.subwords import EOS, UNK, Subwords

_WAYS = 16  # that a word is cut in, of which each epoch draws one for each place where it stands


class SubwordDraws:
    """Sentences whose words are cut anew in each epoch, by merges of which a share is left out at random.

    The ways to cut a word are drawn once, ``ways`` of them; an epoch draws one of these for each word of each sentence,
    which takes as long as a copy. Everything is a function of the seed and the epoch.

    Args:
        subwords: with merges.
        texts: the sentences, read once, in the form that the subwords were learnt in.
        dropout: share of the merges that is left out, at each step of cutting a word.
        seed: an integer >= 0.
        ways: to cut a word.

    >>> subwords = Subwords.learn(["ein hund läuft", "ein hund bellt"], size=40)
    >>> draws = SubwordDraws(subwords, ["ein hund"], dropout=0.5)
    >>> flat, ends = draws.draw(epoch=1)
    >>> [subwords.tokens[token] for token in flat.tolist()]
    ['▁ein', '▁hu', 'nd', '</s>']

    Reference: Provilkov, Emelianenko & Voita, "BPE-dropout: simple and effective subword regularization" (ACL 2020).
    """

    def __init__(
        self, subwords: Subwords, texts: Iterable[str], dropout: float, seed: int = 0, ways: int = _WAYS
    ) -> None:
        check_interval("SubwordDraws", "dropout", dropout, "[0, 1)")
        self.seed = check_integer("SubwordDraws", "seed", seed, 0)
        self.ways = check_integer("SubwordDraws", "ways", ways, 1)
        if subwords.merges is None:
            raise ValueError("SubwordDraws: dropout leaves out merges, and words that stand between blanks have none")
        numbers: dict[str, int] = {}
        rows = RaggedRows("i")
        for text in texts:
            rows.add([numbers.setdefault(word, len(numbers)) + 1 for word in subwords.words(text)] + [0])
        self._words, self._ends = rows.tensors()
        ranks = {pair: rank for rank, pair in enumerate(subwords.merges)}
        tokens = {token: number for number, token in enumerate(subwords.tokens)}
        generator = random.Random(seed)
        table = RaggedRows("i")
        for _ in range(ways):
            table.add([EOS])  # word 0, the end of each sentence
        for word in numbers:
            for _ in range(ways):
                table.add([tokens.get(each, UNK) for each in cut_word(word, ranks, dropout, generator)])
        self._table, self._places = table.tensors()

    def draw(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the tokens of all sentences of an epoch, each with the end, and where each begins and ends."""
        generator = torch.Generator().manual_seed((self.seed << 32) + epoch)
        way = torch.randint(self.ways, self._words.shape, generator=generator)
        slot = self._words.long() * self.ways + way
        begin, counts = self._places[slot], self._places.diff()[slot]
        ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        index = torch.arange(int(ends[-1])) + (begin - ends[:-1]).repeat_interleave(counts)
        return self._table[index], ends[self._ends]


def cut_word(
    word: str, ranks: Mapping[tuple[str, str], int], dropout: float, generator: random.Random
) -> Sequence[str]:
    """Cut a word into subwords: merge its first pair of lowest rank, of those that are not left out, until none is.

    >>> ranks = {("a", "b"): 0, ("ab", "c"): 1}
    >>> cut_word("abcab", ranks, 0.0, random.Random(0))
    ['abc', 'ab']
    """
    parts = list(word)
    while len(parts) > 1:
        known = (ranks.get(pair, -1) for pair in pairwise(parts))
        open_ = [
            (rank, place)
            for place, rank in enumerate(known)
            if rank >= 0 and (not dropout or generator.random() >= dropout)
        ]
        if not open_:
            break
        _, place = min(open_)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
