"""BLEU by sacrebleu, with the signature that says how it was computed and the form that sentences were read in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omegamax.data.translation import TextForm


@dataclass(frozen=True)
class BLEUReport:
    """A BLEU score and what it means.

    Args:
        score: in percent.
        signature: sacrebleu's, ``nrefs:1|case:lc|...``.
        form: in which the network read and wrote sentences, ``"lower-cased, NFC"``.
        sentences: how many.
        brevity: length of the translations divided by that of the references.
    """

    score: float
    signature: str
    form: str
    sentences: int
    brevity: float

    def __str__(self) -> str:
        return f"BLEU {self.score:.2f} ({self.form}; {self.signature}; {self.sentences:,} sentences)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and words."""
        return asdict(self)


def measure_bleu(hypotheses: Sequence[str], references: Sequence[str], form: TextForm | None = None) -> BLEUReport:
    """Return the BLEU of translations against references as they are written, tokenised as sacrebleu does (13a).

    If the network lower-cases, so does the score; nothing else is done to the references.

    >>> str(measure_bleu(["A dog runs fast ."], ["a dog runs fast ."], TextForm(lowercase=True)))[:10]
    'BLEU 100.0'
    """
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    if len(hypotheses) != len(references) or not references:
        given = f"{len(hypotheses):,} and {len(references):,}"
        raise ValueError(f"measure_bleu: there must be as many translations as references, one at least, got {given}")
    form = TextForm() if form is None else form
    # Translations that look tokenised, as those of the embedded pair do, are scored without a word about it.
    metric = BLEU(lowercase=form.lowercase, force=True)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    brevity = found.sys_len / max(1, found.ref_len)
    return BLEUReport(found.score, str(metric.get_signature()), form.label, len(references), brevity)


def compare_bleu(
    first: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]], form: TextForm, samples: int = 1000
) -> tuple[float, float]:
    """Return the BLEU of translations less that of others, in points, and the p-value of sacrebleu's paired bootstrap.

    Where there is no difference the p-value is 1.

    Args:
        first, other: translation and reference by the ids of the sentences, the same for both.
        form: of the sentences.
        samples: of the bootstrap.
    """
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]
    from sacrebleu.significance import PairedTest

    systems = [("first", [first[id][0] for id in first]), ("other", [other[id][0] for id in first])]
    references = [[first[id][1] for id in first]]
    metrics = {"BLEU": BLEU(lowercase=form.lowercase, force=True)}
    found: Any = PairedTest(systems, metrics, references, "bs", samples)()[1]["BLEU"]  # type: ignore[arg-type]
    before, after = found
    gain = after.score - before.score
    # sacrebleu counts the samples that lie farther apart; of no difference at all none needs to, and p would be least.
    return gain, float(after.p_value) if gain else 1.0
