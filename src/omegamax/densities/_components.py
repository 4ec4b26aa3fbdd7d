"""The components of a mixture: a density whose last batch axis is theirs, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax.densities._base import Density
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._grid import GridDensity
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities._line import LineDensity
from omegamax.densities._root import Root

# The tensors that make up a density, and how many axes each has after those of the batch.
_RANKS = {
    **{"loc": 1, "diagonal": 1, "square_diagonal": 1, "tril": 2, "square": 2},  # of the beta-Gaussian
    **{"scale": 1, "_edge": 1, "_top": 1},  # of densities over the line
    **{"scores": 1, "nodes": 2, "node_weights": 1, "probs_at_nodes": 1},  # of grids
    "alpha": 0,
}


def substitute_weightless(components: Density, weights: Tensor) -> Density:
    """Return the components ``[*, K]`` with the heaviest in place of each that has no weight in ``[*, K]``.

    Nothing that goes wrong in a component without weight (a scale of 0, say) is then ever computed, and no gradient
    reaches it. A density of an unknown kind stays as it is, and so does the only component there is.
    """
    parts = {} if components.batch_shape[-1] == 1 else _parts(components)
    if not parts:
        return components
    while weights.dim() > len(components.batch_shape):  # components that are shared
        weights = weights.sum(0)
    for axis, size in enumerate(components.batch_shape[-weights.dim() :]):
        if size == 1 and weights.shape[axis] != 1:
            weights = weights.sum(axis, keepdim=True)
    alive = (weights != 0).expand(components.batch_shape)
    best = weights.argmax(-1, keepdim=True).expand(*components.batch_shape[:-1], 1)
    axis = alive.dim() - 1

    def replace(part: Tensor) -> Tensor:
        ones = (1,) * (part.dim() - alive.dim())
        index = best.reshape(*best.shape, *ones).expand(*best.shape, *part.shape[axis + 1 :])
        return torch.where(alive.reshape(*alive.shape, *ones), part, part.detach().gather(axis, index))

    return _assemble(type(components), components, {name: replace(part) for name, part in parts.items()})


def stack_components(name: str, components: Sequence[Density]) -> Density:
    """Return densities ``[*, K]``, which differ in K, as one ``[M, *, K]`` with the largest K.

    Copies of the first fill those that have fewer.
    """
    kind = _common_kind(name, components)
    for held in ("g", "function"):  # functions of points can be shared, but not stacked
        first = getattr(components[0], held, None)
        if any(getattr(each, held, None) is not first for each in components):
            raise ValueError(f"{name}: the components must share one {held}, got different ones")
    parts = [_parts(each) for each in components]
    if len({frozenset(own) - {"alpha"} for own in parts}) > 1:
        parts = [_parts(each, full=True) for each in components]
    alphas: list[Any] = [getattr(each, "alpha", None) for each in components]
    if any(isinstance(alpha, Tensor) for alpha in alphas) or len(set(alphas)) > 1:
        for each, own, alpha in zip(components, parts, alphas, strict=True):
            like = next(iter(own.values()))
            own["alpha"] = torch.as_tensor(alpha, dtype=like.dtype, device=like.device).expand(each.batch_shape)
    most = max(each.batch_shape[-1] for each in components)
    axis = len(components[0].batch_shape) - 1

    for key in parts[0]:
        shapes = {tuple(own[key].shape[axis + 1 :]) for own in parts}
        if len(shapes) > 1:
            listed = " and ".join(map(str, sorted(shapes)))
            raise ValueError(f"{name}: the components must agree in the shape of their {key.strip('_')}, got {listed}")

    def fill(part: Tensor) -> Tensor:
        spare = part.detach().narrow(axis, 0, 1)
        size = (*spare.shape[:axis], most - part.shape[axis], *spare.shape[axis + 1 :])
        return torch.cat([part, spare.expand(size)], axis)

    together = {key: torch.stack([fill(own[key]) for own in parts]) for key in parts[0]}
    return _assemble(kind, components[0], together)


def _common_kind(name: str, components: Sequence[Density]) -> type:
    """Return the type that all are of; members of a family with an alpha each have the family's."""
    kinds = {type(each) for each in components}
    if len(kinds) == 1 and _parts(components[0]):
        return type(components[0])
    for family in (BetaGaussian, BetaLaplace):
        if all(isinstance(each, family) for each in components):
            return family
    listed = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"{name}: the components must be of one family that the library knows, got {listed}")


def _parts(density: Any, full: bool = False) -> dict[str, Tensor]:
    """Return the tensors that a density consists of, each with the whole batch.

    ``full`` gives every Sigma by its factor.
    """
    if isinstance(density, BetaGaussian):
        root, parts = density._root, {"loc": density.loc}
        if full or (root.square is None and not root.diagonal):
            parts["tril"] = root.tril()
        elif root.square is None:
            parts["diagonal"] = root.values
        else:  # not its root, through which a singular matrix sends a NaN back
            parts["square_diagonal" if root.diagonal else "square"] = root.square
        if isinstance(density.alpha, Tensor):
            parts["alpha"] = density.alpha
    else:
        known = isinstance(density, (LineDensity, GridDensity))
        held = {name: getattr(density, name, None) for name in _RANKS} if known else {}
        parts = {name: part for name, part in held.items() if isinstance(part, Tensor)}
    batch = density.batch_shape
    return {name: part.expand(*batch, *part.shape[part.dim() - _RANKS[name] :]) for name, part in parts.items()}


def _assemble(kind: Any, like: Any, parts: dict[str, Tensor]) -> Density:
    """Return a density of this kind, and like the given one, with other tensors."""
    if issubclass(kind, BetaGaussian):
        return kind._from_root(parts["loc"], _root(parts), parts.get("alpha", like.alpha), False)
    new = like.expand(like.batch_shape, kind.__new__(kind))
    for name, part in parts.items():
        setattr(new, name, part)
        new._batch_shape = part.shape[: part.dim() - _RANKS[name]]
    return new


def _root(parts: dict[str, Tensor]) -> Root:
    if "square" in parts:
        return Root(None, False, parts["square"])
    if "square_diagonal" in parts:
        return Root(parts["square_diagonal"].sqrt(), True, parts["square_diagonal"])
    return Root(parts["diagonal"], True) if "diagonal" in parts else Root(parts["tril"], False)
