"""Data with words: the vocabulary of a training part, or of a file."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any

from omegamax.data import Vocabulary
from omegamax.tasks.run_data import RunData


class VocabularyData(RunData):
    """Samples with words and answers, and the vocabulary that numbers them.

    Args:
        vocabulary_file: JSON with words and answers; None: those of the training part.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    def __init__(self, vocabulary_file: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.vocabulary_file = vocabulary_file
        self._vocabulary: Vocabulary | None = None

    @abc.abstractmethod
    def own_vocabulary(self) -> Vocabulary:
        """Collect the words and answers of the training part."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary: words and answers with their indices."""
        if self._vocabulary is None:
            path = self.vocabulary_file
            if path is not None and not Path(path).is_file():
                raise FileNotFoundError(
                    f"{path} does not exist; give vocabulary_file a file that Vocabulary.save wrote"
                )
            self._vocabulary = self.own_vocabulary() if path is None else Vocabulary.load(path)
        return self._vocabulary
