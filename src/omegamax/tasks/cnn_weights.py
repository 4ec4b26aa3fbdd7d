"""The weights of a CNN that was trained before, taken over by a network that looks through it."""

from __future__ import annotations

from omegamax.data import DataError
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import load_grid_cnn


def take_cnn(cnn: GridCNN, path: str) -> None:
    """Take over the weights of a file."""
    try:
        cnn.load_state_dict(load_grid_cnn(path).state_dict())
    except RuntimeError as error:
        raise DataError(
            f"{path} holds a GridCNN of other sizes than the network's, {cnn.project.out_features} features on a grid "
            f"{cnn.grid} ({str(error).splitlines()[-1].strip()}); pretrain one, or change image_dim and grid"
        ) from error
