"""The tokens of all documents in one row, and windows of it: what a language model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_integer
from omegamax.data.files import DataError
from omegamax.data.ragged import RaggedRows, get_row
from omegamax.data.subwords import EOS, PAD, Subwords

_AT_ONCE = 1024  # documents that go to the tokenizer together


class TokenStream:
    """The documents of a part as tokens, one behind the other, four bytes each, the end token between them.

    Args:
        documents: texts, read once.
        vocabulary: their tokens.
        what: name of the part, for messages.

    >>> words = Subwords.learn(["a b", "b"], kind="words")
    >>> stream = TokenStream(["a b", "b"], words)
    >>> stream.tokens, stream.lengths
    (tensor([2, 5, 4, 2, 4, 2], dtype=torch.int32), tensor([3, 2]))
    """

    def __init__(self, documents: Iterable[str], vocabulary: Subwords, what: str = "documents") -> None:
        self.vocabulary = vocabulary
        rows = RaggedRows("i")
        rows.add([EOS])  # what the first document begins after
        texts = iter(documents)
        while some := list(islice(texts, _AT_ONCE)):
            for row in vocabulary.encode_all(some):
                rows.add([*row, EOS])
        if rows.count < 2:
            raise DataError(f"{what}: there is no document to take; check the files, or hold out a larger share")
        self._rows = rows.tensors()

    @property
    def tokens(self) -> Tensor:
        """Return all tokens, int32; the first is an end."""
        return self._rows[0]

    @property
    def lengths(self) -> Tensor:
        """Return the numbers of tokens of the documents, each with its end, ``[N]``."""
        return self._rows[1].diff()[1:]

    def document(self, index: int) -> Tensor:
        """Return the tokens of a document with the ends on both sides, int64."""
        index = range(len(self.lengths))[index]
        return torch.cat([self.tokens.new_tensor([EOS]), get_row(self._rows, index + 1)]).long()


class TokenWindows(Dataset[Tensor]):
    """Windows of so many tokens, each of which is foretold once, from what stands before it in its window.

    Item i is int64 ``[length + 1]``, of which all but the first are foretold; 0 behind the end of the stream.

    Args:
        stream: all tokens.
        length: of a window.
        whole: take each document by itself, cut where it is longer; else windows go on from one to the next.

    >>> stream = TokenStream(["a b", "b"], Subwords.learn(["a b", "b"], kind="words"))
    >>> [window.tolist() for window in TokenWindows(stream, 4)]
    [[2, 5, 4, 2, 4], [4, 2, 0, 0, 0]]
    >>> [window.tolist() for window in TokenWindows(stream, 4, whole=True)]
    [[2, 5, 4, 2, 0], [2, 4, 2, 0, 0]]
    """

    def __init__(self, stream: TokenStream, length: int, whole: bool = False) -> None:
        self.stream, self.length = stream, check_integer("TokenWindows", "length", length, least=1)
        self.whole = whole

    def __len__(self) -> int:
        if self.whole:
            return len(self.stream.lengths)
        return -(-(len(self.stream.tokens) - 1) // self.length)

    def __getitem__(self, index: int) -> Tensor:
        index = range(len(self))[index]
        if self.whole:
            tokens = self.stream.document(index)[: self.length + 1]
        else:
            tokens = self.stream.tokens[index * self.length : (index + 1) * self.length + 1].long()
        return torch.nn.functional.pad(tokens, (0, self.length + 1 - len(tokens)), value=PAD)


def collate_windows(windows: Sequence[Tensor]) -> dict[str, Tensor]:
    """Make a batch of windows: ``tokens [B, length + 1]``.

    >>> collate_windows([torch.tensor([2, 5, 4]), torch.tensor([4, 2, 0])])["tokens"].shape
    torch.Size([2, 3])
    """
    return {"tokens": torch.stack(list(windows))}
