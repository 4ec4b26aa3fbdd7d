"""The sets as numbers: words of every part one behind the other, and a vector for each word to start from.

Reading and splitting 50,000 reviews takes a minute; what comes of it is kept in a folder, one file for each set (and
fold), and one for the vectors of all words together.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax.data import Vocabulary
from omegamax.data.text import PackedTexts, TextWarning
from omegamax.data.wordllama import read_wordllama
from omegamax.tasks.text.data import TextData
from omegamax.tasks.text.sets import IMDBData, SentencesData, YelpHATData

SPLITS = ("train", "val", "test")
SENTENCES = ("mr", "sst2", "sst5", "trec", "subj")
HUMAN = ("50words", "100words", "200words")  # of Yelp-HAT
SETS = ("imdb", *SENTENCES)
FOLDS = 10  # of MR and Subj; the seed is the fold
LEAST = {"imdb": 5}  # times that a word must occur in the training part; 1 elsewhere
LENGTH = 512  # most words of a review


@dataclass(frozen=True)
class Part:
    """Texts of a part: words of all, where each begins and ends, classes, and shares of people who marked a word."""

    words: Tensor
    ends: Tensor
    label: Tensor
    marks: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        return self.ends.diff()

    def __len__(self) -> int:
        return len(self.label)

    def to(self, device: str) -> Part:
        """Return the same on a device; ends stay, for lengths are looked up by the CPU."""
        marks = None if self.marks is None else self.marks.to(device)
        return Part(self.words.to(device), self.ends, self.label.to(device), marks)


@dataclass(frozen=True)
class TextSet:
    """A set: its vocabulary, its parts, and vectors of its words ``[words, 256]``, None for sets that only test."""

    vocabulary: Vocabulary
    parts: dict[str, Part]
    vectors: Tensor | None


def folds_of(name: str, seed: int) -> int:
    """Return the fold that a seed tests on: that of its number, in sets that come without a test part."""
    return seed % FOLDS if name in ("mr", "subj") else 0


def describe(name: str, fold: int, folder: str, **changes: Any) -> TextData:
    """Return what reads a set."""
    settings: dict[str, Any] = {"length": LENGTH, "least": LEAST.get(name, 1), **changes}
    if name == "imdb":
        return IMDBData(str(Path(folder, "imdb")), **settings)
    if name in SENTENCES:
        place = str(Path(folder, "sentence_classification"))
        return SentencesData(place, name, fold=fold, folds=FOLDS, **settings)
    return YelpHATData(str(Path(folder, "yelp_hat")), name, whole=True, **settings)


def file_of(name: str, fold: int) -> str:
    return f"{name}-{fold}.npz" if name in ("mr", "subj") else f"{name}.npz"


def pack(folder: str, cache: str, name: str, fold: int = 0) -> None:
    """Read a set and write its numbers."""
    path = Path(cache, file_of(name, fold))
    if path.exists():
        return
    arrays: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)  # that reviews are cut is said in README.md
        if name in HUMAN:  # networks of IMDB read them: their words are those of IMDB
            vocabulary = load(cache, "imdb").vocabulary
            data, splits = describe(name, fold, folder), SPLITS[2:]
        else:
            data, splits = describe(name, fold, folder), SPLITS
            vocabulary = data.vocabulary
        for split in splits:
            packed = PackedTexts(data.read(split), vocabulary, LENGTH, split)
            arrays |= {f"{split}_{key}": value for key, value in _arrays(packed).items()}
    names = {"words": np.array(vocabulary.words), "answers": np.array(vocabulary.answers)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays, **names)


def _arrays(packed: PackedTexts) -> dict[str, Any]:
    items = [packed[index] for index in range(len(packed))]
    words = torch.cat([item["words"] for item in items]).numpy()
    assert words.max() < 1 << 16
    out = {"words": words.astype(np.uint16), "ends": np.cumsum([0, *packed.lengths.tolist()])}
    out["label"] = np.array([item["label"] for item in items], np.int8)
    if "marks" in items[0]:
        out["marks"] = torch.cat([item["marks"] for item in items]).numpy().astype(np.float32)
    return out


def pack_vectors(cache: str, source: Path | None = None) -> None:
    """Write the vectors of all words of all sets that are packed, from wordllama, in eight bits a number."""
    path = Path(cache, "vectors.npz")
    if path.exists():
        return
    words = sorted({str(word) for file in sorted(Path(cache).glob("*.npz")) for word in np.load(file)["words"]})
    vectors = read_wordllama(words, source).embedding()[2:]  # without padding and the unknown word
    scale = vectors.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
    arrays = {"scale": scale.half().numpy(), "vectors": (vectors / scale).round().to(torch.int8).numpy()}
    np.savez_compressed(path, words=np.array(words), **arrays)


@functools.cache
def _vectors(cache: str) -> tuple[dict[str, int], Tensor]:
    found = np.load(Path(cache, "vectors.npz"))
    vectors = torch.from_numpy(found["vectors"]).float() * torch.from_numpy(found["scale"]).float()
    return {str(word): place for place, word in enumerate(found["words"])}, vectors


@functools.cache
def load(cache: str, name: str, fold: int = 0) -> TextSet:
    """Return a set from the cache."""
    found = np.load(Path(cache, file_of(name, fold)))
    vocabulary = Vocabulary([str(w) for w in found["words"]], [str(a) for a in found["answers"]])
    parts = {}
    for split in SPLITS:
        if f"{split}_words" in found:
            words, ends = (
                torch.from_numpy(found[f"{split}_words"].astype(np.int32)),
                torch.tensor(found[f"{split}_ends"]),
            )
            marks = torch.from_numpy(found[f"{split}_marks"]) if f"{split}_marks" in found else None
            parts[split] = Part(words, ends, torch.from_numpy(found[f"{split}_label"].astype(np.int64)), marks)
    vectors = None
    if Path(cache, "vectors.npz").exists():
        place, table = _vectors(cache)
        rows = table[[place[word] for word in vocabulary.words]]
        scale = rows.std()
        unknown = rows.mean(0, keepdim=True)
        vectors = torch.cat([torch.zeros_like(unknown), unknown, rows]) / scale
    return TextSet(vocabulary, parts, vectors)
