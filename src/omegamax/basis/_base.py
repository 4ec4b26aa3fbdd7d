"""What every basis has: J functions of a point, held as buffers so that they move with a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._arguments import check_type
from omegamax._checks import check_shape
from omegamax._numerics import working_dtype


def at_least_single(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return ``fn`` for ``Module._apply`` without the cast to half precision: a centre 0.7 would move by 2e-4."""

    def apply(t: Tensor) -> Tensor:
        moved = fn(t)
        return t.to(moved.device) if moved.is_floating_point() and moved.dtype.itemsize < 4 else moved

    return apply


class Basis(torch.nn.Module):
    r"""J basis functions :math:`\psi_j: \mathbb{R}^n \to \mathbb{R}`; ``basis(t)`` takes ``[*, n]`` to ``[*, J]``.

    A basis has no parameters and leaves no trace in a state dict; its tensors move with the model that holds it, and
    stay in single precision where the model goes to half. Values come in the wider of the dtypes of ``t`` and basis.
    """

    dimension: int

    def __len__(self) -> int:
        """Return the number J of functions."""
        raise NotImplementedError

    def forward(self, t: Tensor) -> Tensor:
        """Return the values at points ``[*, n]``, ``[*, J]``."""
        raise NotImplementedError

    def _hold(self, name: str, value: Tensor) -> None:
        value = value.detach()
        if value.is_floating_point():
            value = value.to(working_dtype(value))
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Basis:
        return super()._apply(at_least_single(fn), recurse)


def check_matrix(name: str, argument: str, value: object) -> Tensor:
    """Refuse what is not a tensor ``[J, n]`` with at least one row and one column; return it."""
    value = check_type(name, argument, value, Tensor, "a tensor [J, n]")
    check_shape(name, argument, value, "J", "n")
    return value
