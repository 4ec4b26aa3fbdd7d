"""The last feature map of any network: what it returns, or what the last layer that still has places returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

Size = tuple[int, int]
_POOLS = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)  # after the last map, also where they leave several cells
_MOST_EXTRA = 16  # tokens that stand for no place: a class token, one for distillation, a few registers


def as_map(output: Any, image: Size, patch: Size | None = None) -> Tensor | None:
    """Return the output of a network as a map ``[B, D, h, w]``; None if it has no axes of positions.

    Takes maps with the channels first or last, tokens ``[B, L, D]`` (those before the cells, a class token or
    registers, are dropped), and the outputs of transformers, where ``feature_maps`` have the channels first.

    Args:
        output: a tensor, or an object or mapping that holds one.
        image: height and width of the images.
        patch: height and width of the patches that tokens stand for, where known.

        >>> import torch
        >>> as_map(torch.rand(2, 197, 768), (224, 224)).shape
        torch.Size([2, 768, 14, 14])
        >>> as_map(torch.rand(2, 1000), (224, 224)) is None
        True
    """
    tensor = _tensor(output)
    if tensor is None or not tensor.is_floating_point():
        return None
    if tensor.dim() == 3:
        cells = _cells(tensor.shape[1], image, patch)
        if cells is None:
            return None
        tensor = tensor[:, tensor.shape[1] - cells[0] * cells[1] :].transpose(1, 2).unflatten(2, cells)
    elif tensor.dim() != 4:
        return None
    elif not getattr(output, "feature_maps", None) and _channels_last(tensor, image):
        tensor = tensor.permute(0, 3, 1, 2)
    return tensor if tensor.shape[2] * tensor.shape[3] > 1 else None


class FeatureMap(nn.Module):
    """A network that returns its last feature map, ``[B, 3, H, W] -> [B, D, h, w]``.

    If neither its ``forward_features`` or ``extract_features`` nor the network itself returns a map, all layers are
    watched in the first pass; that which ends last, with more than one cell, and is no pooling to a fixed size, is
    ``layer`` from then on.

    Args:
        network: any module.
        layer: the name of the submodule whose output is the map, as in ``named_modules``.
        call: how the network is called, where that is not ``network(images)``.
        patch: as for :func:`as_map`.

        >>> import torch
        >>> network = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> feature_map = FeatureMap(network)
        >>> feature_map(torch.rand(2, 3, 15, 15)).shape, feature_map.layer
        (torch.Size([2, 8, 7, 7]), '1')
    """

    def __init__(
        self,
        network: nn.Module,
        layer: str | None = None,
        call: Callable[[Tensor], Any] | None = None,
        patch: Size | None = None,
    ) -> None:
        super().__init__()
        self.network, self.layer, self.patch = network, layer, patch
        own = getattr(network, "forward_features", None) or getattr(network, "extract_features", None)
        # Bound methods: a module as an attribute would be a part of this one twice.
        self._whole = call or network.__call__
        self._call = call or own or network.__call__
        names = dict(network.named_modules())
        if layer is not None and layer not in names:
            ends = [name for name in names if name and name.count(".") < 2]
            raise ValueError(f"the backbone has no layer {layer!r}; it has {', '.join(ends[:40])}, ...")

    def forward(self, images: Tensor) -> Tensor:
        size = (images.shape[2], images.shape[3])
        if self.layer is None:
            found = as_map(self._call(images), size, self.patch)
            if found is not None:
                return found
            self.layer = self._search(images, size)
        kept: list[Any] = []
        layer = self.network.get_submodule(self.layer)
        handle = layer.register_forward_hook(lambda module, inputs, output: kept.append(output))
        try:
            self._whole(images)
        finally:
            handle.remove()
        found = as_map(kept[-1], size, self.patch) if kept else None
        if found is None:
            what = f"returns {_shape(kept[-1])}, no map over {size[0]} x {size[1]}" if kept else "was not used"
            raise ValueError(f"the layer {self.layer!r} of the backbone {what}; name another")
        return found

    def _search(self, images: Tensor, size: Size) -> str:
        last: list[str] = []

        def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                if not isinstance(module, _POOLS) and as_map(output, size, self.patch) is not None:
                    last[:] = [name]

            return hook

        handles = [module.register_forward_hook(watch(name)) for name, module in self.network.named_modules() if name]
        try:
            output = self._whole(images)
        finally:
            for handle in handles:
                handle.remove()
        if not last:
            raise ValueError(
                f"no layer of the backbone has a map over {size[0]} x {size[1]} pixels, it returns {_shape(output)}; "
                "take larger pictures, or another backbone"
            )
        return last[0]


def _tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    maps = getattr(output, "feature_maps", None)
    if maps:
        return maps[-1]
    state = getattr(output, "last_hidden_state", None)
    if isinstance(state, Tensor):
        return state
    if isinstance(output, Mapping):
        tensors = [value for value in output.values() if isinstance(value, Tensor) and value.dim() in (3, 4)]
        return tensors[-1] if tensors else None
    return None


def _cells(count: int, image: Size, patch: Size | None) -> Size | None:
    """Return rows and columns of ``count`` tokens, some of which may stand for no position."""
    if patch is not None:
        h, w = image[0] // patch[0], image[1] // patch[1]
        if 0 <= count - h * w <= _MOST_EXTRA:
            return h, w
    # Patches not known, or merged on the way: the finest squares of which there are not too many.
    for side in range(1, min(image) + 1):
        h, w = image[0] // side, image[1] // side
        if h * w <= count:
            return (h, w) if count - h * w <= _MOST_EXTRA else None
    return None


def _channels_last(tensor: Tensor, image: Size) -> bool:
    """Tell whether only the two middle axes can be those of a grid, whose cells are about as high as they are wide."""

    def fits(h: int, w: int) -> bool:
        return min(h, w) > 0 and 0.5 <= h * image[1] / (w * image[0]) <= 2

    return fits(tensor.shape[1], tensor.shape[2]) and not fits(tensor.shape[2], tensor.shape[3])


def _shape(output: Any) -> str:
    tensor = _tensor(output)
    return type(output).__name__ if tensor is None else f"shape {tuple(tensor.shape)}"
