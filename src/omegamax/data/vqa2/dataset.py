"""VQA-v2 as a dataset of samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data.files import DataError, FilePath, Text, check_folder, find
from omegamax.data.paths import inside
from omegamax.data.pictures import Size, check_size, read_picture, resize
from omegamax.data.sample import Sample
from omegamax.data.vqa2.accuracy import answer_scores
from omegamax.data.vqa2.features import GridFeatures, picture_names
from omegamax.data.vqa2.files import Annotation, Question, read_annotations, read_questions
from omegamax.data.vqa2.human import HumanAttention

SUBSETS = {"train": "train2014", "val": "val2014", "test": "test2015", "test-dev": "test-dev2015"}


class VQA2(Dataset[Sample]):
    """The questions of one split of VQA-v2 (or version 1), with features of grids or of regions, or pictures.

    ``folder`` holds the files as distributed: ``v2_OpenEnded_mscoco_train2014_questions.json`` and
    ``v2_mscoco_train2014_annotations.json`` (version 1: without ``v2_``). A sample has the soft score of each
    normalised answer, the question number as id, and the human map as relevance if there is one. The test splits have
    no public answers: their samples have none, and are of the kind ``"other"`` throughout.

    Args:
        folder: with the question and annotation files.
        split: ``"train"``, ``"val"``, ``"test"`` or ``"test-dev"``.
        features: folder of features of grids or of regions with boxes, see :func:`~omegamax.data.vqa2.read_features`,
            or a :class:`~omegamax.data.vqa2.GridFeatures`. Either this or ``images``.
        images: folder of the pictures, ``COCO_train2014_000000000009.jpg`` and so on, or in a subfolder ``train2014``.
        size: ``(height, width)`` to which pictures are brought; None leaves them as they are.
        human: folder of VQA-HAT maps, or a :class:`~omegamax.data.vqa2.HumanAttention`.
        only_human: keep only questions with a human map.

    Reference: Goyal et al. (CVPR 2017), "Making the V in VQA matter".
    """

    def __init__(
        self,
        folder: FilePath,
        split: str = "train",
        *,
        features: FilePath | GridFeatures | None = None,
        images: FilePath | None = None,
        size: Size | None = None,
        human: FilePath | HumanAttention | None = None,
        only_human: bool = False,
    ) -> None:
        check_choice("VQA2", "split", split, tuple(SUBSETS))
        if (features is None) == (images is None):
            given = "neither" if features is None else "both"
            raise ValueError(f"VQA2: give either features or images, the folder that holds them; got {given}")
        if only_human and human is None:
            raise ValueError("VQA2: only_human needs human, the folder of the maps")
        self.folder, self.split = check_folder("VQA2", folder), split
        subset = SUBSETS[split]
        names = [f"{version}OpenEnded_mscoco_{subset}_questions.json" for version in ("v2_", "")]
        self.questions_path = find("VQA2", self.folder, _endings(names))
        self.annotations_path: Path | None = None
        self.annotations: dict[int, Annotation] = {}
        questions = read_questions(self.questions_path).questions
        if not split.startswith("test"):
            # Both files of the same version: the question numbers differ.
            version = "v2_" if self.questions_path.name.startswith("v2_") else ""
            self.annotations_path = find("VQA2", self.folder, _endings([f"{version}mscoco_{subset}_annotations.json"]))
            self.annotations = read_annotations(self.annotations_path)
            self._check_pairs(questions)
        self.human = human if human is None or isinstance(human, HumanAttention) else HumanAttention(human)
        self.questions: list[Question] = list(questions.values())
        if only_human and self.human is not None:
            self.questions = [question for question in self.questions if question.question_id in self.human]
            if not self.questions:
                raise ValueError(
                    f"VQA2: no question of {self.questions_path} has a human map; are both of one version and split?"
                )
        self._subset = subset.replace("-dev", "")  # the pictures of test-dev are those of test
        self._features = _grids(features)
        self._images = None if images is None else check_folder("VQA2", images)
        self._size = check_size("VQA2", size)

    def __len__(self) -> int:
        return len(self.questions)

    def texts(self) -> Iterator[Text]:
        """Return every question with its answers and their scores; no features are read."""
        for question in self.questions:
            annotation = self.annotations.get(question.question_id)
            yield question.question, {} if annotation is None else answer_scores(annotation.answers)

    def __getitem__(self, index: int) -> Sample:
        question = self.questions[index]
        annotation = self.annotations.get(question.question_id)
        given = None if self._features is None else self._features.read_features(question.image_id, self._subset)
        return Sample(
            question.question,
            {} if annotation is None else answer_scores(annotation.answers),
            "other" if annotation is None else annotation.answer_type,
            str(question.question_id),
            image=None if self._images is None else self._picture(self._images, question.image_id),
            features=None if given is None else given.features,
            boxes=None if given is None else given.boxes,
            relevance=self._relevance(question.question_id),
            pictures=tuple(picture_names(question.image_id, self._subset)),
        )

    def _relevance(self, number: int) -> Tensor | None:
        return self.human.mean(number) if self.human is not None and number in self.human else None

    def _picture(self, folder: Path, number: int) -> Tensor:
        names = [f"{name}.jpg" for name in picture_names(number, self._subset)]
        path = find("VQA2", folder, names)
        return resize(read_picture(inside(path.parent, path.name)), self._size)

    def _check_pairs(self, questions: dict[int, Question]) -> None:
        """Refuse questions and annotations that do not belong together."""
        for number, question in questions.items():
            annotation = self.annotations.get(number)
            if annotation is None:
                raise DataError(
                    f"{self.annotations_path} has no annotation of question_id {number} of {self.questions_path}; "
                    "get both files again, of the same version and split"
                )
            if annotation.image_id != question.image_id:
                raise DataError(
                    f"{self.annotations_path}: question_id {number} is about picture {annotation.image_id}, in "
                    f"{self.questions_path} about {question.image_id}; get both files again"
                )


def _grids(features: FilePath | GridFeatures | None) -> GridFeatures | None:
    return features if features is None or isinstance(features, GridFeatures) else GridFeatures(features)


def _endings(names: list[str]) -> list[str]:
    return [name + ending for name in names for ending in ("", ".gz", ".xz")]
