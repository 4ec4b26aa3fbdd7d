"""A picture shown to a trained network: the caption it writes, and where it looks for each word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax.data import DataError
from omegamax.data.pictures import resize
from omegamax.tasks.captioning.task import CaptionTask, Written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@torch.no_grad()
def explain(task: CaptionTask, image: Tensor | None = None, features: Tensor | None = None) -> Written:
    """Let a trained network write a caption.

    Args:
        task: in evaluation mode, as :meth:`CaptionTask.load` leaves it.
        image: bytes ``[3, H, W]`` of any size, for a network that looks at pixels.
        features: ``[h, w, D]``, for one that takes features.

        >>> from omegamax.data.captions import CaptionVocabulary
        >>> from omegamax.models.captioning import CaptionConfig
        >>> task = CaptionTask(CaptionVocabulary(["a", "dog"]), CaptionConfig.small(grid=(4, 4))).eval()
        >>> explain(task, torch.zeros(3, 50, 60, dtype=torch.uint8)).maps.shape[1:]
        torch.Size([4, 4])
    """
    batch: dict[str, Any]
    if features is not None:
        if features.dim() != 3 or features.shape[-1] != task.config.image_dim:
            wanted, given = task.config.image_dim, tuple(features.shape)
            raise DataError(f"{task.label}: features must be [h, w, {wanted}], got shape {given}; give those it knows")
        h, w = features.shape[:2]
        batch = {"features": features.flatten(0, 1).float().unsqueeze(0), "grid": (h, w)}
    elif image is None:
        raise ValueError("explain: give either image or features, got neither")
    elif not task.config.pixels:
        raise DataError(f"{task.label} takes features; give those of the picture, as `omegamax features` writes them")
    else:
        settings = task.data_settings
        side = settings.get("image_size")
        size = (side, side) if side is not None else tuple(settings["size"]) if "size" in settings else None
        batch = {"image": resize(image, size).float().unsqueeze(0) / 255}
    like = next(task.model.parameters())
    moved = {k: v.to(like) if isinstance(v, Tensor) else v for k, v in batch.items()}
    return task.write(moved)[0]


def draw(image: Tensor, said: Mapping[str, Written], zeros: str | None = "white") -> Figure:
    """Draw what networks wrote of a picture, word by word, one under the other, see :func:`omegamax.viz.strip`."""
    from omegamax import viz

    return viz.strip(image, {name: (each.tokens, each.maps) for name, each in said.items()}, zeros=zeros)
