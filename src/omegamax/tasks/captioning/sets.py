"""The sets: the embedded one, Flickr8k, the splits of Karpathy, and MS-COCO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import Dataset

from omegamax.data.captions import (
    CaptionedPictures,
    CaptionEntry,
    CaptionSample,
    CaptionVocabulary,
    SceneCaptions,
    read_coco,
    read_flickr8k,
    read_karpathy,
)
from omegamax.data.captions.scenes import CAPTIONS
from omegamax.data.scenes import COLOURS, SHAPES
from omegamax.tasks.captioning.data import SPLITS, CaptionData
from omegamax.tasks.run_data import Limit

Size = tuple[int, int]


class SceneCaptionsData(CaptionData):
    """The embedded set, :class:`~omegamax.data.captions.SceneCaptions`; needs no file.

    Args:
        samples: numbers of pictures for training, validation and test; each has five captions.
        image_size: side of the pictures in pixels.
        most: things of a group.
        shapes: those in use.
        colours: likewise.
        scale: factor of the sizes of things.
        scene_seed: of pictures and captions.
        settings: as for :class:`CaptionData`.

    Example:
        >>> data = SceneCaptionsData(samples=(8, 4, 4), image_size=32, grid=(4, 4), batch_size=4)
        >>> batch = next(iter(data.val_dataloader()))
        >>> batch["image"].shape, len(batch["references"][0])
        (torch.Size([4, 3, 32, 32]), 5)
    """

    limits: ClassVar[Mapping[str, Limit]] = {**CaptionData.limits, "samples": Limit(0, 1 << 28, numbers=3)}

    def __init__(
        self,
        samples: tuple[int, int, int] = (4000, 500, 500),
        image_size: int = 64,
        most: int = 2,
        shapes: Sequence[str] = SHAPES,
        colours: Sequence[str] = tuple(COLOURS),
        scale: float = 1.0,
        scene_seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.samples, self.image_size, self.most = tuple(samples), image_size, most
        self.shapes, self.colours, self.scale, self.scene_seed = list(shapes), list(colours), scale, scene_seed

    @property
    def size(self) -> Size:
        """Return height and width of the pictures."""
        return self.image_size, self.image_size

    def read(self, split: str) -> SceneCaptions:
        return SceneCaptions(
            dict(zip(SPLITS, self.samples, strict=True))[split],
            self.scene_seed,
            split,
            image_size=self.image_size,
            most=self.most,
            shapes=self.shapes,
            colours=self.colours,
            scale=self.scale,
        )

    def captions(self, split: str) -> Sequence[Sequence[Sequence[str]]]:
        scenes = self.read(split)
        return [scenes.tell(index).captions for index in range(len(scenes))]

    def counts(self, split: str) -> list[int]:
        return [CAPTIONS] * len(self.read(split))

    def own_vocabulary(self) -> CaptionVocabulary:
        return CaptionVocabulary(self.read("train").words)


class FileCaptionsData(CaptionData):
    """A set that is read from files: what those with pictures in folders or archives, or with features, share.

    Args:
        pictures: folders and zip archives in which the pictures are looked for.
        features: folder with features of the pictures, as ``omegamax features`` writes them, in their place.
        size: ``(height, width)`` that pictures are brought to.
        settings: as for :class:`CaptionData`, but ``least`` is 5.
    """

    def __init__(
        self,
        pictures: Sequence[str] = (),
        features: str | None = None,
        size: Size = (128, 128),
        least: int = 5,
        **settings: Any,
    ) -> None:
        super().__init__(least=least, **settings)
        self.pictures = [pictures] if isinstance(pictures, str) else list(pictures)
        self.features, self.size = features, (size[0], size[1])
        self._entries: dict[str, list[CaptionEntry]] = {}

    def find_entries(self, split: str) -> list[CaptionEntry]:
        """Return names and captions of the pictures of a split."""
        raise NotImplementedError

    def entries(self, split: str) -> list[CaptionEntry]:
        """Return names and captions of the pictures of a split, read once."""
        if split not in self._entries:
            self._entries[split] = self.find_entries(split)
        return self._entries[split]

    @property
    def sources(self) -> list[str]:
        """Return the folders and archives of the pictures."""
        return self.pictures

    def read(self, split: str) -> Dataset[CaptionSample]:
        if self.features is not None:
            return CaptionedPictures(self.entries(split), features=self.features)
        return CaptionedPictures(self.entries(split), self.sources, size=self.size)

    def captions(self, split: str) -> Sequence[Sequence[Sequence[str]]]:
        return [entry.captions for entry in self.entries(split)]


class Flickr8kData(FileCaptionsData):
    """Flickr8k as it is distributed, see :func:`~omegamax.data.captions.read_flickr8k`.

    Args:
        folder: with the captions and the lists of the parts; where no ``pictures`` are given, also with
            ``Flicker8k_Dataset``, ``Images``, or zip archives.
        settings: as for :class:`FileCaptionsData`.
    """

    def __init__(self, folder: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.folder = folder

    def find_entries(self, split: str) -> list[CaptionEntry]:
        return read_flickr8k(self.folder, split)

    @property
    def sources(self) -> list[str]:
        if self.pictures:
            return self.pictures
        folder = Path(self.folder)
        folders = [folder / name for name in ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")]
        found = [path for path in (*folders, *sorted(folder.glob("*.zip"))) if path.exists()]
        if not found:
            raise FileNotFoundError(f"Flickr8kData: {folder} has no pictures; give pictures, folders or zip archives")
        return [str(path) for path in found]


class KarpathyData(FileCaptionsData):
    """Flickr8k, Flickr30k or MS-COCO in the splits of Karpathy, see :func:`~omegamax.data.captions.read_karpathy`.

    Args:
        file: ``dataset_flickr8k.json`` or its like.
        settings: as for :class:`FileCaptionsData`.
    """

    def __init__(self, file: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.file = file

    def find_entries(self, split: str) -> list[CaptionEntry]:
        return read_karpathy(self.file, split)


class CocoCaptionsData(FileCaptionsData):
    """MS-COCO as it is distributed, see :func:`~omegamax.data.captions.read_coco`.

    Args:
        train: captions of the training part, JSON.
        val: of the validation part.
        test: of the test part; None: the validation part again.
        instances: files of the things marked in the pictures, of any of the parts.
        settings: as for :class:`FileCaptionsData`.
    """

    def __init__(
        self, train: str, val: str, test: str | None = None, instances: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.train, self.val, self.test = train, val, test
        self.instances = [instances] if isinstance(instances, str) else list(instances)

    def find_entries(self, split: str) -> list[CaptionEntry]:
        path = {"train": self.train, "val": self.val, "test": self.test or self.val}[split]
        return read_coco(path, self.instances)
