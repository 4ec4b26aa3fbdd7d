"""The sets of documents: the embedded one, reviews of films, and files of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omegamax.data.corpus import SPLITS
from omegamax.data.language import EmbeddedReviews, IMDBReviews, TextFiles
from omegamax.tasks.language.data import LanguageData
from omegamax.tasks.run_data import Limit


class EmbeddedReviewsData(LanguageData):
    """Short reviews made on the spot, :class:`~omegamax.data.language.EmbeddedReviews`; needs no file.

    Args:
        samples: numbers of reviews for training, validation and test.
        review_seed: of the reviews.
        subwords: words by default, of which there are few.
        settings: as for :class:`LanguageData`.

    Example:
        >>> data = EmbeddedReviewsData(samples=(40, 4, 4), length=32)
        >>> next(iter(data.val_dataloader()))["tokens"].shape[1]
        33
    """

    limits: ClassVar[Mapping[str, Limit]] = {**LanguageData.limits, "samples": Limit(0, 1 << 28, numbers=3)}

    def __init__(
        self,
        samples: tuple[int, int, int] = (6000, 300, 500),
        review_seed: int = 0,
        subwords: str = "words",
        **settings: Any,
    ) -> None:
        super().__init__(subwords=subwords, **settings)
        self.samples, self.review_seed = tuple(samples), review_seed

    def read(self, split: str) -> EmbeddedReviews:
        return EmbeddedReviews(dict(zip(SPLITS, self.samples, strict=True))[split], split, seed=self.review_seed)


class IMDBReviewsData(LanguageData):
    """Reviews of films as they are written, :class:`~omegamax.data.language.IMDBReviews`.

    Args:
        folder: with the files of :class:`~omegamax.data.text.IMDB`.
        held_out: share of the training part that validation takes.
        split_seed: of which these are.
        settings: as for :class:`LanguageData`.
    """

    def __init__(self, folder: str, held_out: float = 0.05, split_seed: int = 0, **settings: Any) -> None:
        super().__init__(**settings)
        self.folder, self.held_out, self.split_seed = folder, held_out, split_seed

    def read(self, split: str) -> IMDBReviews:
        return IMDBReviews(self.folder, split, held_out=self.held_out, seed=self.split_seed)


class TextFilesData(LanguageData):
    """Text files of one's own, :class:`~omegamax.data.language.TextFiles`.

    Args:
        files: of text, plain or compressed by xz or gzip.
        unit: what a document is, ``"file"``, ``"paragraph"`` or ``"line"``.
        held_out: share for validation, and as much again for the test.
        split_seed: of which these are, where documents are drawn.
        encoding: of the files.
        settings: as for :class:`LanguageData`.
    """

    def __init__(
        self,
        files: list[str],
        unit: str = "file",
        held_out: float = 0.05,
        split_seed: int = 0,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.files, self.unit, self.held_out = list(files), unit, held_out
        self.split_seed, self.encoding = split_seed, encoding

    def read(self, split: str) -> TextFiles:
        settings: dict[str, Any] = {"held_out": self.held_out, "seed": self.split_seed, "encoding": self.encoding}
        return TextFiles(self.files, split, unit=self.unit, **settings)
