"""Splits of a language's documents, as windows of tokens."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer
from omegamax.data import DataError
from omegamax.data.corpus import SPLITS
from omegamax.data.files import read_json
from omegamax.data.language import Documents, TokenStream, TokenWindows, collate_windows
from omegamax.data.subwords import KINDS, MOST_TOKENS, Subwords
from omegamax.tasks.progress import progress
from omegamax.tasks.run_data import Limit, RunData


class LanguageData(RunData):
    """Documents for training, validation and test; a subclass for each set. Tokens are learnt from the training part.

    Args:
        subwords: ``"bytes"``, of which any text can be made, ``"bpe"``, or ``"words"`` as they stand between blanks.
        size: most tokens; 260 with ``"bytes"`` is bytes alone.
        least: how often a pair must occur to be merged, or a word to be known.
        length: of a window.
        whole: take each document by itself, cut to ``length``; else windows go on from one document to the next.
        vocabulary_file: JSON of :meth:`~omegamax.data.subwords.Subwords.to_dict`, in place of learning.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    limits: ClassVar[Mapping[str, Limit]] = {
        **RunData.limits,
        "size": Limit(5, MOST_TOKENS),
        "length": Limit(1, 1 << 24),
    }

    def __init__(
        self,
        subwords: str = "bytes",
        size: int = 8000,
        least: int = 2,
        length: int = 256,
        whole: bool = False,
        vocabulary_file: str | None = None,
        batch_size: int = 32,
        **settings: Any,
    ) -> None:
        super().__init__(batch_size=batch_size, **settings)
        name = type(self).__name__
        self.check({"size": size, "length": length})
        check_choice(name, "subwords", subwords, KINDS)
        check_integer(name, "least", least, least=1)
        self.subwords, self.size, self.least, self.length, self.whole = subwords, size, least, length, whole
        self.vocabulary_file = vocabulary_file
        self._vocabulary: Subwords | None = None
        self._streams: dict[str, TokenStream] = {}

    @abc.abstractmethod
    def read(self, split: str) -> Documents:
        """Return the documents of ``"train"``, ``"val"`` or ``"test"``."""

    @property
    def vocabulary(self) -> Subwords:
        """Return the tokens: learnt from the training part, or those of a file."""
        if self._vocabulary is None:
            self._vocabulary = self._learn() if self.vocabulary_file is None else load_subwords(self.vocabulary_file)
        return self._vocabulary

    def _learn(self) -> Subwords:
        return Subwords.learn(progress(self.read("train"), "learning tokens"), self.subwords, self.size, self.least)

    def stream(self, name: str) -> TokenStream:
        """Return all tokens of a part."""
        check_choice(type(self).__name__, "split", name, SPLITS)
        if name not in self._streams:
            documents = progress(self.read(name), f"reading {name}")
            self._streams[name] = TokenStream(documents, self.vocabulary, name)
        return self._streams[name]

    def split(self, name: str) -> TokenWindows:
        return TokenWindows(self.stream(name), self.length, self.whole)

    @property
    def collate(self) -> Callable[[Any], dict[str, Any]]:
        return collate_windows


def load_subwords(path: str) -> Subwords:
    """Return the tokens of a file that :meth:`~omegamax.data.subwords.Subwords.to_dict` was written to, as JSON."""
    try:
        return Subwords.from_dict(read_json(path))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no file of tokens ({error}); give one of Subwords.to_dict") from error
