"""Where expectation-maximisation starts: each point a member of one component."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.mixtures._draws import StartDraws
from omegamax.mixtures._points import GivenPoints, Points

INITS = ("split", "kmeans++", "random")
# Part of a box by which a cut is moved: rounding shall not say on which side the middle row of a grid is.
MARGIN = 1e-6


def split_boxes(points: Points, components: int) -> Tensor:
    """Return members of boxes of equal volume, ``[*, L]``, into which the box of the points that have weight is cut.

    Two components are the halves along the last axis (upper and lower of an image), four the quadrants. In general a
    box for K components is cut in two, for K // 2 and the rest, in proportion and along the axes in turn. Points on a
    cut belong to the second.

    Reference: Farinhas (2021), section 6.3, K-MCA.
    """
    low, high = (side.unsqueeze(-2) for side in points.box)
    wide = high > low
    fraction = torch.where(wide, (points.x - low) / torch.where(wide, high - low, 1.0), 0.5)
    shape = torch.broadcast_shapes(fraction.shape[:-1], points.weights.shape)
    labels = torch.zeros(shape, dtype=torch.long, device=points.x.device)

    def cut(box: list[tuple[float, float]], label: int, parts: int, axis: int) -> None:
        nonlocal labels
        if parts == 1:
            return
        first = parts // 2
        start, end = box[axis]
        middle = start + (end - start) * first / parts
        behind = label + first
        labels = torch.where((labels == label) & (fraction[..., axis] >= middle - MARGIN), behind, labels)
        following = axis - 1 if axis else len(box) - 1
        cut([*box[:axis], (start, middle), *box[axis + 1 :]], label, first, following)
        cut([*box[:axis], (middle, end), *box[axis + 1 :]], behind, parts - first, following)

    n = points.dimension
    cut([(0.0, 1.0)] * n, 0, components, n - 1)
    return labels


def draw_seeds(points: Points, components: int, starts: int, spread: bool, draws: StartDraws) -> Tensor:
    """Return members of the nearest of K points drawn in proportion to their weight, ``[starts, *, L]``.

    With ``spread`` each is drawn in proportion to weight times the squared distance from those drawn before
    (k-means++), so that far groups all get one. Once every distinct point is drawn the other components stay empty.

    Reference: Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding.
    """
    w, axes = points.weights.detach(), points.x.detach().unbind(-1)
    shape = (starts, *w.shape)
    labels = torch.zeros(shape, dtype=torch.long, device=w.device)
    nearest = torch.full_like(w, math.inf).expand(shape)
    for k in range(components):
        odds = w.expand_as(nearest) if k == 0 else w * (nearest if spread else (nearest > 0).to(w.dtype))
        levels = odds.cumsum(-1)
        draw = draws.take((*shape[:-1], 1)) * levels[..., -1:]
        index = torch.searchsorted(levels, draw, right=True).clamp(max=shape[-1] - 1)
        # Coordinate by coordinate: sums over two or three neighbours in memory are slow.
        distance = sum((a - a.expand(shape).gather(-1, index)).square() for a in axes)
        closer = distance < nearest
        labels = torch.where(closer, k, labels)
        nearest = torch.where(closer, distance, nearest)
    return labels


def make_starts(points: Points, components: int, init: str, restarts: int, draws: StartDraws) -> Tensor:
    """Return members, ``[restarts, *, L]``; starts after the first of ``"split"`` are those of ``"kmeans++"``."""
    if init != "split":
        return draw_seeds(points, components, restarts, init == "kmeans++", draws)
    first = split_boxes(points, components).unsqueeze(0)
    if restarts == 1:
        return first
    return torch.cat([first, draw_seeds(points, components, restarts - 1, True, draws)])


def count_draws(points: Points | GivenPoints, components: int, init: str, restarts: int) -> int:
    """Return how many random numbers :func:`make_starts` takes."""
    return components * (restarts - 1 if init == "split" else restarts) * math.prod(points.batch_shape)


def one_hot(labels: Tensor, components: int, dtype: torch.dtype) -> Tensor:
    """Return members ``[*, L]`` as responsibilities ``[*, K, L]`` of 0 and 1."""
    return (labels.unsqueeze(-2) == torch.arange(components, device=labels.device).unsqueeze(-1)).to(dtype)
