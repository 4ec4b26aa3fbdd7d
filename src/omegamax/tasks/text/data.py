"""Splits of a set of texts, as batches of about one length."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data import Vocabulary
from omegamax.data.corpus import SPLITS
from omegamax.data.text import PackedTexts, Texts, collate_texts, collect_vocabulary
from omegamax.tasks.batches import LengthOrder, Order
from omegamax.tasks.progress import progress
from omegamax.tasks.run_data import Limit
from omegamax.tasks.vocabulary_data import VocabularyData
from omegamax.tasks.weights_file import find_weights, read_weights, reading_record

_KIND = "text"  # of networks that read texts
_NETWORKS = (".safetensors", ".ckpt")  # endings of their files


class TextData(VocabularyData):
    """Texts for training, validation and test; a subclass for each set.

    Files are read row by row, once for the vocabulary and once for each part, which is kept as numbers. Texts of a
    batch are about as long as each other, so that little of it is padding; which they are is a function of seed and
    epoch alone.

    Args:
        length: most words of a text; what is beyond is cut off, with a warning that counts such texts.
        least: how often a word must occur in the training part to be known.
        most: how many words to know, the most frequent ones; None: all.
        cased: tell words apart that are written with other capitals.
        batch_size: texts in a batch, of each process.
        vocabulary_file: JSON with words and classes, as answers; or a trained network, by its file or the folder of
            its run, whose words and classes these are: so it can be asked about other texts. None: those of the
            training part.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    limits: ClassVar[Mapping[str, Limit]] = {**VocabularyData.limits, "length": Limit(1, 1 << 20)}

    def __init__(
        self,
        length: int = 2000,
        least: int = 1,
        most: int | None = None,
        cased: bool = False,
        batch_size: int = 16,
        vocabulary_file: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(vocabulary_file, batch_size=batch_size, **settings)
        self.check({"length": length})
        for argument, value in (("least", least), ("most", most)):
            if value is not None and value < 1:
                raise ValueError(f"{type(self).__name__}: {argument} must be at least 1, got {value}")
        self.length, self.least, self.most, self.cased = length, least, most, cased
        self._splits: dict[str, PackedTexts] = {}

    @property
    def vocabulary(self) -> Vocabulary:
        path = self.vocabulary_file
        if self._vocabulary is None and path is not None and (Path(path).is_dir() or Path(path).suffix in _NETWORKS):
            record, _ = read_weights(find_weights(path, _KIND), _KIND)
            with reading_record(path, _KIND):
                words = record["network"]["vocabulary"]
                self._vocabulary = Vocabulary(words["words"], words["answers"])
        return super().vocabulary

    @abc.abstractmethod
    def read(self, split: str) -> Texts:
        """Return the texts of ``"train"``, ``"val"`` or ``"test"``."""

    def own_vocabulary(self) -> Vocabulary:
        texts = self.read("train")
        settings: dict[str, Any] = {"least": self.least, "most": self.most, "cased": self.cased}
        return collect_vocabulary(progress(texts, "reading words"), texts.labels, **settings)

    def split(self, name: str) -> PackedTexts:
        check_choice(type(self).__name__, "split", name, SPLITS)
        if name not in self._splits:
            texts = progress(self.read(name), f"reading {name}")
            self._splits[name] = PackedTexts(texts, self.vocabulary, self.length, name)
        return self._splits[name]

    @property
    def collate(self) -> Callable[[Any], dict[str, Any]]:
        return collate_texts

    def order(self, samples: Dataset[Any], seed: int | None, processes: int, rank: int) -> Order:
        assert isinstance(samples, PackedTexts)
        return LengthOrder(samples.lengths, self.batch_size, seed, processes=processes, rank=rank)
