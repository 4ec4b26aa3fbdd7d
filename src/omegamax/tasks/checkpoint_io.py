"""How Lightning writes and reads the checkpoints of a run: whole or not at all, and without running code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from omegamax.tasks.weights_file import load_plain, read_weights
from omegamax.tasks.whole import whole_file


class PlainCheckpointIO(TorchCheckpointIO):
    """Checkpoints of tensors, numbers, words, lists and dicts alone.

    A file takes its name once it is written: a run that is killed meanwhile leaves the one before. To evaluate, the
    ``.safetensors`` file of a network will do as well.

    Args:
        kind: of the :class:`~omegamax.tasks.run_task.RunTask` that they are of.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        with whole_file(path) as place:
            torch.save(checkpoint, place)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        if Path(path).suffix != ".safetensors":
            return load_plain(path, self.kind, "cpu" if map_location is None else map_location)
        record, weights = read_weights(path, self.kind)
        state = {f"model.{name}": tensor for name, tensor in weights.items()}
        return {"state_dict": state, self.kind: record, "pytorch-lightning_version": L.__version__}
