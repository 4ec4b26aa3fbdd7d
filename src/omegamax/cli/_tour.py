"""What each registered map does to one score vector and to one small image: the numbers of ``omegamax tour``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.losses import fenchel_young_loss
from omegamax.maps import MapRecord, Omega, records

CHOICES = 8
SIDE = 14
SHARPNESS = 3.2
PLANE = 240


def _slant() -> Tensor:
    """Return the edges of the image's grid ``[2, E]``: from each cell to the right, and to the lower right."""
    cell = torch.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    right, slant = (cell[:, :-1], cell[:, 1:]), (cell[:-1, :-1], cell[1:, 1:])
    return torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in (right, slant)], 1)


# The examples of the register suit a handful of scores; a picture needs parameters on its own scale.
_VECTOR: dict[str, dict[str, Any]] = {
    "k_subsets": {"k": 3},
    "constrained_softmax": {"upper": 0.25},
    "constrained_sparsemax": {"upper": 0.35},
    "sequential_k_subsets": {"k": 3},
}
_GRID: dict[str, dict[str, Any]] = {
    "k_subsets": {"k": 12},
    "constrained_softmax": {"upper": 0.015},
    "constrained_sparsemax": {"upper": 0.05},
    "fusedmax": {"strength": 0.4},
    "tvmax": {"strength": 0.4},
    "graph_fusedmax": {"edges": _slant(), "strength": 0.4},
    "oscarmax": {"strength": 0.008},
    "sequential_k_subsets": {"k": 12},
}


@dataclass(frozen=True)
class Stop:
    """One map: what it gave, and what it was given."""

    transform: MapRecord
    vector_options: dict[str, Any]
    grid_options: dict[str, Any]
    margin: float
    vector: Tensor  # [K]
    path: Tensor  # [T, K]
    grid: Tensor  # [H, W]
    plane: Tensor  # [S, S, 3]
    loss: Tensor  # [G]

    @property
    def name(self) -> str:
        return self.transform.name


@dataclass(frozen=True)
class Tour:
    """The inputs that all maps share, and a stop for each map."""

    scores: Tensor  # [K]
    temperatures: Tensor  # [T]
    image: Tensor  # [H, W]
    gaps: Tensor  # [G]
    stops: list[Stop]


def tour(seed: int, progress: Callable[[str], None] = lambda name: None) -> Tour:
    """Send the scores of ``seed`` through every registered map. ``progress`` hears each name before its turn."""
    from omegamax.viz import plane

    generator = torch.Generator().manual_seed(seed)
    scores = score_vector(generator)
    image = blobs(generator)
    temperatures = torch.logspace(-1, 1, 181, dtype=torch.float64)
    gaps = torch.linspace(-1, 5, 241, dtype=torch.float64)
    lattice = plane(PLANE)
    stops = []
    for t in records().values():
        progress(t.name)
        on_vector = {**t.example, **_VECTOR.get(t.name, {})}
        on_grid = {**t.example, **_GRID.get(t.name, {})}
        # An image takes a row as its only line.
        line = {"shape": (1, -1)} if t.image else {}
        omega, wide = t.omega(**t.example, **line), t.omega(**on_vector, **line)
        stops.append(
            Stop(
                transform=t,
                vector_options=on_vector,
                grid_options=on_grid,
                margin=omega.margin,
                vector=wide.argmax(scores),
                path=wide.argmax(scores / temperatures[:, None]),
                grid=t(SHARPNESS * (image if t.image else image.flatten()), **on_grid).reshape(image.shape),
                plane=omega.argmax(lattice),
                loss=loss_along(omega, gaps),
            )
        )
    return Tour(scores, temperatures, image, gaps, stops)


def score_vector(generator: torch.Generator) -> Tensor:
    """Return a few scores, best first. ``[K]``"""
    scores = 1.2 * torch.randn(CHOICES, generator=generator, dtype=torch.float64)
    return scores.sort(descending=True).values


def blobs(generator: torch.Generator) -> Tensor:
    """Return an image of two bright spots on a rough ground, in [0, 1]. ``[H, W]``"""
    at = torch.arange(SIDE, dtype=torch.float64)
    y, x = torch.meshgrid(at, at, indexing="ij")

    def spot(row: float, column: float, width: float) -> Tensor:
        return torch.exp(-((y - row).square() + (x - column).square()) / (2 * width**2))

    ground = 0.07 * torch.randn(SIDE, SIDE, generator=generator, dtype=torch.float64)
    image = spot(3.8, 4.2, 1.7) + 0.85 * spot(9.2, 9.6, 2.1) + ground
    return (image - image.min()) / (image.max() - image.min())


def loss_along(omega: Omega, gaps: Tensor) -> Tensor:
    """Compute the loss of the best answer when each of four scores leads the next by ``gaps``. ``[G]``

    The target is the vertex that far-apart scores select: one-hot on the simplex, k-hot for k-subsets.
    """
    stairs = torch.arange(4, 0, -1, dtype=torch.float64)
    target = omega.argmax(100 * stairs)
    z = gaps[:, None] * stairs
    return fenchel_young_loss(z, target.expand_as(z), omega, reduction="none")
