"""SparseMAP and its loss as modules."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from omegamax import structured
from omegamax._arguments import check_choice, check_type
from omegamax.losses import REDUCTIONS
from omegamax.nn.alpha import hold
from omegamax.structured import Factor, Structures


class _FactorModule(torch.nn.Module):
    """A module that owns the tensors of a factor, so that they move, train and are saved with it."""

    def __init__(self, factor: Factor):
        super().__init__()
        check_type(type(self).__name__, "factor", factor, Factor)  # type: ignore[type-abstract]
        self._factor = factor
        self._held = [n for n, v in vars(factor).items() if isinstance(v, Tensor) and v.is_floating_point()]
        for name in self._held:
            hold(self, name, getattr(factor, name))

    @property
    def factor(self) -> Factor:
        """The factor, with the tensors as they are now."""
        if not self._held:
            return self._factor
        factor = copy.copy(self._factor)
        for name in self._held:
            setattr(factor, name, getattr(self, name))
        return factor


class SparseMAP(_FactorModule):
    """Module of :func:`omegamax.structured.sparsemap`.

    Floating tensors of the factor become its own: parameters stay parameters, others are buffers.

    >>> stay = torch.nn.Parameter(torch.eye(2))
    >>> layer = SparseMAP(structured.Sequence(transition=stay))
    >>> layer(torch.tensor([[0.5, 0.0], [0.0, 0.25], [0.75, 0.0]]))
    tensor([[0.6667, 0.3333],
            [0.6667, 0.3333],
            [0.6667, 0.3333]], grad_fn=<ToCopyBackward0>)
    >>> [name for name, _ in layer.named_parameters()]
    ['transition']
    """

    def __init__(self, factor: Factor, return_structures: bool = False, two_state: bool = False):
        super().__init__(factor)
        self.return_structures = return_structures
        self.two_state = two_state

    def forward(
        self, scores: Tensor, additional: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Structures]:
        return structured.sparsemap(  # type: ignore[call-overload]
            scores, self.factor, additional, self.return_structures, mask=mask, two_state=self.two_state
        )

    def extra_repr(self) -> str:
        return f"{self._factor!r}{', two_state=True' if self.two_state else ''}"


class SparseMAPLoss(_FactorModule):
    """Module of :func:`omegamax.structured.sparsemap_loss`.

    >>> SparseMAPLoss(structured.Subsets(2))(torch.tensor([1.0, 0.5, 0.0]), torch.tensor([1.0, 1.0, 0.0]))
    tensor(0.0625)
    """

    def __init__(self, factor: Factor, reduction: str = "mean"):
        super().__init__(factor)
        check_choice("SparseMAPLoss", "reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        additional: Tensor | None = None,
        target_additional: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        return structured.sparsemap_loss(
            scores, target, self.factor, additional, target_additional, self.reduction, mask=mask
        )

    def extra_repr(self) -> str:
        return f"{self._factor!r}, reduction={self.reduction!r}"
