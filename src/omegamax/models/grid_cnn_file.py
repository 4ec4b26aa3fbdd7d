"""A trained GridCNN as one file: its weights and what its constructor took, read without running code."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from omegamax.models.grid_cnn import GridCNN

GRID_CNN_FORMAT = "omegamax.GridCNN"
MOST_CELLS = 1024  # along a side of the grid of a file


def save_grid_cnn(model: GridCNN, path: str | PathLike[str], *, size: tuple[int, int] | None = None) -> None:
    """Write ``model`` to a ``.safetensors`` file.

    The metadata of the file hold, each as JSON, ``dim``, ``grid``, ``widths`` and ``coordinates`` of the constructor.

    Args:
        model: any :class:`GridCNN`.
        path: ends in ``.safetensors``.
        size: ``(height, width)`` of the pictures it was trained on, kept in the file where given.
    """
    from safetensors.torch import save_file

    if Path(path).suffix != ".safetensors":
        raise ValueError(f"save_grid_cnn: path must end in .safetensors, got {path}")
    settings: dict[str, Any] = {
        "dim": model.project.out_features,
        "grid": list(model.grid),
        "widths": [norm.num_channels for norm in model.norms if isinstance(norm, torch.nn.GroupNorm)],
        "coordinates": model.coordinates,
    }
    if size is not None:
        settings["size"] = list(size)
    metadata = {"format": GRID_CNN_FORMAT, **{key: json.dumps(value) for key, value in settings.items()}}
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    save_file(state, path, metadata)


def grid_cnn_settings(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a file of :func:`save_grid_cnn` says: ``dim``, ``grid``, and more where known."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist; check the path")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
        settings = {key: json.loads(value) for key, value in metadata.items() if key != "format"}
    except (SafetensorError, OSError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no file of a GridCNN ({error}); get or train it again") from error
    missing = [key for key in ("dim", "grid") if key not in settings]
    if missing:
        raise ValueError(f"{path} does not say {' and '.join(missing)} of a GridCNN; write it with save_grid_cnn")
    return settings


def load_grid_cnn(path: str | PathLike[str]) -> GridCNN:
    """Return the model of a file that :func:`save_grid_cnn` wrote, on the CPU.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_grid_cnn(GridCNN(32, (7, 7)), f"{folder}/cnn.safetensors")
    ...     load_grid_cnn(f"{folder}/cnn.safetensors")(torch.rand(1, 3, 56, 56)).shape
    torch.Size([1, 49, 32])
    """
    from safetensors.torch import load_file

    settings = grid_cnn_settings(path)
    chosen = {key: settings[key] for key in ("widths", "coordinates") if key in settings}
    try:
        state = load_file(path)
        _check(settings, state)
        model = GridCNN(settings["dim"], tuple(settings["grid"]), **chosen)
        model.load_state_dict(state)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} does not hold the GridCNN it describes ({reason}); get or train it again") from error
    return model


def _check(settings: dict[str, Any], state: dict[str, torch.Tensor]) -> None:
    """Refuse settings that the weights do not have, before a model of their sizes is made."""
    grid, widths = settings["grid"], settings.get("widths", [])
    if not isinstance(grid, list) or len(grid) != 2 or not all(type(s) is int and 1 <= s <= MOST_CELLS for s in grid):
        raise ValueError(f"grid must be two integers from 1 to {MOST_CELLS}, got {str(grid)[:60]}")
    if not isinstance(widths, list) or len(widths) > len(state):
        raise ValueError(f"widths must be a list of at most {len(state)}, as many as there are tensors")
    chosen = {key: settings[key] for key in ("widths", "coordinates") if key in settings}
    with torch.device("meta"):
        wanted = GridCNN(settings["dim"], (grid[0], grid[1]), **chosen).state_dict()
    for name, there in wanted.items():
        found = state.get(name)
        if found is None or found.shape != there.shape:
            given = "none" if found is None else tuple(found.shape)
            raise ValueError(f"{name} must be {tuple(there.shape)}, got {given}")
