"""Every loss as a module, constructed as :class:`torch.nn.CrossEntropyLoss` is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import losses
from omegamax._arguments import check_choice
from omegamax.losses._fenchel_young import REDUCTIONS
from omegamax.losses._targets import check_smoothing
from omegamax.maps import Omega, get
from omegamax.nn.alpha import Alpha, alpha_for, hold, hold_alpha


class FenchelYoungLoss(torch.nn.Module):
    """Module of :func:`omegamax.fenchel_young_loss`.

    >>> FenchelYoungLoss("sparsemax")(torch.tensor([1.0, 0.5, -1.0]), torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.0625)
    """

    def __init__(self, omega: str | Omega, reduction: str = "mean"):
        super().__init__()
        check_choice("FenchelYoungLoss", "reduction", reduction, REDUCTIONS)
        self.omega = get(omega)
        self.reduction = reduction

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return losses.fenchel_young_loss(z, y, self.omega, self.reduction)

    def extra_repr(self) -> str:
        return f"{self.omega!r}, reduction={self.reduction!r}"


class _ClassificationLoss(torch.nn.Module):
    """What the losses below share: the options of cross-entropy, with ``weight`` as a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float):
        super().__init__()
        check_choice(type(self).__name__, "reduction", reduction, REDUCTIONS)
        check_smoothing(type(self).__name__, label_smoothing)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the function."""
        return {
            "weight": self.weight,
            "ignore_index": self.ignore_index,
            "reduction": self.reduction,
            "label_smoothing": self.label_smoothing,
        }

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class SoftmaxLoss(_ClassificationLoss):
    """Module of :func:`omegamax.softmax_loss`.

    >>> SoftmaxLoss()(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]))
    tensor(0.5550)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.softmax_loss(z, target, **self.options())


class SparsemaxLoss(_ClassificationLoss):
    """Module of :func:`omegamax.sparsemax_loss`.

    >>> SparsemaxLoss()(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]))
    tensor(0.0625)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.sparsemax_loss(z, target, **self.options())


class Entmax15Loss(_ClassificationLoss):
    """Module of :func:`omegamax.entmax15_loss`.

    >>> Entmax15Loss()(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    tensor(0.0617)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.entmax15_loss(z, target, **self.options())


class EntmaxLoss(_ClassificationLoss):
    """Module of :func:`omegamax.entmax_loss`, alpha fixed or learnt.

    Args:
        alpha, learnable, per, bounds: as in :class:`~omegamax.nn.Entmax`; an axis of ``per`` is one of the scores.
        weight, ignore_index, reduction, label_smoothing: as in the function.

    >>> EntmaxLoss(alpha=1.25)(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]))
    tensor(0.3035)
    """

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        alpha: float | Tensor = 1.5,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (1.0, 2.0),
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        hold_alpha(self, alpha, learnable, per, bounds, above=0.0)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.entmax_loss(z, target, alpha_for(self.alpha, z), **self.options())


class NormmaxLoss(_ClassificationLoss):
    """Module of :func:`omegamax.normmax_loss`, alpha fixed or learnt.

    Args:
        alpha, learnable, per, bounds: as in :class:`~omegamax.nn.Normmax`; an axis of ``per`` is one of the scores.
        weight, ignore_index, reduction, label_smoothing: as in the function.

    >>> NormmaxLoss()(torch.tensor([[1.0, 0.5, -1.0]]), torch.tensor([0]))
    tensor(0.0886)
    """

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        alpha: float | Tensor = 2.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (1.1, 4.0),
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        hold_alpha(self, alpha, learnable, per, bounds, above=1.0)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.normmax_loss(z, target, alpha_for(self.alpha, z), **self.options())


class KSubsetsLoss(_ClassificationLoss):
    """Module of :func:`omegamax.k_subsets_loss`.

    >>> KSubsetsLoss(k=2)(torch.tensor([[1.0, 0.75, 0.5, 0.25, 0.0]]), torch.tensor([[0, 1]]))
    tensor(0.1562)
    """

    k: float | Tensor

    def __init__(
        self,
        k: float | Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        hold(self, "k", k)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        return losses.k_subsets_loss(z, target, self.k, **self.options())
