"""MS-COCO as it is distributed: captions, and the things that were marked in the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegamax.data.captions.entry import CaptionEntry, check_entries, split_caption
from omegamax.data.files import DataError, FilePath, many_objects, read_json, value


def read_coco(captions: FilePath, instances: Sequence[FilePath] = ()) -> list[CaptionEntry]:
    """Return the pictures of an annotation file with their captions, in the order of the file.

    Args:
        captions: ``captions_val2014.json`` and its like: ``images`` with ``id`` and ``file_name``, ``annotations`` with
            ``image_id`` and ``caption``. Pictures without a caption are left out.
        instances: files like ``instances_val2014.json``, for the names of the things in each picture: ``annotations``
            with ``image_id`` and ``category_id``, ``categories`` with ``id`` and ``name``.
    """
    path = Path(captions)
    with many_objects():
        content = read_json(path)
        names = _read_names(path, content)
        texts: dict[int, list[str]] = {key: [] for key in names}
        words: dict[int, list[tuple[str, ...]]] = {key: [] for key in names}
        for number, each in enumerate(value(str(path), content, "annotations", list)):
            place = f"{path}: annotations[{number}]"
            key = value(place, each, "image_id", int)
            if key not in texts:
                raise DataError(f"{place}: image_id {key} is not among the images of the file; get it again")
            texts[key].append(value(place, each, "caption", str).strip())
            words[key].append(split_caption(place, texts[key][-1]))
        objects = {key: names for each in instances for key, names in read_objects(each).items()}
    entries = [
        CaptionEntry(name, tuple(words[key]), tuple(objects.get(key, ())), tuple(texts[key]))
        for key, name in names.items()
        if texts[key]
    ]
    return check_entries(path, entries, "captions")


def read_objects(instances: FilePath) -> dict[int, list[str]]:
    """Return the names of the categories marked in each picture, by its number, each once and in order."""
    path = Path(instances)
    content = read_json(path)
    categories = {}
    for number, each in enumerate(value(str(path), content, "categories", list)):
        place = f"{path}: categories[{number}]"
        categories[value(place, each, "id", int)] = value(place, each, "name", str)
    found: dict[int, dict[str, None]] = {}
    for number, each in enumerate(value(str(path), content, "annotations", list)):
        place = f"{path}: annotations[{number}]"
        key, kind = value(place, each, "image_id", int), value(place, each, "category_id", int)
        if kind not in categories:
            raise DataError(f"{place}: category_id {kind} is not among the categories of the file; get it again")
        found.setdefault(key, {})[categories[kind]] = None
    return {key: list(names) for key, names in found.items()}


def _read_names(path: Path, content: object) -> dict[int, str]:
    names: dict[int, str] = {}
    for number, each in enumerate(value(str(path), content, "images", list)):
        place = f"{path}: images[{number}]"
        key = value(place, each, "id", int)
        if key in names:
            raise DataError(f"{place}: the id {key} is that of {names[key][:80]!r}, too; mend or remove it")
        names[key] = value(place, each, "file_name", str)
    return names
