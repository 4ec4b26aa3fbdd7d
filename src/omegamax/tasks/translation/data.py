"""Splits of a parallel corpus, as batches of about one length and so many tokens."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch.utils.data import Dataset

from omegamax._arguments import check_choice, check_integer, check_interval
from omegamax.data import DataError
from omegamax.data.corpus import SPLITS
from omegamax.data.files import read_json
from omegamax.data.subwords import MOST_TOKENS
from omegamax.data.translation import PackedPairs, PairVocabulary, ParallelCorpus, TextForm, collate_pairs
from omegamax.tasks.batches import Order
from omegamax.tasks.progress import progress
from omegamax.tasks.run_data import Limit, RunData
from omegamax.tasks.token_batches import TokenOrder

_KINDS = ("bpe", "words")  # of bytes no word could be told from the next, as typing and pictures need


class TranslationData(RunData):
    """Pairs of sentences for training, validation and test; a subclass for each corpus.

    Subwords are learnt from the training part. A batch holds pairs of about one length, as many as its tokens allow.

    Args:
        subwords: ``"bpe"``, or ``"words"`` as they stand between blanks.
        size: most subwords, of both languages together if they share them.
        joint: let both languages share their subwords, and networks their embedding.
        least: how often a pair must occur to be merged, or a word to be known.
        dropout: share of the merges of BPE that is left out at random in training, so that words are cut in other ways
            in each epoch.
        lowercase: lower-case all sentences; the score is then against lower-cased references, and says so.
        normalise: ``"none"``, ``"NFC"`` or ``"NFKC"``.
        punctuation: write quotation marks, dashes and dots as keyboards have them.
        length: most tokens of a sentence; longer ones are left out of training, and cut elsewhere.
        batch_tokens: of a batch, the longer side with its padding, of each process.
        batch_size: most pairs of a batch.
        vocabulary_file: JSON of :meth:`~omegamax.data.translation.PairVocabulary.to_dict`, in place of learning.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    limits: ClassVar[Mapping[str, Limit]] = {
        **RunData.limits,
        "size": Limit(5, MOST_TOKENS),
        "length": Limit(2, 1 << 16),
        "batch_tokens": Limit(1, 1 << 24),
        "dropout": Limit(0, 1, real=True),
    }

    def __init__(
        self,
        subwords: str = "bpe",
        size: int = 8000,
        joint: bool = True,
        least: int = 2,
        dropout: float = 0.0,
        lowercase: bool = False,
        normalise: str = "NFC",
        punctuation: bool = False,
        length: int = 256,
        batch_tokens: int = 4096,
        batch_size: int = 1024,
        vocabulary_file: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(batch_size=batch_size, **settings)
        name = type(self).__name__
        self.check({"size": size, "length": length, "batch_tokens": batch_tokens})
        check_choice(name, "subwords", subwords, _KINDS)
        check_integer(name, "least", least, least=1)
        check_interval(name, "dropout", dropout, "[0, 1)")
        if dropout and subwords != "bpe":
            raise ValueError(f"{name}: dropout goes with subwords='bpe', got {subwords!r}")
        self.form = TextForm(lowercase, normalise, punctuation)
        self.subwords, self.size, self.joint, self.least, self.dropout = subwords, size, joint, least, dropout
        self.lowercase, self.normalise, self.punctuation = lowercase, normalise, punctuation
        self.length, self.batch_tokens, self.vocabulary_file = length, batch_tokens, vocabulary_file
        self._vocabulary: PairVocabulary | None = None
        self._splits: dict[str, PackedPairs] = {}

    @abc.abstractmethod
    def read(self, split: str) -> ParallelCorpus:
        """Return the pairs of ``"train"``, ``"val"`` or ``"test"``."""

    @property
    def vocabulary(self) -> PairVocabulary:
        """Return the subwords of both languages: learnt from the training part, or those of a file."""
        if self._vocabulary is None:
            self._vocabulary = self._learn() if self.vocabulary_file is None else self._load(self.vocabulary_file)
        return self._vocabulary

    def _learn(self) -> PairVocabulary:
        pairs = progress(self.read("train"), "learning subwords")
        return PairVocabulary.learn(pairs, self.subwords, self.size, self.joint, self.least, self.form)

    @staticmethod
    def _load(path: str) -> PairVocabulary:
        try:
            return PairVocabulary.from_dict(read_json(path))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} is no file of subwords ({error}); give one of PairVocabulary.to_dict") from error

    def split(self, name: str) -> PackedPairs:
        check_choice(type(self).__name__, "split", name, SPLITS)
        if name not in self._splits:
            pairs = progress(self.read(name), f"reading {name}")
            share = self.dropout if name == "train" else 0.0
            settings = {"what": name, "dropout": share, "seed": self.seed}
            self._splits[name] = PackedPairs(pairs, self.vocabulary, self.length, name == "train", **settings)  # type: ignore[arg-type]
        return self._splits[name]

    @property
    def collate(self) -> Callable[[Any], dict[str, Any]]:
        return collate_pairs

    def order(self, samples: Dataset[Any], seed: int | None, processes: int, rank: int) -> Order:
        assert isinstance(samples, PackedPairs)
        settings = {"most": self.batch_size, "processes": processes, "rank": rank}
        return PairOrder(samples, self.batch_tokens, seed, **settings)  # type: ignore[arg-type]


class PairOrder(TokenOrder):
    """Which pairs make batches; with each epoch their words are cut anew, if merges are left out."""

    def __init__(self, samples: PackedPairs, tokens: int, seed: int | None = None, **settings: Any) -> None:
        super().__init__(samples.lengths, tokens, seed, **settings)
        self.samples = samples

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.samples.draw(epoch)
