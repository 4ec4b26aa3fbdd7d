"""Source words that translations leave out, by an aligner that is learnt from the training part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from omegamax._arguments import check_integer
from omegamax.data.text import split_words
from omegamax.data.translation import Lexicon, SentencePair, TextForm
from omegamax.metrics import drop_score

_ITERATIONS = 5


class WordAligner:
    """Which words of a sentence and of its translation belong together, by IBM model 1; words in lower case.

    Args:
        pairs: to learn from.
        form: of the sentences before they are cut into words.
        most: pairs that are read, the first ones.

    >>> known = {"ein Hund": "a dog", "ein": "a", "Hund": "dog"}
    >>> aligner = WordAligner(SentencePair(source, target, source) for source, target in known.items())
    >>> aligner.align(["Ein Hund"], ["Dog"])
    [[(1, 0)]]
    >>> aligner.measure_drop(["ein Hund"], ["dog"], ["a dog"])
    50.0
    """

    def __init__(self, pairs: Iterable[SentencePair], form: TextForm | None = None, most: int = 50_000) -> None:
        check_integer("WordAligner", "most", most, least=1)
        self.form = TextForm() if form is None else form
        self._source: dict[str, int] = {}
        self._target: dict[str, int] = {}
        rows = [
            (_number(self._source, self._cut(pair.source)), _number(self._target, self._cut(pair.target)))
            for pair in islice(pairs, most)
        ]
        self.lexicon = Lexicon(rows, len(self._target) + 2, _ITERATIONS)

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return pairs of indices of words, for each sentence; words that were never seen have none."""
        sides = (sources, self._source), (targets, self._target)
        rows = [[[known.get(w, len(known) + 1) for w in self._cut(text)] for text in texts] for texts, known in sides]
        return self.lexicon.align_all(zip(*rows, strict=True))

    def measure_drop(self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> float:
        """Return the share of source words left out, in percent, see :func:`~omegamax.metrics.drop_score`."""
        return float(drop_score(self.align(sources, translations), self.align(sources, references)))

    def _cut(self, text: str) -> list[str]:
        return split_words(self.form(text).lower())


def _number(numbers: dict[str, int], words: Sequence[str]) -> list[int]:
    """Return the numbers of words, new ones for new words; 0 is the empty word."""
    return [numbers.setdefault(word, len(numbers) + 1) for word in words]
