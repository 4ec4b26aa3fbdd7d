"""The parallel corpora: the embedded one, those of the papers, and files of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omegamax.data.corpus import SPLITS
from omegamax.data.translation import IWSLT, Multi30k, PairFiles, PairTable, ParallelCorpus, TinyPairs
from omegamax.tasks.run_data import Limit, choose_file
from omegamax.tasks.translation.data import TranslationData


class TinyPairsData(TranslationData):
    """The embedded pair of languages, :class:`~omegamax.data.translation.TinyPairs`; needs no file.

    Args:
        samples: numbers of pairs for training, validation and test.
        pair_seed: of the pairs.
        subwords: words by default, of which there are few.
        joint: by default each language has its own.
        settings: as for :class:`TranslationData`.

    Example:
        >>> data = TinyPairsData(samples=(20, 4, 4))
        >>> batch = next(iter(data.val_dataloader()))
        >>> sorted(batch), batch["source"].shape[0]
        (['id', 'reference', 'source', 'target', 'text'], 4)
    """

    limits: ClassVar[Mapping[str, Limit]] = {**TranslationData.limits, "samples": Limit(0, 1 << 28, numbers=3)}

    def __init__(
        self,
        samples: tuple[int, int, int] = (6000, 200, 500),
        pair_seed: int = 0,
        subwords: str = "words",
        joint: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(subwords=subwords, joint=joint, **settings)
        self.samples, self.pair_seed = tuple(samples), pair_seed

    def read(self, split: str) -> TinyPairs:
        return TinyPairs(dict(zip(SPLITS, self.samples, strict=True))[split], split, seed=self.pair_seed)


class Multi30kData(TranslationData):
    """:class:`~omegamax.data.translation.Multi30k`, descriptions of photographs.

    Args:
        folder: with its files.
        source, target: endings of the languages.
        test_set: which of its tests.
        settings: as for :class:`TranslationData`.
    """

    def __init__(
        self, folder: str, source: str = "de", target: str = "en", test_set: str = "test_2016_flickr", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.folder, self.source, self.target, self.test_set = folder, source, target, test_set

    def read(self, split: str) -> ParallelCorpus:
        return Multi30k(self.folder, split, source=self.source, target=self.target, test=self.test_set)


class IWSLTData(TranslationData):
    """:class:`~omegamax.data.translation.IWSLT`, transcripts of talks.

    Args:
        folder: with its files, ``de-en``.
        source, target: endings of the languages.
        val_sets, test_sets: which files are for validation and test.
        settings: as for :class:`TranslationData`.
    """

    def __init__(
        self,
        folder: str,
        source: str = "de",
        target: str = "en",
        val_sets: tuple[str, ...] = ("dev2010",),
        test_sets: tuple[str, ...] = ("tst2015",),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.folder, self.source, self.target = folder, source, target
        self.val_sets, self.test_sets = tuple(val_sets), tuple(test_sets)

    def read(self, split: str) -> ParallelCorpus:
        parts = {"val": self.val_sets, "test": self.test_sets}
        return IWSLT(self.folder, split, source=self.source, target=self.target, **parts)


class PairFilesData(TranslationData):
    """:class:`~omegamax.data.translation.PairFiles`: two files of one's own, a sentence a line.

    Args:
        train: file to learn from, without the endings of the languages: ``corpus/train`` for ``corpus/train.de`` and
            ``corpus/train.en``.
        val: the same for validation; None: ``held_out`` of ``train``.
        test: the same to measure on; None: that for validation.
        source, target: endings of the languages, such as ``de`` or ``de.gz``.
        held_out: share that validation takes where it has no file.
        split_seed: of which these are.
        encoding: of the files.
        settings: as for :class:`TranslationData`.
    """

    def __init__(
        self,
        train: str,
        val: str | None = None,
        test: str | None = None,
        source: str = "de",
        target: str = "en",
        held_out: float = 0.05,
        split_seed: int = 0,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.train, self.val, self.test, self.source, self.target = train, val, test, source, target
        self.held_out, self.split_seed, self.encoding = held_out, split_seed, encoding

    def read(self, split: str) -> ParallelCorpus:
        part, file, held_out = choose_file(split, self.train, self.val, self.test, self.held_out)
        settings: dict[str, Any] = {"held_out": held_out, "seed": self.split_seed, "encoding": self.encoding}
        return PairFiles(f"{file}.{self.source}", f"{file}.{self.target}", part, **settings)


class PairTableData(TranslationData):
    """:class:`~omegamax.data.translation.PairTable`: CSV, TSV or JSONL files of one's own.

    Args:
        train: file to learn from.
        val: file for validation; None: ``held_out`` of ``train``.
        test: file to measure on; None: that for validation.
        source, target: names of the columns.
        held_out, split_seed, encoding: as for :class:`PairFilesData`.
        delimiter: between cells, where the ending of the name does not tell.
        settings: as for :class:`TranslationData`.
    """

    def __init__(
        self,
        train: str,
        val: str | None = None,
        test: str | None = None,
        source: str = "source",
        target: str = "target",
        held_out: float = 0.05,
        split_seed: int = 0,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.train, self.val, self.test, self.source, self.target = train, val, test, source, target
        self.held_out, self.split_seed, self.delimiter, self.encoding = held_out, split_seed, delimiter, encoding

    def read(self, split: str) -> ParallelCorpus:
        part, file, held_out = choose_file(split, self.train, self.val, self.test, self.held_out)
        settings: dict[str, Any] = {"held_out": held_out, "seed": self.split_seed, "encoding": self.encoding}
        columns = {"source": self.source, "target": self.target, "delimiter": self.delimiter}
        return PairTable(file, part, **columns, **settings)  # type: ignore[arg-type]
