"""Flickr8k as it is distributed: a file of captions, and a list of the pictures of each part."""

from __future__ import annotations

from pathlib import Path

from omegamax._arguments import check_choice
from omegamax.data.captions.entry import CaptionEntry, check_entries, split_caption
from omegamax.data.files import DataError, FilePath, check_folder, find, read_lines

SPLITS = {"train": "train", "val": "dev", "test": "test"}
CAPTIONS = "Flickr8k.token.txt"
ENDINGS = ("", ".xz", ".gz")


def read_flickr8k(folder: FilePath, split: str) -> list[CaptionEntry]:
    """Return the pictures of a part of Flickr8k with their captions, in the order of its list.

    Args:
        folder: with ``Flickr8k.token.txt`` and ``Flickr_8k.trainImages.txt``, ``devImages`` and ``testImages``, plain
            or compressed by xz or gzip.
        split: ``"train"``, ``"val"`` or ``"test"``.

    Reference: Hodosh, Young and Hockenmaier, "Framing image description as a ranking task" (JAIR 2013).
    """
    name = "read_flickr8k"
    check_choice(name, "split", split, tuple(SPLITS))
    path = check_folder(name, folder)
    texts = find(name, path, [f"{CAPTIONS}{end}" for end in ENDINGS])
    part = find(name, path, [f"Flickr_8k.{SPLITS[split]}Images.txt{end}" for end in ENDINGS])
    captions = _read_captions(texts)
    entries = []
    for place, line in read_lines(part):
        image = line.strip()
        if image not in captions:
            raise DataError(f"{place}: {image[:80]} has no caption in {texts.name}; get the files again")
        words, said = zip(*captions[image], strict=True)
        entries.append(CaptionEntry(image, words, texts=said))
    return check_entries(part, entries, "pictures")


def _read_captions(path: Path) -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Return words and text of each caption, by the names of the pictures."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for place, line in read_lines(path):
        key, tab, text = line.partition("\t")
        image, hash_, number = key.rpartition("#")
        if not tab or not hash_ or not number.isdecimal():
            raise DataError(f"{place} must be NAME#NUMBER, a tab and a caption, got {line[:60]!r}; get the file again")
        found.setdefault(image, []).append((split_caption(place, text), text.strip()))
    return found
