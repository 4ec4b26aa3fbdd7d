"""Weights of networks from files, read without running code."""

from __future__ import annotations

import pickle
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.data.errors import DataError
from omegamax.data.tensors import check_archive, check_tensors


class BackboneError(ValueError):
    """A backbone that cannot be had: the message says why and what to do."""


def read_state(path: str | PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a weights file by name, read without running code."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; check the path of the weights")
    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            check_archive(path)
            content = torch.load(path, map_location="cpu", weights_only=True)
            check_tensors(path, content, "save model.state_dict()")
    except DataError as error:
        raise BackboneError(str(error)) from error
    except ImportError as error:
        raise ImportError(f"{path}: to read .safetensors files, pip install safetensors") from error
    except pickle.UnpicklingError as error:
        remedy = "save model.state_dict() alone, better as .safetensors"
        raise BackboneError(f"{path} is damaged, or holds more than weights, which is not read; {remedy}") from error
    except Exception as error:  # what a damaged file makes the readers stumble over cannot be listed
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BackboneError(f"{path} is damaged or no weights file ({reason}); get it again") from error
    for key in ("state_dict", "model"):  # a checkpoint around the weights
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise BackboneError(f"{path} must hold tensors by name, got {type(content).__name__}; save model.state_dict()")
    if content and all(key.startswith("module.") for key in content):  # saved from several devices
        content = {key.removeprefix("module."): value for key, value in content.items()}
    return content


def load_weights(network: nn.Module, path: str | PathLike[str]) -> None:
    """Give a network the tensors of a weights file, all of them and no others."""
    state = read_state(path)
    try:
        missing, unexpected = network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).splitlines()[1:2]).strip()
        raise BackboneError(f"{path} does not fit the backbone: {reason}; name the backbone it is of") from error
    if missing or unexpected:
        parts = [f"{what} {_some(keys)}" for what, keys in (("lacks", missing), ("also has", unexpected)) if keys]
        raise BackboneError(f"{path} does not fit the backbone: it {' and '.join(parts)}; name the backbone it is of")


def _some(keys: list[str]) -> str:
    return f"{', '.join(keys[:3])}{f' and {len(keys) - 3} more' if len(keys) > 3 else ''}"
