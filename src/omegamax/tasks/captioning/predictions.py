"""Captions that a network wrote, and where it looked for each word: the files that other commands read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from omegamax.data.arrays import list_arrays, read_array
from omegamax.data.files import DataError, read_json_lines, value
from omegamax.tasks.whole import whole_file

CAPTIONS, MAPS = "captions.jsonl", "maps.npz"


@dataclass(frozen=True, eq=False)
class CaptionPrediction:
    """A caption that a network wrote.

    Args:
        image: file name of the picture.
        caption: as a text.
        tokens: its T words, the end not among them.
        log_probability: of the caption with its end; None where it is not known.
        references: what people wrote of the picture, if that is known.
        maps: attention of each word, ``[T, h, w]``, exact zeros included; None where it was not kept.
    """

    image: str
    caption: str
    tokens: tuple[str, ...]
    log_probability: float | None = None
    references: tuple[str, ...] = ()
    maps: Tensor | None = None

    def __post_init__(self) -> None:
        if self.maps is not None and (self.maps.dim() != 3 or len(self.maps) != len(self.tokens)):
            wanted, given = f"[{len(self.tokens)}, h, w], a map for each word", tuple(self.maps.shape)
            raise ValueError(f"CaptionPrediction: maps must be {wanted}, got shape {given} for {self.image}")

    def to_dict(self) -> dict[str, Any]:
        """Return the line of ``captions.jsonl``: all but the maps."""
        known = {} if self.log_probability is None else {"log_probability": self.log_probability}
        told = {"references": list(self.references)} if self.references else {}
        return {"image": self.image, "caption": self.caption, "tokens": list(self.tokens), **known, **told}


class CaptionPredictions(Sequence[CaptionPrediction]):
    """The captions of one network, a picture each, as a folder has them: ``captions.jsonl`` and ``maps.npz``.

    A line of the first file is an object with ``image``, ``caption``, ``tokens``, ``log_probability`` and
    ``references``; the second has for each name of a picture the maps ``[T, h, w]`` in half precision, in which a zero
    is exactly that. What is positive but too small for half precision is stored as the smallest number it has, so that
    zeros in the file are zeros of the network.

    Args:
        predictions: in any order; no picture twice.

        >>> import tempfile
        >>> maps = torch.tensor([[[1.0, 0.0]], [[0.25, 0.75]]])
        >>> written = CaptionPredictions([CaptionPrediction("a.jpg", "a dog", ("a", "dog"), -1.5, ("one dog",), maps)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written.save(folder)
        ...     read = CaptionPredictions.load(folder)
        >>> read["a.jpg"].tokens, read[0].maps
        (('a', 'dog'), tensor([[[1.0000, 0.0000]],
        <BLANKLINE>
                [[0.2500, 0.7500]]]))
    """

    def __init__(self, predictions: Iterable[CaptionPrediction]) -> None:
        self._all = tuple(predictions)
        self._by_image = {each.image: each for each in self._all}
        if len(self._by_image) < len(self._all):
            names = [each.image for each in self._all]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"CaptionPredictions: each picture must occur once, got {twice!r} more than once")

    @property
    def images(self) -> tuple[str, ...]:
        """Return the names of the pictures, in order."""
        return tuple(self._by_image)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[CaptionPrediction]:
        return iter(self._all)

    @overload
    def __getitem__(self, index: int | str) -> CaptionPrediction: ...
    @overload
    def __getitem__(self, index: slice) -> CaptionPredictions: ...
    def __getitem__(self, index: int | str | slice) -> CaptionPrediction | CaptionPredictions:
        """Return a caption by its place or by the name of its picture, or several by a slice."""
        if isinstance(index, str):
            return self._by_image[index]
        return CaptionPredictions(self._all[index]) if isinstance(index, slice) else self._all[index]

    def __contains__(self, image: object) -> bool:
        return image in self._by_image if isinstance(image, str) else image in self._all

    def save(self, folder: str | PathLike[str]) -> None:
        """Write both files to a folder; without any maps, the first alone."""
        with whole_file(Path(folder) / CAPTIONS) as place:
            lines = [json.dumps(each.to_dict(), ensure_ascii=False) for each in self._all]
            place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        arrays: dict[str, Any] = {each.image: _halve(each.maps) for each in self._all if each.maps is not None}
        if arrays:
            with whole_file(Path(folder) / MAPS) as place, place.open("wb") as file:
                np.savez_compressed(file, **arrays)
        else:
            (Path(folder) / MAPS).unlink(missing_ok=True)  # of captions that are no longer there

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CaptionPredictions:
        """Read the captions of a folder, or of a file with another name that has the maps, if any, beside it."""
        path = Path(path)
        path = path / CAPTIONS if path.is_dir() else path
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist; write captions with `omegamax caption predict`")
        maps = path.with_name(MAPS)
        known = set(list_arrays(maps)) if maps.is_file() else set()
        found = [_read(place, entry, maps, known) for place, entry in read_json_lines(path)]
        try:
            return cls(found)
        except ValueError as error:
            raise DataError(f"{path}: {error}; get the file again") from error


def _halve(maps: Tensor) -> np.ndarray:
    """Return maps in half precision, in which nothing positive becomes zero."""
    half = maps.detach().cpu().half()
    least = torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps  # the smallest there is
    return torch.where((maps.cpu() > 0) & (half == 0), torch.full_like(half, least), half).numpy()


def _read(place: str, entry: dict[str, Any], maps: Path, known: set[str]) -> CaptionPrediction:
    image, caption = value(place, entry, "image", str), value(place, entry, "caption", str)
    tokens = _texts(place, entry, "tokens")
    references = _texts(place, entry, "references") if "references" in entry else ()
    log_probability = None
    if entry.get("log_probability") is not None:
        log_probability = float(value(place, entry, "log_probability", (int, float)))
        if math.isnan(log_probability) or log_probability > 0:
            raise DataError(f"{place}: 'log_probability' must be at most 0, got {log_probability}; mend the line")
    shown = None
    if image in known:
        shown = torch.from_numpy(read_array(maps, image).astype(np.float32))
        if shown.dim() != 3 or len(shown) != len(tokens) or not bool((shown >= 0).all()):
            wanted = f"({len(tokens)}, h, w), attention >= 0 of each word"
            raise DataError(f"{maps}: {image} must have the shape {wanted}, got {tuple(shown.shape)}; get it again")
    return CaptionPrediction(image, caption, tokens, log_probability, references, shown)


def _texts(place: str, entry: dict[str, Any], key: str) -> tuple[str, ...]:
    found = value(place, entry, key, list)
    if not all(isinstance(each, str) for each in found):
        raise DataError(f"{place}: {key!r} must be a list of texts; mend or remove the line")
    return tuple(found)
