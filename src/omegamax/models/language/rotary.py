"""Positions as angles."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(x: Tensor, first: int, base: float = 10000.0) -> Tensor:
    r"""Turn vectors ``[*, L, D]`` at places ``first``, ``first + 1``, ... by angles that grow with the place.

    .. math:: (x_j, x_{j + D/2}) \mapsto (x_j \cos \theta - x_{j + D/2} \sin \theta,\;
              x_j \sin \theta + x_{j + D/2} \cos \theta), \qquad \theta = t\, \mathit{base}^{-2j/D}

    The product of a query and a key that are turned depends on the distance of their places alone.

    Args:
        x: queries or keys, with an even number of features.
        first: place of the first of them.
        base: of the wave lengths, which go from :math:`2 \pi` to :math:`2 \pi\, \mathit{base}` places.

        >>> q, k = torch.randn(1, 4), torch.randn(1, 4)
        >>> near, far = (float((rotate(q, t + 3) * rotate(k, t)).sum()) for t in (0, 100))
        >>> abs(near - far) < 1e-4
        True

    Reference: Su et al., "RoFormer: enhanced transformer with rotary position embedding" (2021).
    """
    half = x.shape[-1] // 2
    # Angles in double precision: at a million places single precision has no digit of a turn left.
    places = torch.arange(first, first + x.shape[-2], dtype=torch.float64, device=x.device)
    waves = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angle = places[:, None] * waves
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
