"""The file of predicted answers, as those who score it want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L

from omegamax.data.vqa2 import write_results
from omegamax.tasks.callbacks import Answers


class QuestionAnswers(Answers):
    """Predicted answers as ``answers.json`` in the run's folder.

    For VQA-v2 it is the file that the evaluation server takes; for other sets a list of objects with ``id``,
    ``answer`` and ``probability``.
    """

    def write(self, path: Path, found: dict[str, dict[str, Any]], trainer: L.Trainer) -> None:
        data = getattr(trainer, "datamodule", None)
        if data is not None and data.settings["class"] == "VQA2Data":
            write_results(path, {int(name): entry["answer"] for name, entry in found.items()})
        else:
            super().write(path, found, trainer)
