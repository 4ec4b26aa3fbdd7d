"""Features of one more picture, made as those of a folder were."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from omegamax.data.files import DataError, FilePath, read_json, value
from omegamax.tasks.features.backbones import load_backbone
from omegamax.tasks.features.extract import PROJECTION, SETTINGS
from omegamax.tasks.features.principal import Principal
from omegamax.tasks.features.views import Views


class FolderFeatures:
    """Makes features of pictures as ``features.json`` in a folder of ``omegamax features`` says.

    Args:
        folder: with that file.
        weights: of the backbone, if they were given as a file when the folder was made; others are refused.

    A call takes bytes ``[3, H, W]`` of any size and returns ``[h, w, D]``.
    """

    def __init__(self, folder: FilePath, weights: FilePath | None = None) -> None:
        path = Path(folder) / SETTINGS
        if not path.is_file():
            raise DataError(
                f"{folder} has no {SETTINGS} that says how its features were made; give those of the picture"
            )
        settings, place = read_json(path), str(path)
        layer = settings.get("layer") if isinstance(settings, dict) else None
        spec = value(place, settings, "backbone", str)
        if spec.startswith("python:"):
            raise DataError(f"{path} names {spec}, code that is not run because a file says so; extract the features")
        self.backbone = load_backbone(spec, weights=weights, layer=layer)
        if self.backbone.fingerprint() != value(place, settings, "weights", str):
            raise DataError(f"{path} was made with other weights of {spec}; extract the features of the picture")
        for name in ("mean", "std"):
            numbers = torch.tensor(value(place, settings, name, list), dtype=torch.float32)
            getattr(self.backbone, name).copy_(numbers.reshape(3, 1, 1))
        size, grid = (value(place, settings, name, list) for name in ("size", "grid"))
        self.grid = int(grid[0]), int(grid[1])
        views = value(place, settings, "views", dict) if "views" in settings else {}
        try:
            self.views = Views.of((int(size[0]), int(size[1])), views)
        except (TypeError, ValueError) as error:
            raise DataError(f"{path} has views that cannot be read ({error}); extract the features") from error
        reduced = settings.get("principal_of") is not None
        self.principal = Principal.load(Path(folder) / PROJECTION) if reduced else None

    @torch.no_grad()
    def __call__(self, image: Tensor) -> Tensor:
        images = [each.unsqueeze(0).float() / 255 for each in self.views.make(image)]
        maps = self.views.see(self.backbone, images, self.grid)
        if self.principal is not None:
            maps = self.principal(maps)
        return maps[0].permute(1, 2, 0).contiguous()
