"""The sets of texts: the embedded one, those of the papers, and files of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from omegamax.data.corpus import SPLITS
from omegamax.data.text import IMDB, Reviews, Sentences, Texts, TextTable, YelpHAT
from omegamax.tasks.run_data import Limit, choose_file
from omegamax.tasks.text.data import TextData


class ReviewsData(TextData):
    """The embedded set, :class:`~omegamax.data.text.Reviews`; needs no file.

    Args:
        samples: numbers of reviews for training, validation and test.
        sentences: fewest and most sentences of a review.
        review_seed: of the reviews.
        settings: as for :class:`TextData`.

    Example:
        >>> data = ReviewsData(samples=(8, 4, 4), batch_size=4)
        >>> batch = next(iter(data.val_dataloader()))
        >>> batch["words"].shape == batch["marks"].shape, batch["label"].shape
        (True, torch.Size([4]))
    """

    limits: ClassVar[Mapping[str, Limit]] = {
        **TextData.limits,
        "samples": Limit(0, 1 << 28, numbers=3),
        "sentences": Limit(1, 1 << 16, numbers=2),
    }

    def __init__(
        self,
        samples: tuple[int, int, int] = (4000, 500, 1000),
        sentences: tuple[int, int] = (4, 8),
        review_seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.samples, self.sentences, self.review_seed = tuple(samples), tuple(sentences), review_seed

    def read(self, split: str) -> Reviews:
        size = dict(zip(SPLITS, self.samples, strict=True))[split]
        return Reviews(size, split, seed=self.review_seed, sentences=(self.sentences[0], self.sentences[1]))


class IMDBData(TextData):
    """:class:`~omegamax.data.text.IMDB`, reviews of films, some 270 words each.

    Args:
        folder: with its files, or ``aclImdb`` itself.
        held_out: share of the training part that validation takes.
        split_seed: of which these are.
        settings: as for :class:`TextData`.
    """

    def __init__(self, folder: str, held_out: float = 0.1, split_seed: int = 0, **settings: Any) -> None:
        super().__init__(**settings)
        self.folder, self.held_out, self.split_seed = folder, held_out, split_seed

    def read(self, split: str) -> Texts:
        return IMDB(self.folder, split, held_out=self.held_out, seed=self.split_seed)


class SentencesData(TextData):
    """:class:`~omegamax.data.text.Sentences`: MR, SST-2, SST-5, TREC or Subj.

    Args:
        folder: with their files.
        corpus: ``"mr"``, ``"sst2"``, ``"sst5"``, ``"trec"`` or ``"subj"``.
        fold: of a cross-validation, for MR and Subj.
        folds: how many.
        held_out: share that validation takes from the training part of TREC.
        split_seed: of which text is in which part.
        encoding: of the files.
        settings: as for :class:`TextData`.
    """

    def __init__(
        self,
        folder: str,
        corpus: str = "sst2",
        fold: int = 0,
        folds: int = 10,
        held_out: float = 0.1,
        split_seed: int = 0,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.folder, self.corpus, self.fold, self.folds = folder, corpus, fold, folds
        self.held_out, self.split_seed, self.encoding = held_out, split_seed, encoding

    def read(self, split: str) -> Texts:
        folds: dict[str, Any] = {"fold": self.fold, "folds": self.folds, "held_out": self.held_out}
        return Sentences(self.folder, self.corpus, split, **folds, seed=self.split_seed, encoding=self.encoding)


class YelpHATData(TextData):
    """:class:`~omegamax.data.text.YelpHAT`, reviews with the words that people marked.

    Args:
        folder: with its files.
        subset: ``"50words"``, ``"100words"``, ``"200words"`` or ``"part7"``.
        whole: take all reviews for a test; what trains or validates must then be other data.
        fold: of a cross-validation.
        folds: how many.
        split_seed: of which review is in which fold.
        settings: as for :class:`TextData`.
    """

    def __init__(
        self,
        folder: str,
        subset: str = "50words",
        whole: bool = False,
        fold: int = 0,
        folds: int = 10,
        split_seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.folder, self.subset, self.whole = folder, subset, whole
        self.fold, self.folds, self.split_seed = fold, folds, split_seed

    def read(self, split: str) -> Texts:
        if self.whole and split != "test":
            raise ValueError(f"YelpHATData: with whole=True all reviews are for a test, and none for {split!r}")
        part = None if self.whole else split
        return YelpHAT(self.folder, self.subset, part, fold=self.fold, folds=self.folds, seed=self.split_seed)


class TableData(TextData):
    """:class:`~omegamax.data.text.TextTable`: CSV, TSV or JSONL files of one's own.

    Args:
        train: file to learn from; None where a trained network, as ``vocabulary_file``, is asked.
        val: file for validation; None: ``held_out`` of ``train``.
        test: file to measure on, or to predict; None: that for validation.
        text: name of the column of texts.
        label: name of the column of classes.
        second: name of the column with the second sentences of pairs; None: texts are single.
        labelled: whether ``test`` has classes; without, it can be predicted, and not measured on.
        held_out: share that validation takes where it has no file.
        split_seed: of which these are.
        format: ``"csv"``, ``"tsv"`` or ``"jsonl"``; None: by the ending of a name.
        delimiter: between cells; None: a comma in ``.csv`` files, a tab in ``.tsv`` files.
        encoding: of the files.
        settings: as for :class:`TextData`.
    """

    def __init__(
        self,
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        text: str = "text",
        label: str = "label",
        second: str | None = None,
        labelled: bool = True,
        held_out: float = 0.1,
        split_seed: int = 0,
        format: str | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.format = format
        self.train, self.val, self.test, self.labelled = train, val, test, labelled
        self.text, self.label, self.second = text, label, second
        self.held_out, self.split_seed, self.delimiter, self.encoding = held_out, split_seed, delimiter, encoding

    @property
    def title(self) -> str:
        return Path(self.train or self.val or self.test or "table").name

    def read(self, split: str) -> Texts:
        part, file, held_out = choose_file(split, self.train, self.val, self.test, self.held_out)
        if file is None:
            words = "vocabulary_file a trained network, whose words are taken"
            raise ValueError(f"TableData: train must be a file of texts to learn from, got None; or give {words}")
        columns: dict[str, Any] = {name: getattr(self, name) for name in ("text", "label", "second")}
        columns |= {name: getattr(self, name) for name in ("format", "delimiter", "encoding")}
        labelled = self.labelled or split != "test" or self.test is None
        return TextTable(file, part, **columns, labelled=labelled, held_out=held_out, seed=self.split_seed)
