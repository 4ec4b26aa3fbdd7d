"""Files of trained networks: what they say beside the weights, and how they are read without running code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omegamax.data import DataError, Vocabulary
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.whole import whole_file

FORMAT = 1
Path_ = str | PathLike[str]
_FIT = "give a file that `omegamax vqa fit` wrote"


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
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; {_FIT}")
    return _from_safetensors(path) if path.suffix == ".safetensors" else _from_ckpt(path)


def load_plain(path: Path_, map_location: Any = "cpu") -> dict[str, Any]:
    """All that is in a ``.ckpt`` file, read without running code."""
    try:
        content = torch.load(path, map_location=map_location, weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; {_FIT}") from None
    except Exception as error:  # what a damaged file makes the reader stumble over cannot be listed
        # Not the rest of torch's message, which goes on to say how the file's code could be run.
        reason = str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is damaged, or no checkpoint of plain data ({reason}); {_FIT}") from error
    if not isinstance(content, dict) or "vqa" not in content or "state_dict" not in content:
        raise DataError(f"{path} is no checkpoint of visual question answering; {_FIT}")
    return content


def write_safetensors(path: Path_, record: Record, weights: Mapping[str, Tensor]) -> None:
    """Write weights with their record inside, for others to use."""
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    with whole_file(path) as place:
        save_file(tensors, place, metadata={"omegamax.vqa": json.dumps(record.to_dict())})


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


def _from_safetensors(path: Path) -> tuple[Record, dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise DataError(f"{path} is damaged or no safetensors file ({error}); get it again") from error
    if "omegamax.vqa" not in metadata:
        raise DataError(f"{path} says nothing of the network that its weights are of; {_FIT}")
    try:
        record = json.loads(metadata["omegamax.vqa"])
    except ValueError as error:
        raise DataError(f"{path} has a record that cannot be read ({error}); {_FIT}") from error
    return Record.from_dict(record, path), weights


def _from_ckpt(path: Path) -> tuple[Record, dict[str, Tensor]]:
    content = load_plain(path)
    prefix = "model."
    weights = {key.removeprefix(prefix): w for key, w in content["state_dict"].items() if key.startswith(prefix)}
    return Record.from_dict(content["vqa"], path), weights
