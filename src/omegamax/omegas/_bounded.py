"""A regulariser restricted to probabilities between bounds."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax._registry import get
from omegamax.omegas._base import Omega


class Bounded(Omega):
    r"""``base`` on ``{lower <= p <= upper}``: the regulariser of constrained softmax and sparsemax.

    Args:
        base: ``"softmax"`` or ``"sparsemax"``, or their Omega. Softmax takes no ``lower``.
        upper: ceilings, broadcastable to the scores. Gradients reach them.
        lower: floors, likewise.

    The margin is that of ``base``: scores so far apart leave at most one entry strictly between its bounds.

        >>> Bounded("sparsemax", upper=0.75).argmax(torch.tensor([2.0, 1.0, 0.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    def __init__(self, base: str | Omega, upper: float | Tensor, lower: float | Tensor | None = None):
        self.base = get(base)
        if self.base.name not in ("softmax", "sparsemax"):
            raise ValueError(f"Bounded: base must be 'softmax' or 'sparsemax', got {self.base!r}")
        if self.base.name == "softmax" and lower is not None:
            raise ValueError("Bounded: lower bounds need base='sparsemax', got base='softmax'")
        self.upper = upper
        self.lower = lower

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        return not any(isinstance(bound, Tensor) and bound.dim() for bound in (self.upper, self.lower))

    @property
    def name(self) -> str:
        return f"constrained_{self.base.name}"

    @property
    def margin(self) -> float:
        return self.base.margin

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.upper,) if self.lower is None else (self.upper, self.lower)

    def with_parameters(self, *parameters: float | Tensor) -> Bounded:
        return Bounded(self.base, *parameters)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        # A bound is worth what its entry would gain over the free ones by passing it.
        kept = z != -math.inf
        scores = torch.where(kept, z, 0.0)
        if self.base.name == "softmax":
            # The slope of p log p at 0 is infinite: an entry that may have no mass counts as masked.
            kept = kept & (torch.as_tensor(self.upper) > 0)
            gain = scores - torch.where(kept, self.upper, 1.0).log() - log_threshold(z, p, self.upper)
            return (torch.where(kept & (p >= self.upper), gain.clamp(min=0), 0.0),)
        lower = 0.0 if self.lower is None else self.lower
        gain = scores - p - threshold(z, p, lower, self.upper)
        high = torch.where(kept & (p >= self.upper), gain.clamp(min=0), 0.0)
        low = torch.where(kept & (p <= lower), gain.clamp(max=0), 0.0)
        return (high,) if self.lower is None else (high, low)

    def __call__(self, p: Tensor) -> Tensor:
        return self.base(p)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        if self.base.name == "softmax":
            return functional.constrained_softmax(z, self.upper, dim, mask=mask)
        return functional.constrained_sparsemax(z, self.upper, dim, lower=self.lower, mask=mask)

    def __repr__(self) -> str:
        return f"Bounded({self.base!r}, upper={self.upper}, lower={self.lower})"


def threshold(z: Tensor, p: Tensor, lower: float | Tensor, upper: float | Tensor) -> Tensor:
    """tau of ``p = clip(z - tau, lower, upper)``, ``[*, 1]``; where no entry is free, the middle of what it may be."""
    kept = z != -math.inf
    scores = torch.where(kept, z, 0.0)
    high, low = kept & (p >= upper), kept & (p <= lower)
    free = kept & ~high & ~low
    mean = torch.where(free, scores - p, 0.0).sum(-1, keepdim=True) / free.sum(-1, keepdim=True).clamp(min=1)
    # An entry at its ceiling says that tau is at most z - upper, one at its floor that it is at least z - lower.
    most = torch.where(high & ~low, scores - p, math.inf).amin(-1, keepdim=True)
    least = torch.where(low & ~high, scores - p, -math.inf).amax(-1, keepdim=True)
    most, least = torch.where(most == math.inf, least, most), torch.where(least == -math.inf, most, least)
    middle = torch.where(most.isinf(), 0.0, (most + least) / 2)
    return torch.where(free.any(-1, keepdim=True), mean, middle)


def log_threshold(z: Tensor, p: Tensor, upper: float | Tensor) -> Tensor:
    """lambda with ``p = min(upper, exp(z - lambda))``, ``[*, 1]``; where no entry is free, the most it may be."""
    kept = (z != -math.inf) & (p > 0)
    scores = torch.where(kept, z, 0.0)
    gap = scores - torch.where(kept, p, 1.0).log()
    free = torch.where(kept & (p < upper), p, 0.0)
    mass = free.sum(-1, keepdim=True)
    mean = (free / torch.where(mass > 0, mass, 1.0) * gap).sum(-1, keepdim=True)
    most = torch.where(kept, gap, math.inf).amin(-1, keepdim=True)
    return torch.where(mass > 0, mean, torch.where(most.isinf(), 0.0, most))
