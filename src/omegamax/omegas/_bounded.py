"""A regulariser restricted to probabilities between bounds."""

from __future__ import annotations

from torch import Tensor

from omegamax import functional
from omegamax._registry import get
from omegamax.omegas._base import Omega


class Bounded(Omega):
    r"""``base`` on ``{lower <= p <= upper}``: the regulariser of constrained softmax and sparsemax.

    Args:
        base: ``"softmax"`` or ``"sparsemax"``, or their Omega. Softmax takes no ``lower``.
        upper: ceilings, broadcastable to the scores.
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
    def name(self) -> str:
        return f"constrained_{self.base.name}"

    @property
    def margin(self) -> float:
        return self.base.margin

    def __call__(self, p: Tensor) -> Tensor:
        return self.base(p)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        if self.base.name == "softmax":
            return functional.constrained_softmax(z, self.upper, dim, mask=mask)
        return functional.constrained_sparsemax(z, self.upper, dim, lower=self.lower, mask=mask)

    def __repr__(self) -> str:
        return f"Bounded({self.base!r}, upper={self.upper}, lower={self.lower})"
