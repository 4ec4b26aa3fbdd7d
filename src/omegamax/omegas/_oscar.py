"""A regulariser with a price on the larger of every pair, over that of a base map."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax.omegas._base import Omega
from omegamax.omegas._fused import Variation


class Oscar(Variation):
    r"""``base(p) + strength * sum_{i<j} max(p_i, p_j)``: the regulariser of :func:`omegamax.oscarmax`.

    Args:
        base: a map by name or its Omega, as there.
        strength: >= 0. Gradients reach it.

    The price of a pair is half the difference of its two, plus half their sum, and of all pairs together half of all
    differences plus a constant, whatever is masked.

        >>> Oscar("sparsemax", 0.25).argmax(torch.tensor([1.0, 0.25, -1.0, 0.75]))
        tensor([0.4167, 0.1667, 0.0000, 0.4167])
        >>> Oscar("sparsemax", 0.25)(torch.tensor([0.75, 0.25, 0.0, 0.0]))
        tensor(0.5000)
    """

    name = "oscarmax"

    def __init__(self, base: str | Omega = "sparsemax", strength: float | Tensor = 1.0):
        super().__init__(base, strength)

    @property
    def reach(self) -> float:
        """Infinite: the more entries there are, the more of a lead is lost on them. See :meth:`lead`."""
        return math.inf

    @property
    def margin(self) -> float:
        """That of ``base`` without a price; with one, no lead is enough for rows of every length: see :meth:`lead`."""
        return self.base.margin if self._most == 0 else math.inf

    def lead(self, size: int) -> float:
        """The margin for rows of ``size`` entries: that of ``base`` plus ``strength * size / 2``.

        A one-hot p has the price of ``size - 1`` pairs, which each of the others, if all are alike, would share in half
        of its pairs with them: ``(size - 2) / 2`` on average.
        """
        return self.base.margin + self._most * size / 2

    @property
    def _most(self) -> float:
        return float(self.strength.max()) if isinstance(self.strength, Tensor) else float(self.strength)

    def differences(self, p: Tensor) -> Tensor:
        """``max(p_i, p_j)`` over the pairs, summed: the largest entry once for each of the others, and so on."""
        rank = torch.arange(p.shape[-1], dtype=p.dtype, device=p.device)
        if self.present is None:
            others = p.shape[-1] - 1 - rank
        else:  # masked entries have no mass, and come last
            others = self.present.sum(-1, keepdim=True) - 1 - rank
        return (p.sort(-1, descending=True).values * others).sum(-1)

    def smoothed(self, z: Tensor) -> Tensor:
        return functional.oscar_prox(z, self.strength)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.oscarmax(z, self.strength, dim, base=self.base, mask=mask)
