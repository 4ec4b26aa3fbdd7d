"""The pictures of a set, or their features, found by the names in its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from omegamax.data.captions.entry import CaptionEntry
from omegamax.data.captions.sample import CaptionSample
from omegamax.data.files import DataError, FilePath, check_folder
from omegamax.data.paths import inside
from omegamax.data.pictures import Pictures, Size, check_size, resize
from omegamax.data.vqa2.features import SUFFIXES, read_grid


class CaptionedPictures(Dataset[CaptionSample]):
    """Pictures with captions, each read when it is asked for.

    Args:
        entries: names and captions, see :func:`~omegamax.data.captions.read_flickr8k` and its like.
        pictures: folders and zip archives in which the pictures are looked for, in this order.
        features: folder with features of the pictures, as ``omegamax features`` writes them, in their place.
        size: ``(height, width)`` that pictures are brought to; None leaves them as they are.
    """

    def __init__(
        self,
        entries: Sequence[CaptionEntry],
        pictures: Sequence[FilePath] = (),
        features: FilePath | None = None,
        size: Size | None = None,
    ) -> None:
        name = "CaptionedPictures"
        if (features is None) == (not pictures):
            given = "neither" if features is None else "both"
            raise ValueError(f"{name}: give either pictures or features, got {given}")
        self.entries, self.size = list(entries), check_size(name, size)
        self.features = None if features is None else check_folder(name, features)
        self.sources = []
        for source in map(Path, pictures):
            if not source.exists():
                raise FileNotFoundError(f"{name}: {source} does not exist; give folders or zip archives of pictures")
            self.sources.append(Pictures(source))

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> CaptionSample:
        entry = self.entries[index]
        settings: Any = {"captions": entry.captions, "objects": entry.objects, "texts": entry.texts}
        if self.features is not None:
            return CaptionSample(entry.image, features=self.read_features(entry.image), **settings)
        return CaptionSample(entry.image, image=self.read_picture(entry.image), **settings)

    def read_picture(self, image: str) -> Tensor:
        """Return the pixels of a picture, uint8 ``[3, H, W]``."""
        for source in self.sources:
            found = source.find([image, *_stems(image)])
            if found is not None:
                return resize(source[found], self.size)
        places = ", ".join(str(source.source) for source in self.sources)
        raise FileNotFoundError(f"there is no picture {image} in {places}; get it, or give another folder or archive")

    def read_features(self, image: str) -> Tensor:
        """Return the features of a picture, ``[h, w, D]``, in half precision."""
        assert self.features is not None
        for stem in _stems(image):
            for suffix in SUFFIXES:
                path = inside(self.features, f"{stem}{suffix}")
                if path.is_file():
                    cells = read_grid(path)
                    half = cells.half()
                    if not bool(half.isfinite().all()):
                        raise DataError(f"{path} has features beyond half precision; make them smaller")
                    return half
        raise FileNotFoundError(f"{self.features} has no features of {image}; extract them with `omegamax features`")


def _stems(image: str) -> list[str]:
    """Return the names without ending under which a picture may be found: with its folder, and without."""
    path = PurePosixPath(image)
    whole = str(path.with_suffix(""))
    return list(dict.fromkeys([whole, path.stem]))
