"""The sets: the embedded one, VQA-v2, and four that are small enough to keep in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import ConcatDataset, Dataset

from omegamax._arguments import check_choice
from omegamax.data import NLVR, VQA2, Daquar, EasyVQA, Sample, Scenes, Shapes, Vocabulary
from omegamax.data.daquar import SOURCES
from omegamax.data.scenes import BASIC_QUESTIONS, COLOURS, SHAPES
from omegamax.data.vqa2 import GridFeatures, answer_dictionary, load_dictionary
from omegamax.data.vqa2.dataset import SUBSETS
from omegamax.tasks.run_data import Limit
from omegamax.tasks.vqa.data import VQAData, texts_vocabulary
from omegamax.tasks.vqa.photographs import Photographs

Size = tuple[int, int]


class ScenesData(VQAData):
    """The embedded set, :class:`~omegamax.data.Scenes`; needs no file.

    Args:
        samples: numbers of samples for training, validation and test.
        image_size: side of the pictures in pixels.
        objects: fewest and most things in a picture.
        shapes: those in use.
        colours: likewise.
        questions: likewise, by their names in :data:`~omegamax.data.scenes.QUESTIONS`.
        scale: factor of the sizes of things.
        scene_seed: of the pictures and questions.
        settings: as for :class:`VQAData`.

    Example:
        >>> data = ScenesData(samples=(8, 4, 4), image_size=32, grid=(4, 4), batch_size=4)
        >>> batch = next(iter(data.val_dataloader()))
        >>> batch["image"].shape, batch["relevance"].shape
        (torch.Size([4, 3, 32, 32]), torch.Size([4, 4, 4]))
    """

    limits: ClassVar[Mapping[str, Limit]] = {**VQAData.limits, "samples": Limit(0, 1 << 28, numbers=3)}

    def __init__(
        self,
        samples: tuple[int, int, int] = (20000, 2000, 2000),
        image_size: int = 112,
        objects: tuple[int, int] = (4, 7),
        shapes: Sequence[str] = SHAPES,
        colours: Sequence[str] = tuple(COLOURS),
        questions: Sequence[str] = BASIC_QUESTIONS,
        scale: float = 1.0,
        scene_seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.samples, self.image_size, self.objects = tuple(samples), image_size, tuple(objects)
        self.shapes, self.colours, self.questions = list(shapes), list(colours), list(questions)
        self.scale, self.scene_seed = scale, scene_seed

    def read(self, split: str) -> Scenes:
        size = dict(zip(("train", "val", "test"), self.samples, strict=True))[split]
        return self.scenes(size, split)

    def scenes(self, size: int, split: str = "train", seed: int | None = None) -> Scenes:
        """Make ``size`` samples of a split; another seed gives others of the same kind."""
        return Scenes(
            size,
            self.scene_seed if seed is None else seed,
            split,
            image_size=self.image_size,
            objects=(self.objects[0], self.objects[1]),
            shapes=self.shapes,
            colours=self.colours,
            questions=self.questions,
            scale=self.scale,
        )

    @property
    def size(self) -> Size:
        """Return height and width of the pictures."""
        return self.image_size, self.image_size

    def own_vocabulary(self) -> Vocabulary:
        return self.scenes(1).vocabulary


class _Folder(VQAData):
    """A set that is read from files."""

    folder: str
    answers: int | None = None  # how many answers there are to choose from; None: all that occur

    def own_vocabulary(self) -> Vocabulary:
        return texts_vocabulary(self.read("train"), most=self.answers)


class EasyVQAData(_Folder):
    """:class:`~omegamax.data.EasyVQA`, pictures of one shape.

    Args:
        folder: with its files.
        size: ``(height, width)`` to which pictures are brought.
        settings: as for :class:`VQAData`.
    """

    def __init__(self, folder: str, size: Size = (64, 64), **settings: Any) -> None:
        super().__init__(**settings)
        self.folder, self.size = folder, (size[0], size[1])

    def read(self, split: str) -> Dataset[Sample]:
        return EasyVQA(self.folder, split, size=self.size)


class ShapesData(_Folder):
    """:class:`~omegamax.data.Shapes`, yes or no about nine places.

    Args:
        folder: with its files.
        size: ``(height, width)`` to which pictures are brought.
        settings: as for :class:`VQAData`.
    """

    def __init__(self, folder: str, size: Size = (30, 30), **settings: Any) -> None:
        super().__init__(**settings)
        self.folder, self.size = folder, (size[0], size[1])

    def read(self, split: str) -> Dataset[Sample]:
        return Shapes(self.folder, split, size=self.size)


class DaquarData(_Folder):
    """:class:`~omegamax.data.Daquar`, photographs of rooms. Answers outside the training part are never right.

    Args:
        folder: with its files.
        size: ``(height, width)`` to which pictures are brought.
        settings: as for :class:`VQAData`.
        features: folder with features of the pictures, as ``omegamax features`` writes them, in their place.
        pictures: folder or zip archive of the pictures that features were made of, for maps to be drawn on; None: those
            in ``folder``, if they are there.
        answers: how many answers there are to choose from, the most frequent ones; None: all.
    """

    unknown = "drop"

    def __init__(
        self,
        folder: str,
        size: Size = (112, 144),
        features: str | None = None,
        answers: int | None = None,
        pictures: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.folder, self.size, self.features, self.answers = folder, (size[0], size[1]), features, answers
        self.pictures = pictures

    def read(self, split: str) -> Dataset[Sample]:
        return Daquar(self.folder, split, size=self.size, features=self.features)

    @property
    def photographs(self) -> Photographs:
        return _beside(self.folder, self.pictures, SOURCES)


class NLVRData(_Folder):
    """:class:`~omegamax.data.NLVR`, statements about boxes of objects, true or false.

    Args:
        folder: with its files.
        size: ``(height, width)`` to which pictures are brought.
        settings: as for :class:`VQAData`.
    """

    def __init__(self, folder: str, size: Size = (56, 224), **settings: Any) -> None:
        super().__init__(**settings)
        self.folder, self.size = folder, (size[0], size[1])

    def read(self, split: str) -> Dataset[Sample]:
        return NLVR(self.folder, split, size=self.size)


class VQA2Data(VQAData):
    """:class:`~omegamax.data.VQA2` as distributed, with features of grids or regions, or pictures; not kept in memory.

    Args:
        folder: with the question and annotation files.
        features: folder with features of the pictures: of grids, as ``omegamax features`` writes them, or of
            regions with boxes, see :func:`~omegamax.data.vqa2.read_regions`.
        images: folder with the pictures, in place of features.
        pictures: folder or zip archive of the pictures that features were made of, for maps to be drawn on; None:
            ``images``, ``val2014``, ``val2014.zip`` and so on in ``folder``, if they are there.
        channels: of the features, if known: files with others are then refused.
        human: folder with maps of where people looked, VQA-HAT, for validation (and for a test on ``"val"``).
        only_human: leave out questions without such a map.
        size: ``(height, width)`` to which pictures are brought.
        train_with_val: train on both, for results on the test server.
        test: split that test and predict take: ``"test-dev"``, ``"test"``, or ``"val"``.
        answers_file: dictionary of the answers to choose from, JSON; None: those of at least ``least`` questions.
        least: questions that an answer must be given to.
        keep: make each split once and keep it in memory.
        settings: as for :class:`VQAData`.
    """

    unknown = "drop"

    def __init__(
        self,
        folder: str,
        features: str | None = None,
        images: str | None = None,
        channels: int | None = None,
        size: Size = (224, 224),
        human: str | None = None,
        only_human: bool = False,
        train_with_val: bool = False,
        test: str = "test-dev",
        answers_file: str | None = None,
        least: int = 9,
        keep: bool = False,
        pictures: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(keep=keep, **settings)
        check_choice("VQA2Data", "test", test, ("test-dev", "test", "val"))
        if only_human and human is None:
            raise ValueError("VQA2Data: only_human needs human, the folder of the maps")
        self.folder, self.features, self.images, self.channels = folder, features, images, channels
        self.size, self.human, self.only_human = (size[0], size[1]), human, only_human
        self.train_with_val, self.test = train_with_val, test
        self.answers_file, self.least, self.pictures = answers_file, least, pictures

    def read(self, split: str) -> Dataset[Sample]:
        if split == "train" and self.train_with_val:
            return ConcatDataset([self._part("train"), self._part("val")])
        name = self.test if split == "test" else split
        # There are none for the test parts, and training has no use for them.
        maps = self.human if split != "train" and name == "val" else None
        return self._part(name, maps)

    def _part(self, split: str, maps: str | None = None) -> VQA2:
        features = None if self.features is None else GridFeatures(self.features, channels=self.channels)
        size = None if self.images is None else self.size
        only = self.only_human and maps is not None
        return VQA2(self.folder, split, features=features, images=self.images, size=size, human=maps, only_human=only)

    @property
    def photographs(self) -> Photographs:
        parts = dict.fromkeys(subset.replace("-dev", "") for subset in SUBSETS.values())
        return _beside(self.folder, self.pictures, ("images", *parts, "images.zip", *(f"{part}.zip" for part in parts)))

    def own_vocabulary(self) -> Vocabulary:
        parts = [self._part(name) for name in (("train", "val") if self.train_with_val else ("train",))]
        questions = [question for part in parts for question, _ in part.texts()]
        if self.answers_file is not None:
            return Vocabulary.of(questions, load_dictionary(self.answers_file))
        annotations = [annotation for part in parts for annotation in part.annotations.values()]
        return Vocabulary.of(questions, answer_dictionary(annotations, self.least))


def _beside(folder: str, given: str | None, names: Sequence[str]) -> Photographs:
    """Return the pictures of the folder or archive given, or else of those with these names beside the set."""
    return Photographs([Path(folder) / name for name in names] if given is None else [given])
