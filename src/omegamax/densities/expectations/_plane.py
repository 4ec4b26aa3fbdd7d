r"""A beta-Gaussian over the plane, as a distribution of one coordinate and a distribution of the other given that one.

In coordinates in which the density is round, :math:`t = \mu + \sqrt c L z`, the distribution of :math:`z_1` is a
beta-Gaussian of :math:`e' = e / (1 + e/2)` with ``e = alpha - 1``; given :math:`z_1`, the other coordinate is a
beta-Gaussian of the same alpha, in units of :math:`\sqrt{1 - e z_1^2 / 2}`. Turning the plane changes nothing. An
integral over a region is then one over :math:`z_1` of integrals over the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omegamax._numerics import log_volume
from omegamax.basis import Basis
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._windows import Bell, Rule, excess, find_closed_order, gauss_legendre, to_double

# For the inner of two integrals.
INNER: Rule = gauss_legendre(32)
# Numbers in the largest array of one part: what a processor has in its cache.
_SIZE = 1 << 20


@dataclass(frozen=True)
class Plane:
    """Tensors are ``[*, 1]`` but for the root."""

    e: Tensor
    root: Tensor  # sqrt(c) L, [*, 2, 2]
    first: Bell  # the distribution of the first coordinate
    second: Bell  # that of the other in its units, with an axis more
    order: int | None  # 1 / (alpha - 1) if there is a closed form

    @classmethod
    def of(cls, density: BetaGaussian) -> Plane:
        e, root = excess(density), to_double(density.scale_tril)
        log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        level = (log_volume(e, 2) - math.log(2 * math.pi) - log_det) / (1 + e)
        number = e if isinstance(density.alpha, Tensor) else density.alpha - 1
        first = replace(Bell.standard(number / (1 + number / 2), root), unit=(1 + e / 2).rsqrt())
        second = Bell.standard(number, root).add_axis()
        return cls(e, root * (e * level / 2).exp().unsqueeze(-1), first, second, find_closed_order(density.alpha))

    def chord(self, z: Tensor) -> Tensor:
        """Return the unit of the second coordinate, given the first at nodes ``[*, J, Q]``."""
        return (1 - self.e.unsqueeze(-1) * z.square() / 2).clamp(min=1e-40).sqrt()


def check_planar(density: BetaGaussian, basis: Basis) -> None:
    """Refuse more than two dimensions, in which such a basis has no rule."""
    if density.dimension > 2:
        raise NotImplementedError(
            f"expect: BetaGaussian with {type(basis).__name__} needs 1 or 2 dimensions, got {density.dimension}; "
            "there, GaussianRBF, Fourier and Polynomial have rules"
        )


def integrate_in_parts(rule: Callable[..., Tensor], plane: Plane, outer: int, *pairs: Tensor) -> Tensor:
    """Return ``rule(plane, *pairs)`` for tensors ``[*, J, n]``, in parts of the J functions, ``[*, J]``.

    ``outer`` is the number of nodes for each pair, each of which has as many again as its inner integral.
    """
    inner = len(INNER[0]) if plane.order is None else 8
    count = max(1, _SIZE // (outer * inner * max(1, pairs[0].shape[:-2].numel())))
    parts = [rule(plane, *part) for part in zip(*(t.split(count, -2) for t in pairs), strict=True)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
