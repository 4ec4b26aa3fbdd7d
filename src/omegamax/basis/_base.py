"""What every basis has: J functions of a point, held as buffers so that they move with a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._numerics import working_dtype


class Basis(torch.nn.Module):
    r"""J basis functions :math:`\psi_j: \mathbb{R}^n \to \mathbb{R}`; ``basis(t)`` takes ``[*, n]`` to ``[*, J]``.

    A basis has no parameters and leaves no trace in a state dict; its tensors move with the model that holds it, and
    stay in single precision where the model goes to half. Values come in the wider of the dtypes of ``t`` and basis.
    """

    dimension: int

    def __len__(self) -> int:
        """The number J of functions."""
        raise NotImplementedError

    def forward(self, t: Tensor) -> Tensor:
        """Values at points ``[*, n]``, ``[*, J]``."""
        raise NotImplementedError

    def _hold(self, name: str, value: Tensor) -> None:
        value = value.detach()
        if value.is_floating_point():
            value = value.to(working_dtype(value))
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Basis:
        return super()._apply(at_least_single(fn), recurse)

    def _check_points(self, t: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(t, Tensor) or not t.is_floating_point():
            given = t.dtype if isinstance(t, Tensor) else type(t).__name__
            raise TypeError(f"{name}: t must be a floating-point tensor, got {given}")
        if t.dim() == 0 or t.shape[-1] != self.dimension:
            raise ValueError(f"{name}: t must be [*, {self.dimension}], got shape {tuple(t.shape)}")


def at_least_single(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``fn`` for ``Module._apply``, but for the cast to half precision: a centre 0.7 would move by 2e-4."""

    def kept(t: Tensor) -> Tensor:
        moved = fn(t)
        return t.to(moved.device) if moved.is_floating_point() and moved.dtype.itemsize < 4 else moved

    return kept


def check_matrix(name: str, argument: str, value: object) -> Tensor:
    """Refuse what is not a tensor ``[J, n]`` with at least one row and one column."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {argument} must be a tensor [J, n], got {type(value).__name__}")
    if value.dim() != 2 or 0 in value.shape:
        raise ValueError(f"{name}: {argument} must be [J, n] with J, n >= 1, got shape {tuple(value.shape)}")
    return value
