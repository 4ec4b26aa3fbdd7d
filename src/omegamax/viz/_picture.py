"""The picture under an attention map, on axes that are the unit square: x to the right, y down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXTENT = (0.0, 1.0, 1.0, 0.0)  # left, right, bottom, top
_LUMINANCE = (0.2126, 0.7152, 0.0722)
_GREY = 0.85  # how far a dimmed picture goes to grey
_DARKEST, _LIGHTEST, _LEAST = 0.55, 0.97, 0.35  # of a dimmed picture; the least range of greys stretched to that
_OVERSHOOT = 0.5  # what resampling may add to colours in [0, 1]; more is another range


def pixels(name: str, image: Tensor) -> Tensor:
    """``[3, H, W]`` as colours ``[H, W, 3]`` in [0, 1], float64 on the CPU; refuses what is no picture."""
    if not isinstance(image, Tensor):
        raise TypeError(f"{name}: image must be a tensor [3, H, W], got {type(image).__name__}")
    if image.dim() != 3 or image.shape[0] != 3 or not image.numel():
        raise ValueError(f"{name}: image must have shape [3, H, W], got {tuple(image.shape)}")
    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise TypeError(f"{name}: image must be uint8, or floating with colours in [0, 1], got dtype {image.dtype}")
    picture = image.detach().cpu().double().permute(1, 2, 0)
    if image.dtype == torch.uint8:
        return picture / 255
    low, high = picture.min().item(), picture.max().item()
    if not -_OVERSHOOT <= low <= high <= 1 + _OVERSHOOT:  # NaN too
        raise ValueError(f"{name}: image must have colours in [0, 1], got values from {low:g} to {high:g}")
    return picture.clamp(0, 1)


def dimmed(picture: Tensor) -> Tensor:
    """``[H, W, 3]`` in pale greys with a touch of its colours: what lies over it has them to itself, on any picture."""
    grey = (picture @ picture.new_tensor(_LUMINANCE)).unsqueeze(-1)
    some = grey.flatten()[:: max(1, grey.numel() // 100_000)]  # quantile has a limit
    low, high = some.quantile(0.01), some.quantile(0.99)
    gain = (_LIGHTEST - _DARKEST) / (high - low).clamp(min=_LEAST)
    pale = (_DARKEST + _LIGHTEST) / 2 + gain * (grey - (low + high) / 2)
    return (pale + gain * (1 - _GREY) * (picture - grey)).clamp(_DARKEST, 1)


def lay(ax: Axes, picture: Tensor) -> None:
    """Put a picture ``[H, W, 3]`` on the axes, which become the unit square in its proportions."""
    ax.imshow(picture.numpy(), extent=EXTENT, zorder=0)
    ax.set_xlim(0, 1)
    ax.set_ylim(1, 0)
    ax.set_aspect(picture.shape[0] / picture.shape[1])
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
