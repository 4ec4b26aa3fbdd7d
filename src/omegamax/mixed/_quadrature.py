"""Nodes and weights that integrate over faces, and over each line through them."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_count
from omegamax.mixed._faces import faces


@functools.cache
def _legendre(order: int) -> tuple[Tensor, Tensor]:
    x, w = np.polynomial.legendre.leggauss(order)
    return torch.from_numpy((1 + x) / 2), torch.from_numpy(w / 2)


def legendre(order: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return Gauss-Legendre nodes and weights ``[order]`` on the interval [0, 1]."""
    return _legendre_on(order, like.dtype, like.device)


@functools.lru_cache(maxsize=64)
def _legendre_on(order: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Keep nodes and weights on the device: nothing can be copied there while a CUDA graph is captured."""
    with torch.inference_mode(False):
        x, w = (each.to(device, dtype) for each in _legendre(order))
    return x, w


@functools.cache
def _hermite(order: int) -> tuple[Tensor, Tensor]:
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return torch.from_numpy(x), torch.from_numpy(np.log(w) - 0.5 * math.log(2 * math.pi))


def normal_nodes(dimension: int, order: int) -> tuple[Tensor, Tensor]:
    """Return nodes ``[Q, r]`` and log-weights ``[Q]`` of a product of Gauss-Hermite rules for N(0, I); float64."""
    x, log_w = _hermite(order)
    grid = torch.cartesian_prod(*[x] * dimension).reshape(-1, dimension)
    weights = torch.cartesian_prod(*[log_w] * dimension).reshape(-1, dimension).sum(-1)
    return grid, weights


@functools.cache
def sobol(dimension: int, points: int) -> Tensor:
    """Return scrambled Sobol points ``[points, dimension]`` inside the unit cube, always the same ones; float64."""
    if dimension == 0:
        return torch.empty(points, 0, dtype=torch.float64)
    if dimension > torch.quasirandom.SobolEngine.MAXDIM:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(points, dimension, dtype=torch.float64, generator=generator)
    u = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=0).draw(points, dtype=torch.float64)
    edge = torch.finfo(torch.float64).eps
    return u.clamp(edge, 1 - edge)


@functools.cache
def _conical(vertices: int, order: int) -> tuple[Tensor, Tensor]:
    d = vertices - 1
    if d == 0:
        return torch.ones(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    x, w = _legendre(order)
    cube = torch.cartesian_prod(*[x] * d).reshape(-1, d)
    weights = torch.cartesian_prod(*[w] * d).reshape(-1, d).prod(-1)
    powers = torch.arange(d - 1, -1, -1, dtype=torch.float64)
    return _break_stick(cube), weights * (1 - cube).pow(powers).prod(-1)


def _break_stick(cube: Tensor) -> Tensor:
    """Return ``[Q, k]`` from shares ``[Q, k - 1]``, each of what those before it left."""
    one = cube.new_ones(len(cube), 1)
    return torch.cat([one, (1 - cube).cumprod(-1)], -1) * torch.cat([cube, one], -1)


def face_nodes(
    vertices: int,
    order: int = 24,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return nodes and weights that integrate over the direct sum of all faces, for a few vertices.

    .. math:: \sum_f \int_{\mathrm{ri} f} g(y) \, dy \approx \sum_q w_q \, g(y_q)

    A conical product of Gauss-Legendre rules on each face: accurate for functions that are smooth on every face, up to
    its border. There are about ``order^(K-1)`` nodes.

    Returns:
        ``nodes [Q, K]``, ordered by face as in :func:`omegamax.mixed.faces`, and ``weights [Q]``.

        >>> nodes, weights = face_nodes(3, order=4)
        >>> weights.sum()  # three vertices, three edges of length 1, a triangle of area 1/2
        tensor(6.5000)
    """
    check_count("face_nodes", "order", order)
    every = faces(vertices)
    if order ** (vertices - 1) > 2**22:
        raise ValueError(f"face_nodes: order^(K-1) must be at most 2^22, got {order}^{vertices - 1}")
    points, weights = [], []
    for face in every:
        size = int(face.sum())
        y, w = _conical(size, order)
        node = torch.zeros(len(y), vertices, dtype=torch.float64)
        node[:, face] = y
        points.append(node)
        weights.append(w)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return torch.cat(points).to(device, dtype), torch.cat(weights).to(device, dtype)
