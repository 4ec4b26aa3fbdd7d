"""Multi30k as numbers, written once: pairs, subwords, and the ways that BPE dropout cuts words in."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

from omegamax.data.translation import Lexicon, Multi30k, PackedPairs, PairVocabulary, TextForm

DROPOUT = 0.1
SIZES = (4000, 8000)
FORMS = {"lower": TextForm(lowercase=True), "cased": TextForm()}


@dataclass(frozen=True)
class PairSet:
    """The parts of a set, its subwords, and the most words that each source token was ever aligned with."""

    vocabulary: PairVocabulary
    parts: dict[str, PackedPairs]
    fertilities: list[float]


def file_of(cache: str | Path, size: int, form: str) -> Path:
    """Return the file of a packed set."""
    return Path(cache, f"multi30k-{size}-{form}.pkl")


def pack(data: str, cache: str, size: int, form: str, count: int | None = None) -> None:
    """Write the set with so many joint subwords; ``count``: pairs of each part at most."""
    corpora = {split: list(Multi30k(Path(data, "multi30k"), split))[:count] for split in ("train", "val", "test")}
    vocabulary = PairVocabulary.learn(corpora["train"], size=size, least=2, form=FORMS[form])
    parts = {
        split: PackedPairs(pairs, vocabulary, None, split == "train", split, DROPOUT if split == "train" else 0.0)
        for split, pairs in corpora.items()
    }
    train = list(parts["train"].rows())
    tokens = len(vocabulary.source)
    found = Lexicon(train, tokens).fertilities(train, tokens, default=2.0).clamp(min=1.0)
    place = file_of(cache, size, form)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".new").open("wb") as file:
        pickle.dump((vocabulary.to_dict(), parts, found.tolist()), file)
    place.with_suffix(".new").rename(place)
    print(f"{place}: {', '.join(f'{len(part):,} {split}' for split, part in parts.items())}", flush=True)


def load(cache: str | Path, size: int, form: str) -> PairSet:
    """Read what :func:`pack` wrote."""
    with file_of(cache, size, form).open("rb") as file:
        vocabulary, parts, fertilities = pickle.load(file)
    return PairSet(PairVocabulary.from_dict(vocabulary), parts, fertilities)
