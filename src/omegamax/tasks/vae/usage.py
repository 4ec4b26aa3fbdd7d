"""How much of the simplex codes use."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class CodeUsage(Metric):
    """Faces of codes ``[*, n, K]`` of n variables on a simplex of K vertices.

    ``compute`` gives ``corner``, the share of variables on a corner; ``zero``, the share of entries that are exactly 0;
    ``nonzeros``, the mean number of entries that are not; ``faces``, how many faces a variable was seen on, on average.

        >>> usage = CodeUsage(variables=2, vertices=3)
        >>> usage.update(torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0], [0.2, 0.8, 0.0]]]))
        >>> {name: round(value.item(), 3) for name, value in usage.compute().items()}
        {'corner': 0.5, 'zero': 0.5, 'nonzeros': 1.5, 'faces': 1.5}
    """

    full_state_update = False

    def __init__(self, variables: int, vertices: int) -> None:
        super().__init__()
        if vertices > 16:
            raise ValueError(f"CodeUsage: vertices must be at most 16, there are 2^K - 1 faces; got {vertices}")
        self.vertices = vertices
        for name in ("corners", "entries", "codes"):
            self.add_state(name, torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("seen", torch.zeros(variables, 2**vertices), dist_reduce_fx="max")

    corners: Tensor
    entries: Tensor
    codes: Tensor
    seen: Tensor

    def update(self, code: Tensor) -> None:
        """Add codes."""
        face = (code > 0).reshape(-1, *code.shape[-2:])  # [N, n, K]
        size = face.sum(-1)
        self.corners += (size == 1).sum()
        self.entries += size.sum()
        self.codes += size.numel()
        number = (face * 2 ** torch.arange(self.vertices, device=code.device)).sum(-1)
        self.seen.scatter_(1, number.mT, 1.0)

    def compute(self) -> dict[str, Tensor]:
        """Return all measures, by name."""
        nonzeros = self.entries / self.codes
        return {
            "corner": self.corners / self.codes,
            "zero": 1 - nonzeros / self.vertices,
            "nonzeros": nonzeros,
            "faces": self.seen.sum() / len(self.seen),
        }
