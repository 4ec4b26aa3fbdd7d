"""Faces of the simplex, and the constraint that points lie on one of them."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from omegamax._checks import check_bools
from omegamax._numerics import working_dtype

_MOST_VERTICES = 16  # vertices up to which all faces are listed: 65535 of them


def faces(vertices: int, device: torch.device | str | None = None) -> Tensor:
    """Return all non-empty faces of a simplex, ``[2^K - 1, K]`` bool: True at the vertices a face has.

    Small faces come first (vertices, edges, triangles and so on), those of a size in lexicographic order.

        >>> faces(3).int().tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
    """
    if isinstance(vertices, bool) or not isinstance(vertices, int):
        raise TypeError(f"faces: vertices must be an int, got {type(vertices).__name__}")
    if not 1 <= vertices <= _MOST_VERTICES:
        raise ValueError(f"faces: vertices must lie in [1, {_MOST_VERTICES}], there are 2^K - 1 faces; got {vertices}")
    return _faces_on(vertices, torch.device("cpu" if device is None else device)).clone()


@functools.lru_cache(maxsize=64)
def _faces_on(vertices: int, device: torch.device) -> Tensor:
    """Keep the table on the device too: nothing can be copied there while a CUDA graph is captured."""
    with torch.inference_mode(False):
        return _faces(vertices).to(device)


@functools.cache
def _faces(vertices: int) -> Tensor:
    table = torch.zeros(2**vertices - 1, vertices, dtype=torch.bool)
    subsets = itertools.chain.from_iterable(
        itertools.combinations(range(vertices), size) for size in range(1, vertices + 1)
    )
    for row, subset in zip(table, subsets, strict=True):
        row[list(subset)] = True
    return table


def face_of(value: Tensor) -> Tensor:
    """Return the face in whose relative interior points ``[*, K]`` of the simplex lie, ``[*, K]`` bool: their support.

    >>> face_of(torch.tensor([0.25, 0.75, 0.0]))
    tensor([ True,  True, False])
    """
    return value > 0


def check_face(name: str, face: Tensor, vertices: int, validate: bool) -> Tensor:
    """Refuse what is not a bool tensor ``[*, K]``; with ``validate``, a face without vertices too."""
    check_bools(name, "face", face, "True at the vertices it has")
    if face.dim() == 0 or face.shape[-1] != vertices:
        raise ValueError(f"{name}: face must have shape [*, {vertices}], got {tuple(face.shape)}")
    if validate and not bool(face.any(-1).all()):
        raise ValueError(f"{name}: face must have at least one vertex, got one with none")
    return face


class _OnFaces(Constraint):
    """The closed simplex in the last axis: entries >= 0 that sum to one, to the rounding of their dtype."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        wide = working_dtype(value)
        slack = 1e-6 + 4 * torch.finfo(value.dtype).eps + value.shape[-1] * torch.finfo(wide).eps
        total = value.to(wide).sum(-1)
        return (value >= 0).all(-1) & ((total - 1).abs() <= slack)


on_faces = _OnFaces()
