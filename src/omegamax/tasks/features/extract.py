"""Grid features of pictures, one file each, in the formats that :mod:`omegamax.data.vqa2` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omegamax._warnings import warn_user
from omegamax.data.files import DataError, FilePath, read_json
from omegamax.data.pictures import Size
from omegamax.data.skip import BrokenSampleWarning
from omegamax.tasks.features.backbones import Backbone, BackboneError
from omegamax.tasks.features.pictures import Picture
from omegamax.tasks.features.pictures import find_pictures as find_pictures
from omegamax.tasks.features.principal import Moments, Principal
from omegamax.tasks.features.views import Views

SETTINGS, PROJECTION = "features.json", "projection.safetensors"
DTYPES = {"float32": torch.float32, "float16": torch.float16}
MOST_MOMENTS = 500  # pictures from which the principal components are computed


@dataclass
class Done:
    """What a run did: files written, files that were there, pictures that could not be read, with the reason.

    ``share`` is that of the variance which principal components keep, where they were asked for.
    """

    settings: dict[str, Any]
    written: int = 0
    kept: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    share: float | None = None


@torch.no_grad()
def extract(
    backbone: Backbone,
    pictures: list[Picture],
    out: FilePath,
    *,
    size: Size | None = None,
    scales: Sequence[Size] = (),
    crops: int = 1,
    mirror: bool = False,
    grid: Size | None = None,
    channels: int | None = None,
    format: str = "npz",
    dtype: str = "float32",
    batch_size: int = 16,
    device: str | torch.device = "cpu",
    workers: int = 0,
    overwrite: bool = False,
    skip_broken: bool = False,
    report: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Done:
    """Write the features of ``pictures`` to the folder ``out``; files that are there are kept.

    ``features.json`` in the folder says how they were made; other settings into the same folder are an error.

    Args:
        backbone: see :func:`omegamax.tasks.features.backbones.load_backbone`.
        pictures: see :func:`find_pictures`.
        out: made if it is not there.
        size: height and width that each picture is brought to, whatever its proportions, so that the cells cover all
            of it; None for those of the backbone, or 448 x 448.
        scales, crops, mirror: more views of each picture, see :class:`~omegamax.tasks.features.views.Views`: other
            sizes, pieces that are seen in ``size`` each, mirror images.
        grid: rows and columns; cells of the map are averaged. None leaves the map as it is.
        channels: how many principal components of the features are kept, computed from up to 500 of these pictures
            in the first run and stored in the folder; None keeps the features as they are.
        format: ``"npz"``, (L, D), for square grids, or ``"pth"``, (1, D, H, W).
        dtype: of the numbers in the files; ``"float16"`` takes half the space.
        batch_size, device, workers: pictures at once, where they are computed, processes that read them (0: this one).
        overwrite: write files that are there again.
        skip_broken: pass over what cannot be read, with a counted warning, instead of stopping.
        report: called with a word for the step, the pictures done in it, and how many there are.
    """
    out, size = Path(out), size or backbone.size or (448, 448)
    if format not in ("npz", "pth") or dtype not in DTYPES:
        raise ValueError(f"extract: format must be npz or pth and dtype {' or '.join(DTYPES)}; got {format}, {dtype}")
    views = Views(size, tuple(scales), crops, mirror)
    fingerprint = backbone.fingerprint()
    backbone = backbone.to(device)
    shape = _maps(backbone, views, [torch.zeros(1, 3, *each, dtype=torch.uint8) for each in views.sizes], grid).shape
    if format == "npz" and shape[2] != shape[3]:
        raise ValueError(f"a grid of {shape[2]} x {shape[3]} needs the format pth, or give a square one")
    if channels is not None and not 1 <= channels <= shape[1]:
        raise ValueError(f"the backbone has {shape[1]} channels; {channels} of them cannot be kept")
    settings: dict[str, Any] = {
        "backbone": backbone.name,
        "layer": backbone.layer,
        "weights": fingerprint,
        "size": list(size),
        "views": views.describe(),
        "grid": list(shape[2:]),
        "dim": channels or shape[1],
        "principal_of": shape[1] if channels else None,
        "mean": backbone.mean.flatten().tolist(),
        "std": backbone.std.flatten().tolist(),
        "format": format,
        "dtype": dtype,
    }
    files = [out / f"{picture.stem}.{format}" for picture in pictures]
    _agree(out, settings, files)
    done = Done(settings)
    loading = {"batch_size": batch_size, "num_workers": workers, "collate_fn": list}

    def batches(chosen: list[Picture], what: str) -> Iterator[tuple[list[int], Tensor]]:
        seen = 0
        report(what, 0, len(chosen))
        for batch in DataLoader(_Images(chosen, views), **loading):  # type: ignore[arg-type]
            for index, message in ((i, image) for i, image in batch if isinstance(image, str)):
                _describe_broken(done, chosen[index], message, skip_broken, len(pictures))
            read = [(index, image) for index, image in batch if not isinstance(image, str)]
            if read:
                images = [torch.stack(several) for several in zip(*(image for _, image in read), strict=True)]
                yield [index for index, _ in read], _maps(backbone, views, images, grid)
            seen += len(batch)
            report(what, seen, len(chosen))

    principal: Principal | None = None
    if channels is not None:
        principal = _projection(out, channels, pictures, lambda chosen: batches(chosen, "directions")).to(device)
        done.share = principal.share
    wanted = [i for i, path in enumerate(files) if overwrite or not path.exists()]
    done.kept = len(files) - len(wanted)
    for indices, maps in batches([pictures[i] for i in wanted], "features"):
        maps = principal(maps) if principal is not None else maps
        stored = maps.to(DTYPES[dtype]).cpu()
        for index, features in zip(indices, stored, strict=True):
            if not bool(features.isfinite().all()):
                remedy = "take dtype float32" if bool(maps.isfinite().all()) else "check the backbone's weights"
                raise DataError(f"{files[wanted[index]]}: features are infinite or no numbers; {remedy}")
            write_features(files[wanted[index]], features)
            done.written += 1
    return done


def write_features(path: Path, features: Tensor) -> None:
    """Write a map ``[D, h, w]`` to a ``.npz`` or ``.pth`` file in its own precision, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            if path.suffix == ".npz":
                np.savez(file, x=features.flatten(1).T.contiguous().numpy())
            else:
                torch.save(features[None].clone(), file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Images(Dataset[tuple[int, "list[Tensor] | str"]]):
    """Views of pictures by index; for one that cannot be read, the reason."""

    def __init__(self, pictures: list[Picture], views: Views) -> None:
        self.pictures, self.views = pictures, views

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[int, list[Tensor] | str]:
        picture = self.pictures[index]
        try:
            return index, self.views.make(picture.source[picture.name])
        except (DataError, FileNotFoundError) as error:
            return index, str(error)


def _maps(backbone: Backbone, views: Views, images: Sequence[Tensor], grid: Size | None) -> Tensor:
    seen: list[Tensor] = []

    def look(part: Tensor) -> Tensor:
        seen[:] = [part]
        return backbone(part)

    try:
        return views.see(look, [each.to(backbone.mean.device).float() / 255 for each in images], grid)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        size, reason = " x ".join(map(str, seen[0].shape[2:])), str(error).splitlines()
        remedy = "; give the size it was made for" if "layer" not in str(error) else ""
        why = reason[0] if reason else type(error).__name__
        raise BackboneError(f"{backbone.name} cannot take pictures of {size}: {why}{remedy}") from error


def _agree(out: Path, settings: dict[str, Any], files: list[Path]) -> None:
    """Write the settings to a new folder; refuse one that was made with others."""
    path = out / SETTINGS
    if path.exists():
        before = read_json(path)
        if not isinstance(before, dict):
            raise DataError(f"{path} must be an object {{...}}; give another folder")
        before.setdefault("views", Views((1, 1)).describe())  # what was written before there were several
        differ = [key for key in settings if before.get(key) != settings[key]]
        if differ:
            parts = "; ".join(f"{key} {before.get(key)!r}, now {settings[key]!r}" for key in differ)
            raise DataError(f"{out} holds features made otherwise ({parts}); give another folder, or empty this one")
        return
    there = next((file for file in files if file.exists()), None)
    if there is not None:
        raise DataError(f"{there} is there, but no {SETTINGS} that says how it was made; give another folder")
    out.mkdir(parents=True, exist_ok=True)
    temporary = out / f".{SETTINGS}.{os.getpid()}.part"
    temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def _projection(out: Path, channels: int, pictures: list[Picture], maps: Callable[..., Any]) -> Principal:
    """Return the principal components: of the folder, or computed from pictures spread evenly over all."""
    path = out / PROJECTION
    if not path.exists():
        moments = Moments()
        for _, batch in maps(pictures[:: -(-len(pictures) // MOST_MOMENTS)]):
            moments.add(batch)
        moments.principal(channels).save(path)
    return Principal.load(path)


def _describe_broken(done: Done, picture: Picture, message: str, skip: bool, total: int) -> None:
    if not skip:
        raise DataError(f"{message}, or pass over such pictures (skip_broken)")
    if done.broken.setdefault(picture.stem, message) is not message:
        return  # was met before, on the way to the principal components
    count = f"{len(done.broken)} so far, of {total}"
    warn_user(f"a picture is passed over ({count}): {message}", BrokenSampleWarning)
