"""Multi30k: descriptions of photographs in two languages."""

from __future__ import annotations

from collections.abc import Iterator

from omegamax._arguments import check_choice
from omegamax.data.files import FilePath, check_folder, find
from omegamax.data.translation.files import PairFiles
from omegamax.data.translation.pair import ParallelCorpus, SentencePair

MULTI30K_TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
_PARTS = {"train": "train", "val": "val"}


class Multi30k(ParallelCorpus):
    """Multi30k, task 1: 29,000 pairs to learn from, 1,014 for validation, and tests of 1,000, 1,000 and 461.

    ``folder`` holds ``train.de``, ``train.en``, ``val.de`` and so on (also ``.gz``, ``.xz``), as distributed under
    ``data/task1/raw``: neither tokenised nor lower-cased.

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        source, target: endings of the languages.
        test: which of the tests, ``"test_2016_flickr"``, ``"test_2017_flickr"`` or ``"test_2017_mscoco"``.

    Reference: Elliott et al., "Multi30K: Multilingual English-German image descriptions" (2016).
    """

    def __init__(
        self,
        folder: FilePath,
        split: str = "train",
        *,
        source: str = "de",
        target: str = "en",
        test: str = "test_2016_flickr",
    ) -> None:
        super().__init__(split)
        check_choice("Multi30k", "test", test, MULTI30K_TESTS)
        self.folder = check_folder("Multi30k", folder)
        part = _PARTS.get(split, test)
        files = [
            find("Multi30k", self.folder, [f"{part}.{language}{ending}" for ending in ("", ".gz", ".xz")])
            for language in (source, target)
        ]
        self._files = PairFiles(files[0], files[1], split)

    def __iter__(self) -> Iterator[SentencePair]:
        return iter(self._files)
