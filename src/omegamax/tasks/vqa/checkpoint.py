"""Files of trained networks: what they say beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_integer
from omegamax.data import DataError, Vocabulary
from omegamax.data.files import short
from omegamax.models.mcan import MCAN, MCANConfig
from omegamax.tasks.run_task import refuse_differences
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.weights_file import (
    RECORD_FORMAT,
    Path_,
    check_data,
    check_format,
    check_sizes,
    read_weights,
    reading_record,
    remedy,
    write_weights,
)

# What a file may ask for that none of its weights shows.
_LIMITS = {
    "functions": 256,
    "max_components": 1000,
    "restarts": 1000,
    "iterations": 100_000,
    "grid": 1024,
    "layers": 1000,
    "glimpses": 1000,
}
KIND = "vqa"
_FIT = remedy(KIND)


@dataclass(frozen=True, eq=False)
class Record:
    """All that is needed to build a trained network again, and the data it was trained on.

    Args:
        network, vocabulary, loss, loss_options, blind: as for :class:`~omegamax.tasks.vqa.VQATask`.
        data: settings of the data, with their class as ``"class"``; empty if none were known.
    """

    network: MCANConfig
    vocabulary: Vocabulary
    loss: str = "bce"
    loss_options: dict[str, Any] = field(default_factory=dict)
    blind: bool = False
    data: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain numbers, words, lists and dicts."""
        words = {"words": list(self.vocabulary.words), "answers": list(self.vocabulary.answers)}
        rest = {"loss": self.loss, "loss_options": self.loss_options, "blind": self.blind, "data": self.data}
        return {"format": RECORD_FORMAT, "network": self.network.to_dict(), "vocabulary": words, **rest}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], path: Path_ = "checkpoint") -> Record:
        """Build a record from what :meth:`to_dict` returned."""
        if not isinstance(content, Mapping):
            raise DataError(f"{path} has a record that is no set of settings; {_FIT}")
        check_format(path, content)
        with reading_record(path, KIND):
            network = MCANConfig.from_dict(content["network"])
            vocabulary = Vocabulary(content["vocabulary"]["words"], content["vocabulary"]["answers"])
            rest = {key: content[key] for key in ("loss", "loss_options", "blind", "data")}
        for key, kind in {"loss": str, "loss_options": Mapping, "blind": bool, "data": Mapping}.items():
            if not isinstance(rest[key], kind):
                raise DataError(f"{path}: {key!r} must be {kind.__name__}, got {short(rest[key])}; {_FIT}")
        _check_most(network, path)
        check_data(path, rest["data"], VQAData.check, KIND)
        return cls(network, vocabulary, **rest)

    def differences(self, other: Record) -> list[str]:
        """List the settings that differ so that weights do not fit, or mean something else."""
        found = []
        mine, theirs = self.network.to_dict(), other.network.to_dict()
        for key in mine:
            if key == "output":
                pairs = {f"output.{k}": (mine[key][k], theirs[key][k]) for k in mine[key]}
            else:
                pairs = {key: (mine[key], theirs[key])}
            found += [f"{name}: {a!r}, not {b!r}" for name, (a, b) in pairs.items() if a != b]
        if self.vocabulary != other.vocabulary:
            found.append(f"vocabulary: {self.vocabulary}, not {other.vocabulary}")
        found += [
            f"{name}: {a!r}, not {b!r}"
            for name in ("loss", "loss_options", "blind")
            if (a := getattr(self, name)) != (b := getattr(other, name))
        ]
        return found


def read_checkpoint(path: Path_) -> tuple[Record, dict[str, Tensor]]:
    """Read record and weights of a ``.ckpt`` or ``.safetensors`` file, without running code; they fit each other."""
    content, weights = read_weights(path, KIND)
    record = Record.from_dict(content, path)
    weights.setdefault("output.score_scale", torch.ones(()))  # of files from before there was one
    words, answers = record.vocabulary.num_words, record.vocabulary.num_answers
    network = record.network.replace(words=words, answers=answers)
    if network.layers > len(weights):
        given = f"{network.layers:,} layers, but {len(weights):,} tensors"
        raise DataError(f"{path} has weights that do not fit its own settings: {given}; get it again")
    check_sizes(path, lambda: MCAN(network), weights, KIND)
    return record, weights


def _check_most(network: MCANConfig, path: Path_) -> None:
    """Refuse sizes that would fill the memory or take for ever, and that no shape of the weights shows."""
    settings = {**asdict(network), **asdict(network.output)}
    for key, most in _LIMITS.items():
        given = settings[key] if isinstance(settings[key], (tuple, list)) else (settings[key],)
        if not all(is_integer(value) and value <= most for value in given):
            raise DataError(f"{path}: {key} must be whole and at most {most:,}, got {short(settings[key])}; {_FIT}")


def write_safetensors(path: Path_, record: Record, weights: Mapping[str, Tensor]) -> None:
    """Write weights with their record inside, for others to use."""
    write_weights(path, KIND, record.to_dict(), weights)


def check_same(saved: Mapping[str, Any] | None, wanted: Record) -> None:
    """Refuse to go on from a checkpoint of another network, naming what differs."""
    if saved is None:
        raise DataError(f"the checkpoint was not written by a VQATask; {_FIT}")
    refuse_differences(Record.from_dict(saved).differences(wanted))


def check_start(model: MCAN, vocabulary: Vocabulary, path: str, record: Record, weights: Mapping[str, Tensor]) -> None:
    """Refuse a trained network of other words or sizes; parameters that only one attention has may differ."""
    if record.vocabulary != vocabulary:
        raise DataError(f"{path} knows {record.vocabulary}, wanted {vocabulary}; give one trained on the same data")
    own = model.state_dict()
    other = [name for name, value in weights.items() if name in own and value.shape != own[name].shape]
    other += [name for name in {*own} ^ {*weights} if not name.startswith("output.")]
    if other:
        raise DataError(f"{path} has a network of other sizes ({', '.join(sorted(other)[:3])}); give the same sizes")
