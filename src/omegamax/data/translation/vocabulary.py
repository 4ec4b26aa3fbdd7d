"""The subwords of both languages, and the form that sentences have before they are cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from omegamax.data.subwords import EOS, Subwords
from omegamax.data.translation.form import TextForm
from omegamax.data.translation.pair import SentencePair


class PairVocabulary:
    """From sentences of two languages to tokens, and back.

    Args:
        source: subwords of the source.
        target: those of the target; None: both languages share one set.
        form: of the sentences; None: as they are, in NFC.

    >>> pairs = [SentencePair("ein Hund", "a dog", "1")]
    >>> vocabulary = PairVocabulary.learn(pairs, kind="words", joint=False, form=TextForm(lowercase=True))
    >>> vocabulary.encode_source("Ein Hund"), vocabulary.decode([5, 4, 2]), vocabulary.joint
    ([4, 5, 2], 'dog a', False)
    >>> vocabulary
    6 and 6 subwords (lower-cased, NFC, to 'hund', 'dog')
    """

    def __init__(self, source: Subwords, target: Subwords | None = None, form: TextForm | None = None) -> None:
        self.source, self.target = source, source if target is None else target
        self.form = TextForm() if form is None else form
        self.joint = target is None

    @classmethod
    def learn(
        cls,
        pairs: Iterable[SentencePair],
        kind: str = "bpe",
        size: int = 8000,
        joint: bool = True,
        least: int = 1,
        form: TextForm | None = None,
    ) -> PairVocabulary:
        """Learn the subwords of a training part.

        Args:
            pairs: read once if the languages share their subwords, else twice.
            kind, size, least: as for :meth:`Subwords.learn`; of each language if ``joint`` is False.
            joint: one set of subwords for both languages.
            form: of the sentences; None: as they are, in NFC.
        """
        form = TextForm() if form is None else form
        if joint:
            both = chain.from_iterable((form(pair.source), form(pair.target)) for pair in pairs)
            return cls(Subwords.learn(both, kind, size, least), form=form)
        pairs = list(pairs)
        source = Subwords.learn((form(pair.source) for pair in pairs), kind, size, least)
        return cls(source, Subwords.learn((form(pair.target) for pair in pairs), kind, size, least), form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairVocabulary) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # The last tokens of each tell sets of one size apart.
        sides = [self.source] if self.joint else [self.source, self.target]
        last = ", ".join(repr(side.tokens[-1]) for side in sides)
        sizes = " and ".join(f"{len(side):,}" for side in sides)
        return f"{sizes} {'shared ' if self.joint else ''}subwords ({self.form.label}, to {last})"

    def encode_source(self, text: str) -> list[int]:
        """Return the tokens of a sentence, and the end."""
        return [*self.source.encode(self.form(text)), EOS]

    def encode_target(self, text: str) -> list[int]:
        """Return the tokens of a translation, and the end."""
        return [*self.target.encode(self.form(text)), EOS]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of a translation."""
        return self.target.decode(tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return lists and words, to be saved with a network."""
        target = None if self.joint else self.target.to_dict()
        return {"source": self.source.to_dict(), "target": target, "form": self.form.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PairVocabulary:
        """Return what :meth:`to_dict` wrote; what is no such record is a ValueError, KeyError or TypeError."""
        target = None if record["target"] is None else Subwords.from_dict(record["target"])
        return cls(Subwords.from_dict(record["source"]), target, TextForm(**record["form"]))
