"""Half the squared norm on all of space: the regulariser of regression."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import apply_mask, check_scores
from omegamax.maps.omega import Omega


class SquaredNorm(Omega):
    r"""Half the squared norm of any vector, with the identity as its map and the squared loss as its loss.

    .. math:: \Omega(p) = \tfrac12 \lVert p \rVert^2 \quad (p \in \mathbb{R}^K), \qquad
              \hat p(z) = z, \qquad \Omega^*(z) = \tfrac12 \lVert z \rVert^2, \qquad
              L_\Omega(z; y) = \tfrac12 \lVert z - y \rVert^2

    On the simplex the same function is that of sparsemax, and :class:`KSubsets` has it on another polytope; here
    nothing constrains p. So it is no map to probabilities and has no record: what it returns may be negative, sums to
    anything, and moves with a shift of the scores; each entry is by itself, and no lead is enough for a loss of 0. All
    else that an Omega promises holds: the gradient ``p - y``, a loss that is convex, never negative, and 0 just where
    the map returns the target. ``-inf`` and ``mask`` take an entry out, which is then 0.

        >>> SquaredNorm().argmax(torch.tensor([2.0, -0.5])), SquaredNorm().conjugate(torch.tensor([2.0, -0.5]))
        (tensor([ 2.0000, -0.5000]), tensor(2.1250))

    Reference: Blondel, Martins & Niculae (JMLR 2020), Def. 2.
    """

    name = "squared_norm"
    margin = math.inf
    at_most = True  # points of the domain differ in their sums, so that the level of the scores counts

    @property
    def total(self) -> float:
        """NaN: the entries may sum to anything."""
        return math.nan

    def __call__(self, p: Tensor) -> Tensor:
        return 0.5 * p.square().sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        check_scores(self.name, z, dim)
        z = apply_mask(self.name, z, mask)
        return torch.where(z == -math.inf, 0.0, z)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        value = 0.5 * p.square().sum(-1)
        return value if origin is None else value - origin.squeeze(-1) * p.sum(-1)

    def divergence(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each row, ``[*, K], [*, K] -> [*]``, as one difference: nothing cancels."""
        masked = z == -math.inf
        # An entry that is out costs nothing where the target has none, and is out of reach where it has.
        gap = torch.where(masked, torch.where(y == 0, 0.0, math.inf), torch.where(masked, 0.0, z) - y)
        return 0.5 * gap.square().sum(-1)

    def __repr__(self) -> str:
        return "SquaredNorm()"
