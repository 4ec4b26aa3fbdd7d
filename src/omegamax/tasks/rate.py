"""The learning rate over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from omegamax._arguments import check_choice, check_number

if TYPE_CHECKING:
    import lightning as L
    from torch.optim import Optimizer

SHAPES = ("constant", "steps", "cosine", "inverse_sqrt")


@dataclass(frozen=True)
class Rate:
    r"""A learning rate that rises, stays, and falls.

    .. math:: r_t = \text{peak} \cdot \min(t / \text{warmup}, 1) \cdot f_t, \qquad t = 1, 2, \dots

    Args:
        peak: the highest.
        warmup: how long it takes to get there, in units of ``interval``; 0: at once.
        fall: f is 1 throughout (``"constant"``), multiplied by ``factor`` after each of the ``milestones``
            (``"steps"``), half a cosine that ends at 0 with the training (``"cosine"``), or the square root of
            ``warmup`` over t once t is beyond it (``"inverse_sqrt"``).
        milestones: when it falls, with ``"steps"``.
        factor: by how much it falls there.
        interval: what t counts, ``"epoch"`` or ``"step"``.

    Example:
        >>> paper = Rate(1e-4, warmup=4, fall="steps", milestones=(10, 12), factor=0.2)
        >>> [round(paper.factor_at(epoch) * paper.peak, 7) for epoch in (0, 1, 3, 9, 10, 12)]
        [2.5e-05, 5e-05, 0.0001, 0.0001, 2e-05, 4e-06]
    """

    peak: float = 1e-4
    warmup: int = 4
    fall: str = "steps"
    milestones: tuple[int, ...] = (10, 12)
    factor: float = 0.2
    interval: str = "epoch"

    def __post_init__(self) -> None:
        check_choice("Rate", "fall", self.fall, SHAPES)
        check_choice("Rate", "interval", self.interval, ("epoch", "step"))
        check_number("Rate", "peak", self.peak, above=0)
        check_number("Rate", "warmup", self.warmup, least=0)
        object.__setattr__(self, "milestones", tuple(self.milestones))

    def factor_at(self, done: int, total: int | None = None) -> float:
        """Return the factor of ``peak`` after ``done`` steps or epochs, of ``total``."""
        rise = min((done + 1) / self.warmup, 1.0) if self.warmup else 1.0
        if self.fall == "steps":
            return rise * self.factor ** sum(done >= milestone for milestone in self.milestones)
        if self.fall == "inverse_sqrt":
            return rise * math.sqrt(max(self.warmup, 1) / max(done + 1, self.warmup, 1))
        if self.fall == "cosine" and total:
            return rise * 0.5 * (1 + math.cos(math.pi * min(done / total, 1.0)))
        return rise

    def schedule(self, optimizer: Optimizer, trainer: L.Trainer) -> dict[str, Any]:
        """Return what ``configure_optimizers`` of a Lightning module does: the optimiser, and its rate over time."""
        from torch.optim.lr_scheduler import LambdaLR

        total = int(trainer.estimated_stepping_batches) if self.interval == "step" else trainer.max_epochs
        schedule = LambdaLR(optimizer, partial(self.factor_at, total=total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": self.interval}}
