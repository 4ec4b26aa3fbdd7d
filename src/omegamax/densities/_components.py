"""The components of a mixture: a density whose last batch axis is theirs, taken apart and put together again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax.densities._base import Density
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._grid import GridDensity
from omegamax.densities._line import LineDensity
from omegamax.densities._root import Root

# Tensors that make up a density, and how many axes each has after those of the batch.
_LINE = {"loc": 1, "scale": 1, "_edge": 1, "_top": 1, "alpha": 0}
_GRID = {"scores": 1, "nodes": 2, "node_weights": 1, "probs_at_nodes": 1, "alpha": 0}


def substituted(components: Density, weights: Tensor) -> Density:
    """The components ``[*, K]`` with the heaviest in place of each that has no weight in ``[*, K]``.

    Nothing that goes wrong in a component without weight (a scale of 0, say) is then ever computed, and no gradient
    reaches it. A density of an unknown kind stays as it is.
    """
    parts = _parts(components)
    if not parts:
        return components
    while weights.dim() > len(components.batch_shape):  # components that are shared
        weights = weights.sum(0)
    for axis, size in enumerate(components.batch_shape[-weights.dim() :]):
        if size == 1 and weights.shape[axis] != 1:
            weights = weights.sum(axis, keepdim=True)
    alive = (weights > 0).expand(components.batch_shape)
    best = weights.argmax(-1, keepdim=True).expand(*components.batch_shape[:-1], 1)
    axis = alive.dim() - 1

    def replace(part: Tensor) -> Tensor:
        ones = (1,) * (part.dim() - alive.dim())
        index = best.reshape(*best.shape, *ones).expand(*best.shape, *part.shape[axis + 1 :])
        return torch.where(alive.reshape(*alive.shape, *ones), part, part.detach().gather(axis, index))

    return _assembled(components, {name: replace(part) for name, part in parts.items()})


def stacked(name: str, components: Sequence[Density]) -> Density:
    """Densities ``[*, K]``, which differ in K, as one ``[M, *, K]`` with the largest K; copies of the first fill up."""
    first, kinds = components[0], {type(each) for each in components}
    quadratic = all(isinstance(each, BetaGaussian) for each in components)
    if not (quadratic or len(kinds) == 1) or not _parts(first):
        listed = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{name}: the components must be of one family that the library knows, got {listed}")
    if len({each.event_shape for each in components}) > 1:
        raise ValueError(f"{name}: the components must have the same dimension")
    parts = [_parts(each, full=True) for each in components]
    alphas = [getattr(each, "alpha", None) for each in components]
    if any(isinstance(alpha, Tensor) for alpha in alphas) or len(set(alphas)) > 1:
        for each, own, alpha in zip(components, parts, alphas, strict=True):
            like = next(iter(own.values()))
            own["alpha"] = torch.as_tensor(alpha, dtype=like.dtype, device=like.device).expand(each.batch_shape)
    for held in ("g", "function"):
        if len({id(getattr(each, held, None)) for each in components}) > 1:
            raise ValueError(f"{name}: the components must share one {held}")
    most = max(each.batch_shape[-1] for each in components)
    axis = len(first.batch_shape) - 1

    def fill(part: Tensor) -> Tensor:
        missing = most - part.shape[axis]
        spare = part.detach().narrow(axis, 0, 1)
        return torch.cat([part, spare.expand(*spare.shape[:axis], missing, *spare.shape[axis + 1 :])], axis)

    together = {key: torch.stack([fill(own[key]) for own in parts]) for key in parts[0]}
    if len(kinds) > 1:
        return _quadratic(BetaGaussian, together, alphas[0])
    return _assembled(first, together)


def _parts(density: Any, full: bool = False) -> dict[str, Tensor]:
    """The tensors that a density consists of, with the whole of its batch; ``full`` gives a scale as ``scale_tril``."""
    batch = density.batch_shape
    if isinstance(density, BetaGaussian):
        parts, ranks = _quadratic_parts(density, full)
    else:
        known = _LINE if isinstance(density, LineDensity) else _GRID if isinstance(density, GridDensity) else {}
        ranks = {name: rank for name, rank in known.items() if isinstance(getattr(density, name, None), Tensor)}
        parts = {name: getattr(density, name) for name in ranks}
    return {name: part.expand(*batch, *part.shape[part.dim() - ranks[name] :]) for name, part in parts.items()}


def _quadratic_parts(density: BetaGaussian, full: bool) -> tuple[dict[str, Tensor], dict[str, int]]:
    root, parts, ranks = density._root, {"loc": density.loc}, {"loc": 1}
    if full:
        parts["tril"], ranks["tril"] = root.tril(), 2
    else:
        key, rank = ("diagonal", 1) if root.diagonal else ("tril", 2)
        parts[key], ranks[key] = root.values, rank
        if root.square is not None:
            parts["square"], ranks["square"] = root.square, rank
    if isinstance(density.alpha, Tensor):
        parts["alpha"], ranks["alpha"] = density.alpha, 0
    return parts, ranks


def _assembled(like: Any, parts: dict[str, Tensor]) -> Density:
    """A density like the given one with other tensors."""
    if isinstance(like, BetaGaussian):
        return _quadratic(type(like), parts, like.alpha)
    new = copy.copy(like)
    for name, part in parts.items():
        setattr(new, name, part)
    rank = _GRID["scores"] if isinstance(like, GridDensity) else _LINE["loc"]
    leading = parts["scores"] if isinstance(like, GridDensity) else parts["loc"]
    new._batch_shape = leading.shape[: leading.dim() - rank]
    return new


def _quadratic(kind: type[BetaGaussian], parts: dict[str, Tensor], alpha: Any) -> BetaGaussian:
    diagonal = "diagonal" in parts
    root = Root(parts["diagonal" if diagonal else "tril"], diagonal, parts.get("square"))
    return kind._from_root(parts["loc"], root, parts.get("alpha", alpha), False)
