"""Pairs of sentences as numbers, all in one row of memory: what training reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_integer
from omegamax._warnings import warn_user
from omegamax.data.files import DataError
from omegamax.data.ragged import RaggedRows, get_row
from omegamax.data.subwords import EOS, PAD
from omegamax.data.translation.draws import SubwordDraws
from omegamax.data.translation.pair import SentencePair
from omegamax.data.translation.vocabulary import PairVocabulary

_AT_ONCE = 4096  # sentences that go to the tokenizer together


class PairWarning(UserWarning):
    """Pairs that are not what one would expect; the message says how many, and what is done with them."""


class PackedPairs(Dataset[dict[str, Any]]):
    """The pairs of a part as tokens, four bytes each, and as they are written.

    An item is a dict: ``source [S]`` and ``target [T]`` int64, each with the end token, ``id``, and the sentences
    ``text`` and ``reference``. With ``training``, pairs of which a side is empty or longer than ``length`` are left
    out; else nothing is, and what is longer is cut. A warning says of how many.

    Args:
        pairs: read once, from beginning to end.
        vocabulary: of both languages.
        length: most tokens of a side, the end included; None: as many as there are.
        training: whether pairs may be left out.
        what: name of the part, for messages.
        dropout: share of the merges of subwords that is left out at random, anew with each :meth:`draw`.
        seed: of these.

    >>> pairs = [SentencePair("ein hund", "a dog", "1"), SentencePair("hund", "dog", "2")]
    >>> packed = PackedPairs(pairs, PairVocabulary.learn(pairs, kind="words", joint=False))
    >>> packed[1]["source"], packed.lengths
    (tensor([4, 2]), tensor([3, 2]))
    """

    def __init__(
        self,
        pairs: Iterable[SentencePair],
        vocabulary: PairVocabulary,
        length: int | None = None,
        training: bool = False,
        what: str = "pairs",
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        if length is not None:
            check_integer("PackedPairs", "length", length, least=2)
        self.pairs: list[SentencePair] = []
        sides = RaggedRows("i"), RaggedRows("i")
        empty = long = 0
        for pair, rows in _encode(pairs, vocabulary):
            cut = length is not None and max(map(len, rows)) >= length
            empty += (none := not all(rows))
            long += cut
            if training and (none or cut):
                continue
            self.pairs.append(pair)
            for side, row in zip(sides, rows, strict=True):
                side.add([*(row if length is None else row[: length - 1]), EOS])
        if len({pair.id for pair in self.pairs}) < len(self.pairs):
            raise DataError(f"{what}: two pairs have the same id; translations could not be told apart")
        if not self.pairs:
            raise DataError(f"{what}: there is no pair to take; check the files, or take a larger share for this part")
        self._source, self._target = (side.tensors() for side in sides)
        self._lengths = torch.maximum(self._source[1].diff(), self._target[1].diff())
        self._draws = None
        if dropout:
            source = (vocabulary.form(pair.source) for pair in self.pairs)
            target = (vocabulary.form(pair.target) for pair in self.pairs)
            self._draws = (
                SubwordDraws(vocabulary.source, source, dropout, 2 * seed),
                SubwordDraws(vocabulary.target, target, dropout, 2 * seed + 1),
            )
        done = "left out" if training else "kept"
        if empty:
            warn_user(f"{what}: {empty:,} pairs have a sentence without words, and are {done}", PairWarning)
        if long:
            done = "left out" if training else "cut"
            warn_user(f"{what}: {long:,} pairs have {length:,} tokens or more, and are {done}", PairWarning)

    def draw(self, epoch: int) -> None:
        """Cut the words of all sentences anew, if merges are left out; :attr:`lengths` stay those without."""
        if self._draws is not None:
            self._source, self._target = (each.draw(epoch) for each in self._draws)

    @property
    def sides(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return source and target, each as all tokens and where each sentence begins and ends."""
        return self._source, self._target

    @property
    def lengths(self) -> Tensor:
        """Return the numbers of tokens of the longer side of each pair, ``[N]``."""
        return self._lengths

    def rows(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the tokens of each pair, without the ends."""
        for index in range(len(self)):
            source, target = (get_row(side, index).tolist()[:-1] for side in (self._source, self._target))
            yield source, target

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(len(self))[index]
        pair = self.pairs[index]
        source, target = (get_row(side, index).long() for side in (self._source, self._target))
        return {"source": source, "target": target, "id": pair.id, "text": pair.source, "reference": pair.target}


def collate_pairs(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make a batch: ``source [B, S]`` and ``target [B, T]``, 0 for padding, and lists ``id``, ``text``, ``reference``.

    >>> pairs = [SentencePair("ein hund", "a dog", "1"), SentencePair("hund", "dog", "2")]
    >>> packed = PackedPairs(pairs, PairVocabulary.learn(pairs, kind="words", joint=False))
    >>> collate_pairs([packed[0], packed[1]])["source"]
    tensor([[5, 4, 2],
            [4, 2, 0]])
    """
    batch: dict[str, Any] = {key: [item[key] for item in items] for key in ("id", "text", "reference")}
    return {**batch, **{key: pad_rows([item[key] for item in items]) for key in ("source", "target")}}


def pad_rows(rows: Sequence[Tensor]) -> Tensor:
    """Return rows of tokens as one tensor ``[B, L]``, 0 behind the shorter ones."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=PAD)


def _encode(
    pairs: Iterable[SentencePair], vocabulary: PairVocabulary
) -> Iterator[tuple[SentencePair, tuple[list[int], list[int]]]]:
    """Yield the pairs with the tokens of their sides, many at once, which the tokenizer is faster at."""
    stream = iter(pairs)
    while some := list(islice(stream, _AT_ONCE)):
        source = vocabulary.source.encode_all([vocabulary.form(pair.source) for pair in some])
        target = vocabulary.target.encode_all([vocabulary.form(pair.target) for pair in some])
        yield from zip(some, zip(source, target, strict=True), strict=True)
