"""What is measured of translations, and of the distributions they were found by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import MeanMetric

from omegamax.data.text import split_words
from omegamax.data.translation import PAD, TextForm
from omegamax.metrics import rep_score
from omegamax.tasks.translation.bleu import BLEUReport, measure_bleu
from omegamax.tasks.translation.coverage import WordAligner
from omegamax.tasks.translation.search import Translation

Line = tuple[str, str, str]  # translation, reference, source
_MEANS = ("loss", "support", "exact", "complete", "empty", "repeated", "length")


class TranslationScores(torch.nn.Module):
    """Measures of a split, collected over batches and processes.

    ``compute()`` is a dict: ``loss``; ``support``, the mean number of tokens that can follow, given the reference up to
    there; ``exact`` and ``complete``, the shares of searches that are proven to have found the best translation, or the
    only one there is, for they keep one; ``length``, tokens of a translation (of these three, a sentence without words,
    for which none is made, knows nothing); ``empty``, the share of translations without words; ``repeated``, of those
    that say a word, or four words, twice in a row; ``rep``, see :func:`~omegamax.metrics.rep_score`, of words in lower
    case; ``drop``, see :func:`~omegamax.metrics.drop_score`, if there is an aligner; and ``bleu``.

    Args:
        form: of the sentences, stated beside the score.
        aligner: of source words and translations; None: ``drop`` is not measured.
    """

    def __init__(self, form: TextForm, aligner: WordAligner | None = None) -> None:
        super().__init__()
        self.form, self.aligner = form, aligner
        self.means = torch.nn.ModuleDict({name: MeanMetric() for name in _MEANS})
        self.lines: dict[str, Line] = {}

    def update(
        self,
        ids: Sequence[str],
        loss: Tensor,
        support: Tensor,
        target: Tensor,
        found: Sequence[Translation],
        references: Sequence[str],
        sources: Sequence[str],
    ) -> None:
        """Add a batch: its loss, how many tokens can follow, ``[B, T]`` as its target, and what a search found."""
        there = target != PAD
        self._mean("loss").update(loss, there.sum())
        self._mean("support").update(support[there].float())
        texts = [each.text for each in found]
        searched = [each for each in found if each.hypotheses]
        values = {
            "exact": [each.exact for each in searched],
            "complete": [each.complete for each in searched],
            "length": [len(each.hypotheses[0].tokens) for each in searched],
            "empty": [not text.strip() for text in texts],
            "repeated": [repeats(text) for text in texts],
        }
        for name, each in values.items():
            self._mean(name).update(torch.tensor(each, dtype=torch.float32, device=loss.device))
        self.lines |= dict(zip(ids, zip(texts, references, sources, strict=True), strict=True))

    def gather(self) -> dict[str, Line]:
        """Return translations, references and sources of all processes, by the ids of the pairs."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts: list[dict[str, Line]] = [{}] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(parts, self.lines)
            return {id: pair for part in parts for id, pair in part.items()}
        return self.lines

    def compute(self) -> tuple[dict[str, float], BLEUReport]:
        """Return the means over all pairs so far, and the BLEU score."""
        lines = self.gather()
        texts, references, sources = ([line[side] for line in lines.values()] for side in (0, 1, 2))
        report = measure_bleu(texts, references, self.form)
        values = {name: float(self._mean(name).compute()) for name in _MEANS}
        said, wanted = ([split_words(self.form(text).lower()) for text in side] for side in (texts, references))
        values["rep"] = float(rep_score(said, wanted))
        if self.aligner is not None:
            values["drop"] = self.aligner.measure_drop(sources, texts, references)
        return {**values, "bleu": report.score}, report

    def reset(self) -> None:
        """Forget all pairs."""
        self.lines = {}
        for name in _MEANS:
            self._mean(name).reset()

    def _mean(self, name: str) -> MeanMetric:
        metric = self.means[name]
        assert isinstance(metric, MeanMetric)
        return metric


def repeats(text: str) -> bool:
    """Tell whether a word, or a run of two to four words, stands twice in a row.

    >>> [repeats(text) for text in ("a man and a man", "a man a man", "very very good", "")]
    [False, True, True, False]
    """
    words = text.split()
    return any(
        words[start : start + size] == words[start + size : start + 2 * size]
        for size in (1, 2, 3, 4)
        for start in range(len(words) - 2 * size + 1)
    )
