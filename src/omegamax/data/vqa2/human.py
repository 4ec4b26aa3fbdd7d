"""VQA-HAT: where people looked to answer a question."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from omegamax.data.collate import pool
from omegamax.data.files import FilePath, check_folder
from omegamax.data.paths import inside
from omegamax.data.pictures import read_picture

_NAME = re.compile(r"(\d+)(?:_(\d+))?\.(?:png|jpe?g)", re.IGNORECASE)


class HumanAttention:
    """The human attention maps of a folder, as distributed: grey pictures named by question and person.

    ``1500070_1.png`` is the map of the first person for the question 1500070; the validation part has three persons for
    each, the training part one. The question numbers are those of VQA version 1, whose question files
    :class:`~omegamax.data.VQA2` reads too.

    Args:
        folder: holds the maps, ``.png`` or ``.jpg``.

    Reference: Das et al. (EMNLP 2016), "Human attention in visual question answering".
    """

    def __init__(self, folder: FilePath) -> None:
        self.folder = check_folder("HumanAttention", folder)
        found: dict[int, list[tuple[int, str]]] = {}
        for path in self.folder.iterdir():
            if name := _NAME.fullmatch(path.name):
                found.setdefault(int(name[1]), []).append((int(name[2] or 1), path.name))
        if not found:
            raise FileNotFoundError(
                f"HumanAttention: {self.folder} has no maps named like 1500070_1.png; give the folder that holds them"
            )
        self._files = {number: [name for _, name in sorted(maps)] for number, maps in found.items()}

    def __len__(self) -> int:
        """Return the number of questions with maps."""
        return len(self._files)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._files

    @property
    def question_ids(self) -> list[int]:
        """List the ids of the questions with maps, ascending."""
        return sorted(self._files)

    def maps(self, question_id: int) -> list[Tensor]:
        """Return the map of each person, ``[H, W]``, in [0, 1]."""
        if question_id not in self._files:
            raise KeyError(f"HumanAttention: {self.folder} has no map for question {question_id}")
        return [read_picture(inside(self.folder, name), "L").float() / 255 for name in self._files[question_id]]

    def mean(self, question_id: int, grid: tuple[int, int] | None = None) -> Tensor:
        """Return the mean over persons of their maps, each first made to sum to one, float32 ``[h, w]``; sums to one.

        A person who uncovered nothing has no map to count; if none uncovered anything, zeros come back.

        Args:
            grid: ``(h, w)``, cells of the result; None for the pixels of the first map.
        """
        maps = self.maps(question_id)
        size = grid or (maps[0].shape[0], maps[0].shape[1])
        shares = [share for share in (pool(each, size) for each in maps) if share.any()]
        return torch.stack(shares).mean(0) if shares else torch.zeros(size)
