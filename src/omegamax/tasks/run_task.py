"""Training and evaluation of any network: what tasks share, and how their files are written and read."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import lightning as L
import torch
from torch.nn.parallel import DistributedDataParallel

from omegamax.data import DataError
from omegamax.data.files import short
from omegamax.tasks.run_data import RunData
from omegamax.tasks.weights_file import (
    RECORD_FORMAT,
    check_data,
    check_format,
    check_sizes,
    find_weights,
    read_weights,
    remedy,
)

Kind = TypeVar("Kind", bound="RunTask")


class RunTask(L.LightningModule, abc.ABC):
    """A network ``model``, trained by the commands of an application, whose files say what it is.

    A subclass has a name, ``kind``, which is that of its command, and ``data_type``, the class of its data. It keeps in
    ``network`` the arguments that it is built again with: numbers, words, lists and dicts. A checkpoint has these, and
    the settings of the data, under the name.
    """

    kind: str
    data_type: type[RunData]
    model: torch.nn.Module
    network: Any

    def __init__(self) -> None:
        super().__init__()
        self.data_settings: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """Return the name of the network in tables and pictures."""
        return self.kind

    def describe(self) -> dict[str, Any]:
        """Return the record that a file has beside the weights: numbers, words, lists and dicts."""
        return {"format": RECORD_FORMAT, "network": self.network, "data": self.data_settings}

    @classmethod
    def load(cls: type[Kind], path: str | PathLike[str]) -> Kind:
        """Return the task of a ``.ckpt`` or ``.safetensors`` file, in evaluation mode."""
        record, weights = read_weights(path, cls.kind)
        network = cls.check_network(record, path)
        settings = record.get("data") or {}
        check_data(path, settings, cls.data_type.check, cls.kind)
        check_sizes(path, lambda: cls(**network).model, weights, cls.kind)
        try:
            task = cls(**network)
            task.model.load_state_dict(weights)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"{path} has weights that do not fit its own settings ({error}); get it again") from error
        task.data_settings = dict(settings)
        return task.eval()

    @classmethod
    def check_network(cls, record: Any, path: Any) -> dict[str, Any]:
        """Return the arguments of the network from the record of a file, or refuse it.

        A subclass refuses sizes here that would fill the memory, and that none of the weights shows.
        """
        if not isinstance(record, dict) or not isinstance(record.get("network"), dict):
            raise DataError(f"{path} has a record that is no set of settings; {remedy(cls.kind)}")
        check_format(path, record)
        return record["network"]

    def setup(self, stage: str) -> None:
        # Constants, the same everywhere. Sent around before each batch, they would make a process that has one batch
        # more than others wait for ever.
        constants = [name for name, _ in self.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, constants)
        # Before weights are restored, which single precision would round.
        self.trainer.precision_plugin.convert_module(self)
        data = getattr(self.trainer, "datamodule", None)
        if data is not None:
            self.data_settings = data.settings

    def report_scores(self, prefix: str, scores: Any, shown: str) -> None:
        """Log what was measured of a part of the data, by name, and begin anew.

        Args:
            prefix: of the names.
            scores: with ``compute`` and ``reset``.
            shown: the name that a progress bar shows.
        """
        for name, value in scores.compute().items():  # all processes have the same, and each needs to know it
            self.log(prefix + name, value, prog_bar=name == shown, sync_dist=True)
        scores.reset()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[self.kind] = self.describe()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved = self.check_network(checkpoint.get(self.kind), "the checkpoint")
        pairs = {key: (saved.get(key), value) for key, value in self.network.items()}
        refuse_differences([f"{key}: {short(a)}, not {short(b)}" for key, (a, b) in pairs.items() if a != b])


def refuse_differences(differences: Sequence[str], most: int = 6) -> None:
    """Refuse to go on from a checkpoint of another network, naming what differs; nothing: go on."""
    if differences:
        listed = "; ".join(differences[:most]) + ("; ..." if len(differences) > most else "")
        raise DataError(
            f"the checkpoint is of another configuration. It has {listed}. Give the config.yaml that was saved with "
            "it, or a checkpoint of this configuration"
        )


def load_tasks(kind: type[Kind], paths: Sequence[Path]) -> dict[str, Kind]:
    """Load trained networks from folders of runs or files, by name.

    The name is the network's label or, where two have the same, its path.
    """
    tasks = {str(path): kind.load(find_weights(path, kind.kind)) for path in paths}
    if len(tasks) < len(paths):
        raise DataError(f"the same network is named twice: {', '.join(map(str, paths))}; name each once")
    labels = [task.label for task in tasks.values()]
    return dict(zip(labels, tasks.values(), strict=True)) if len(set(labels)) == len(labels) else tasks
