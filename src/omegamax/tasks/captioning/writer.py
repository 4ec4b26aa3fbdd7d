"""The files of predicted captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L

from omegamax.tasks.callbacks import Answers
from omegamax.tasks.captioning.predictions import CAPTIONS, CaptionPrediction, CaptionPredictions


class CaptionsWriter(Answers):
    """Predicted captions as ``captions.jsonl`` in the run's folder, with the maps of their words in ``maps.npz``.

    Args:
        file: name of the first.
        asked: what was captioned, in the plural.
    """

    noun = "captions"

    def __init__(self, file: str = CAPTIONS, asked: str = "pictures") -> None:
        super().__init__(file, asked)

    def save(self, path: Path, found: dict[str, dict[str, Any]], trainer: L.Trainer) -> None:
        CaptionPredictions(
            CaptionPrediction(
                image,
                " ".join(entry["tokens"]),
                tuple(entry["tokens"]),
                entry["log_probability"],
                tuple(entry["references"]),
                entry["maps"],
            )
            for image, entry in found.items()
        ).save(path.parent)
