"""How a network sees pictures: through a CNN of its own, or as features that its data has."""

from __future__ import annotations

from typing import NoReturn

from omegamax.data import DataError
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import load_grid_cnn
from omegamax.tasks.run_data import RunData


def settle_cnn(name: str, cnn: GridCNN | None, path: str | None, freeze: bool) -> None:
    """Give a network's CNN the weights of a file, if there is one, and freeze it or not; ``name`` is a task's."""
    if cnn is None:
        if path is not None or freeze:
            raise ValueError(f"{name}: cnn and freeze_cnn need a network with pixels=True")
        return
    if path is not None:
        _take_weights(cnn, path)
    cnn.requires_grad_(not freeze)


def _take_weights(cnn: GridCNN, path: str) -> None:
    try:
        cnn.load_state_dict(load_grid_cnn(path).state_dict())
    except RuntimeError as error:
        raise DataError(
            f"{path} holds a GridCNN of other sizes than the network's, {cnn.project.out_features} features on a grid "
            f"{cnn.grid} ({str(error).splitlines()[-1].strip()}); pretrain one, or change image_dim and grid"
        ) from error


def check_grid(name: str, data: RunData, cells: tuple[int, int]) -> None:
    """Refuse data that cuts pictures into other cells than the network."""
    grid = tuple(data.settings.get("grid", cells))
    if grid != cells:
        raise ValueError(f"{name}: data.grid is {grid} and model.network.grid {cells}; give both the same")


def refuse_without_features(name: str, data: RunData) -> NoReturn:
    """Refuse data without the features that the network takes."""
    raise ValueError(
        f"{name}: the network takes features, and {type(data).__name__} was given none; give --data.features FOLDER, "
        "as `omegamax features` writes it, or --model.network.pixels true for pictures"
    )
