"""Files of trained networks: weights with a record of plain data beside them, read without running code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_integer
from omegamax.data import DataError
from omegamax.data.files import short
from omegamax.data.tensors import load_tensors
from omegamax.tasks.whole import whole_file

Path_ = str | PathLike[str]
RECORD_FORMAT = 1  # of what files of networks say beside the weights
_FILES = ("model.safetensors", "checkpoints/best.ckpt", "checkpoints/last.ckpt")
_MODEL = "model."  # where a task has its network


def remedy(kind: str) -> str:
    """Return the advice about a file that cannot be used; ``kind`` is the task's name on the command line."""
    return f"give a file that `omegamax {kind} fit` wrote"


def find_weights(path: Path_, kind: str) -> Path:
    """Return the file of a trained network: ``path`` itself, or the best one in the folder of a run."""
    path = Path(path)
    if not path.is_dir():
        return path
    there = [path / name for name in _FILES if (path / name).is_file()]
    if not there:
        wanted = " or ".join(_FILES)
        raise DataError(f"{path} holds no trained network, {wanted}; give a folder that `omegamax {kind} fit` wrote")
    return there[0]


def load_plain(path: Path_, kind: str, map_location: Any = "cpu") -> dict[str, Any]:
    """Read all that is in a ``.ckpt`` file of a task, read without running code."""
    content = load_tensors(path, "damaged, or no checkpoint of plain data", remedy(kind), map_location)
    if not isinstance(content, dict) or kind not in content or "state_dict" not in content:
        raise DataError(f"{path} is no checkpoint of `omegamax {kind}`; {remedy(kind)}")
    return content


def read_weights(path: Path_, kind: str) -> tuple[Any, dict[str, Tensor]]:
    """Return record and weights of a ``.ckpt`` or ``.safetensors`` file; neither can run code."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; {remedy(kind)}")
    if path.suffix == ".safetensors":
        return _from_safetensors(path, kind)
    content = load_plain(path, kind)
    state = content["state_dict"]
    tensors = isinstance(state, dict) and all(isinstance(w, Tensor) for w in state.values())
    if not tensors or not all(isinstance(name, str) for name in state):
        raise DataError(f"{path} must have tensors by name as 'state_dict'; {remedy(kind)}")
    return content[kind], {key.removeprefix(_MODEL): w for key, w in state.items() if key.startswith(_MODEL)}


def check_format(path: Path_, record: Mapping[str, Any]) -> None:
    """Refuse a record of another format than the one that this version writes."""
    given = record.get("format")
    if given != RECORD_FORMAT:
        raise DataError(
            f"{path} has format {given!r}, this version reads {RECORD_FORMAT}; train again, or change version"
        )


@contextmanager
def reading_record(path: Path_, kind: str) -> Iterator[None]:
    """Refuse a record of which the block cannot make what it should."""
    try:
        yield
    except (ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{path} has a record that cannot be read ({error}); {remedy(kind)}") from error


def check_limits(path: Path_, settings: object, limits: Mapping[str, int], kind: str) -> None:
    """Refuse integers among the attributes of ``settings`` that a file asks for and that none of its weights shows."""
    for key, most in limits.items():
        value = getattr(settings, key)
        if not is_integer(value) or value > most:
            raise DataError(f"{path}: {key} must be at most {most:,}, got {short(value)}; {remedy(kind)}")


def check_data(path: Path_, settings: Any, check: Callable[[Mapping[str, Any]], None], kind: str) -> None:
    """Refuse settings of data, as a file has them, that are beyond the limits which ``check`` knows."""
    try:
        if not isinstance(settings, Mapping):
            raise ValueError(f"'data' must be settings by name, got {short(settings)}")
        check(settings)
    except ValueError as error:
        raise DataError(f"{path}: {error}; {remedy(kind)}") from error


def check_sizes(path: Path_, build: Callable[[], torch.nn.Module], weights: Mapping[str, Tensor], kind: str) -> None:
    """Refuse weights whose names or shapes are not those of the network that ``build`` makes, before it has memory.

    A network is made without numbers, on the meta device: what a file says of its sizes costs nothing until its
    weights are seen to have them. Parameters that only the file has are left to who loads it.
    """
    try:
        with torch.device("meta"):
            wanted = build().state_dict()
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{path} describes a network that cannot be ({error}); {remedy(kind)}") from error
    for name, there in wanted.items():
        found = weights.get(name)
        if found is None or found.shape != there.shape:
            given = "none" if found is None else str(tuple(found.shape))
            fit = f"has weights that do not fit its own settings: {name} must be {tuple(there.shape)}, got {given}"
            raise DataError(f"{path} {fit}; get it again")


def write_weights(path: Path_, kind: str, record: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write a ``.safetensors`` file with its record inside, for others to use."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        tensor = tensor.detach().cpu().contiguous()
        # Parts of a network that share their weights have each a copy: the format knows no two names of one.
        shared = any(tensor.data_ptr() == other.data_ptr() for other in tensors.values() if other.numel())
        tensors[name] = tensor.clone() if shared else tensor
    with whole_file(path) as place:
        save_file(tensors, place, metadata={f"omegamax.{kind}": json.dumps(record)})


def _from_safetensors(path: Path, kind: str) -> tuple[Any, dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is damaged or no safetensors file ({error}); get it again") from error
    if f"omegamax.{kind}" not in metadata:
        raise DataError(f"{path} says nothing of the network that its weights are of; {remedy(kind)}")
    try:
        return json.loads(metadata[f"omegamax.{kind}"]), weights
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} has a record that cannot be read ({error}); {remedy(kind)}") from error
