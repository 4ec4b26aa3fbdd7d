"""Files of trained networks: what they say beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from omegamax.data import DataError, Vocabulary
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.weights_file import Path_, read_weights, remedy, write_weights

FORMAT = 1
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
        """Plain numbers, words, lists and dicts."""
        words = {"words": list(self.vocabulary.words), "answers": list(self.vocabulary.answers)}
        rest = {"loss": self.loss, "loss_options": self.loss_options, "blind": self.blind, "data": self.data}
        return {"format": FORMAT, "network": self.network.to_dict(), "vocabulary": words, **rest}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], path: Path_ = "checkpoint") -> Record:
        """What :meth:`to_dict` wrote."""
        if not isinstance(content, Mapping):
            raise DataError(f"{path} has a record that is no set of settings; {_FIT}")
        if content.get("format") != FORMAT:
            given = content.get("format")
            raise DataError(f"{path} has format {given!r}, this version reads {FORMAT}; train again, or change version")
        try:
            network = MCANConfig.from_dict(content["network"])
            vocabulary = Vocabulary(content["vocabulary"]["words"], content["vocabulary"]["answers"])
            rest = {key: content[key] for key in ("loss", "loss_options", "blind", "data")}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} has a record that cannot be read ({error}); {_FIT}") from error
        return cls(network, vocabulary, **rest)

    def differences(self, other: Record) -> list[str]:
        """Settings in which a network differs so that weights do not fit, or mean something else."""
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
    """Record and weights of a ``.ckpt`` or ``.safetensors`` file; neither can run code."""
    content, weights = read_weights(path, KIND)
    return Record.from_dict(content, path), weights


def write_safetensors(path: Path_, record: Record, weights: Mapping[str, Tensor]) -> None:
    """Write weights with their record inside, for others to use."""
    write_weights(path, KIND, record.to_dict(), weights)


def check_same(saved: Mapping[str, Any] | None, wanted: Record) -> None:
    """Refuse to go on from a checkpoint of another network, naming what differs."""
    if saved is None:
        raise DataError(f"the checkpoint was not written by a VQATask; {_FIT}")
    differences = Record.from_dict(saved).differences(wanted)
    if differences:
        listed = "; ".join(differences[:6]) + ("; ..." if len(differences) > 6 else "")
        raise DataError(
            f"the checkpoint is of another configuration. It has {listed}. Give the config.yaml that was saved with "
            "it, or a checkpoint of this configuration"
        )
