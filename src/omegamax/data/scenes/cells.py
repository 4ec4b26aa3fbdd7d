"""What is in each cell of a picture: labels from which features can be learnt before any question is asked."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d
from torch.utils.data import Dataset

from omegamax.data.scenes.dataset import Scenes

_COVERED = 0.2  # share of a cell that a thing must cover to be what is in it


class Cells(Dataset[dict[str, Tensor]]):
    """The pictures of :class:`Scenes` with the shape and the colour of what is in each cell of a grid over them.

    A sample is a dict: ``image [3, S, S]`` bytes, ``shape [h, w]`` and ``colour [h, w]``, numbers into
    ``scenes.shapes`` and ``scenes.colours`` plus one; 0 where there is little but ground.

    Args:
        scenes: their questions are left aside.
        grid: cells ``(h, w)``.

        >>> cells = Cells(Scenes(5, image_size=32), (4, 4))
        >>> sample = cells[0]
        >>> sample["image"].shape, sample["shape"].shape, bool(((sample["shape"] > 0) == (sample["colour"] > 0)).all())
        (torch.Size([3, 32, 32]), torch.Size([4, 4]), True)
    """

    def __init__(self, scenes: Scenes, grid: tuple[int, int]) -> None:
        self.scenes, self.grid = scenes, grid

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        scene = self.scenes.ask(index).scene
        picture, masks = scene.draw()
        shapes, colours = self.scenes.shapes, self.scenes.colours
        cover, which = adaptive_avg_pool2d(torch.from_numpy(masks)[None].float(), self.grid)[0].max(0)
        labels = torch.tensor([[shapes.index(t.shape) + 1, colours.index(t.colour) + 1] for t in scene.things])
        shape, colour = torch.where(cover >= _COVERED, labels.T[:, which], 0)
        return {"image": torch.from_numpy(picture.transpose(2, 0, 1).copy()), "shape": shape, "colour": colour}
