"""The splits of Karpathy and Fei-Fei for Flickr8k, Flickr30k and MS-COCO: one JSON file each."""

from __future__ import annotations

from pathlib import Path

from omegamax._arguments import check_choice
from omegamax.data.captions.entry import CaptionEntry, check_entries
from omegamax.data.files import DataError, FilePath, many_objects, read_json, value

SPLITS = {"train": ("train", "restval"), "val": ("val",), "test": ("test",)}


def read_karpathy(path: FilePath, split: str) -> list[CaptionEntry]:
    """Return the pictures of a part with their captions, as the file has cut them into words.

    Args:
        path: ``dataset_flickr8k.json``, ``dataset_flickr30k.json`` or ``dataset_coco.json``.
        split: ``"train"`` (with ``restval`` of MS-COCO, as is usual), ``"val"`` or ``"test"``.

    Reference: Karpathy and Fei-Fei, "Deep visual-semantic alignments for generating image descriptions" (CVPR 2015).
    """
    check_choice("read_karpathy", "split", split, tuple(SPLITS))
    path = Path(path)
    entries = []
    with many_objects():
        images = value(str(path), read_json(path), "images", list)
        for number, each in enumerate(images):
            place = f"{path}: images[{number}]"
            if value(place, each, "split", str) not in SPLITS[split]:
                continue
            name = value(place, each, "filename", str)
            folder = value(place, each, "filepath", str) if "filepath" in each else ""
            captions, texts = [], []
            for sentence in value(place, each, "sentences", list):
                words = value(place, sentence, "tokens", list)
                if not words or not all(isinstance(word, str) and word for word in words):
                    raise DataError(f"{place}: 'tokens' must be a list of words, got {words!r:.60}; mend or remove it")
                captions.append(tuple(words))
                texts.append(value(place, sentence, "raw", str).strip() if "raw" in sentence else " ".join(words))
            if not captions:
                raise DataError(f"{place} has no sentences; mend or remove it")
            image = f"{folder}/{name}" if folder else name
            entries.append(CaptionEntry(image, tuple(captions), texts=tuple(texts)))
    return check_entries(path, entries, f"pictures of the part {split!r}")
