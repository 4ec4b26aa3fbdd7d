"""Neighbours in an image with equal probabilities: total variation on a grid, over any base map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from torch import Tensor

from omegamax._checks import apply_mask, check_scores
from omegamax.maps.omega import Omega
from omegamax.maps.penalised import Penalised, check_base, solve_in_working_dtype
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register
from omegamax.maps.total_variation import prox_2d, tv_prox_2d


class TotalVariation2d(Penalised):
    r"""``base(p) + strength * sum of |differences|`` along both axes: the regulariser of :func:`omegamax.tvmax`.

    Args:
        base: a map by name or its Omega, as there.
        strength: >= 0. Gradients reach it.
        shape: ``(H, W)`` where the image comes as one axis of H W entries, row by row, as in attention over the cells
            of an image; one of the two may be -1. By default scores are ``[*, H, W]`` and the value is ``[*]``.

        >>> import torch
        >>> omega = TotalVariation2d("sparsemax", 0.1)
        >>> omega.argmax(torch.tensor([[1.0, 0.9, -1.0], [0.95, 0.5, 0.0]]))
        tensor([[0.3375, 0.2625, 0.0000],
                [0.3375, 0.0625, 0.0000]])
        >>> flat = TotalVariation2d("sparsemax", 0.1, shape=(2, 3))
        >>> flat.argmax(torch.tensor([1.0, 0.9, -1.0, 0.95, 0.5, 0.0]))
        tensor([0.3375, 0.2625, 0.0000, 0.3375, 0.0625, 0.0000])
    """

    name = "tvmax"

    def __init__(
        self,
        base: str | Omega = "sparsemax",
        strength: float | Tensor = 0.01,
        shape: tuple[int, int] | None = None,
    ):
        super().__init__(base, strength)
        if shape is not None:
            sizes = tuple(shape) if isinstance(shape, Sequence) else ()
            if len(sizes) != 2 or min(sizes) < -1 or 0 in sizes or sizes == (-1, -1):
                raise ValueError(f"TotalVariation2d: shape must be (H, W), one of the two -1 at most, got {shape!r}")
        self.shape = shape

    @property
    def reach(self) -> float:
        # A cell gives way to four neighbours, and one of these comes up by one if masks part it from the others. With
        # several leaders a cell may come up by all its edges.
        return 5.0 if isinstance(self.base.total, float) and self.base.total <= 1 else 8.0

    @property
    def total(self) -> float | Tensor:
        total = self.base.total
        return total.unsqueeze(-1) if self._by_image(total) else total

    def penalty(self, p: Tensor) -> Tensor:
        p, present = self._image(p), None if self.present is None else self._image(self.present)
        down, right = (p[..., 1:, :] - p[..., :-1, :]).abs(), (p[..., 1:] - p[..., :-1]).abs()
        if present is not None:
            down = down * (present[..., 1:, :] & present[..., :-1, :])
            right = right * (present[..., 1:] & present[..., :-1])
        return down.sum((-2, -1)) + right.sum((-2, -1))

    def smooth(self, z: Tensor) -> Tensor:
        strength = self.strength
        if self.shape is None:
            return tv_prox_2d(z, strength)
        if isinstance(strength, Tensor) and strength.dim():
            strength = strength.unsqueeze(-1)
        return tv_prox_2d(self._image(z), strength).flatten(-2)

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        # The base map has one axis where the image has two.
        return (*(a.unsqueeze(-1) if self._by_image(a) else a for a in self.base.parameters), self.strength)

    def with_parameters(self, *parameters: float | Tensor) -> TotalVariation2d:
        *of_base, strength = parameters
        return super().with_parameters(*(a.squeeze(-1) if self._by_image(a) else a for a in of_base), strength)

    def _by_image(self, a: float | Tensor) -> TypeGuard[Tensor]:
        return self.shape is None and isinstance(a, Tensor) and a.dim() > 0

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        price = self.within(z).penalty(p)
        v = self.smooth(z)
        if self.shape is not None:
            return (*self.base.parameter_gradients(v, p), -price.unsqueeze(-1))
        slopes = self.base.parameter_gradients(v.flatten(-2), p.flatten(-2))
        return (*(slope.unsqueeze(-1) for slope in slopes), -price[..., None, None])

    def __call__(self, p: Tensor) -> Tensor:
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim():
            strength = strength.reshape(strength.shape[: -2 if self.shape is None else -1])
        return self.base(p if self.shape is not None else p.flatten(-2)) + strength * self.penalty(p)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        if self.shape is None:
            if dim not in (-1, z.dim() - 1):
                raise ValueError(f"TotalVariation2d: dim must be -1, the last of the image's two axes, got {dim}")
            return tvmax(z, self.strength, base=self.base, mask=mask)
        dim = check_scores("tvmax", z, dim)
        z = apply_mask("tvmax", z, mask)
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim():
            strength = strength.movedim(dim, -1).unsqueeze(-1)
        rows = self._image(z.movedim(dim, -1) if z.dim() else z.reshape(1))
        p = tvmax(rows, strength, base=self.base)
        return p.flatten(-2).movedim(-1, dim) if z.dim() else p.reshape(())

    def _image(self, z: Tensor) -> Tensor:
        if self.shape is None:
            return z
        height, width = self.shape
        if z.shape[-1] % (height * width) if -1 in self.shape else z.shape[-1] != height * width:
            raise ValueError(f"TotalVariation2d: shape={self.shape} does not hold the {z.shape[-1]} entries of a row")
        return z.unflatten(-1, self.shape)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"TotalVariation2d({self.base!r}, strength={self.strength}{shape})"


def tvmax(
    z: Tensor,
    strength: float | Tensor = 0.01,
    *,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return probabilities in patches: a penalty on the difference of neighbours in an image.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p)
              - \lambda \sum_{i,j} |p_{i+1,j} - p_{i,j}| + |p_{i,j+1} - p_{i,j}|

    Args:
        z: scores ``[*, H, W]``, normalised over both axes; ``-inf`` masks a cell.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or ``[*, 1, 1]``. Gradients reach it.
        base: as in :func:`fusedmax`.
        mask: bool, broadcastable to ``z``; ``False`` masks a cell, with its edges: pad images of different sizes to
            one and mask the padding.

    Returns:
        Like ``z``: in the domain of ``base``, which sums to one over both axes.

        >>> import torch
        >>> tvmax(torch.tensor([[1.0, 0.9, -1.0], [0.95, 0.5, 0.0]]), strength=0.1)
        tensor([[0.3375, 0.2625, 0.0000],
                [0.3375, 0.0625, 0.0000]])

    Reference: Martins et al. (ICIP 2021), eqs. 5-7.
    """
    if isinstance(z, Tensor) and z.dim() < 2:
        raise ValueError(f"tvmax: z must have at least two axes [*, H, W], got shape {tuple(z.shape)}")
    for axis in (-1, -2):
        check_scores("tvmax", z, axis)
    omega = check_base("tvmax", base)
    shape = z.shape[-2:]

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_2d("tvmax", x, strength, "z").flatten(-2)).unflatten(-1, shape)

    return solve_in_working_dtype(apply_mask("tvmax", z, mask), omega, (-2, -1), solve)


def _program(cp, p, omega: TotalVariation2d):
    """Return Omega of the image ``p``, which comes as a row."""
    cell = np.arange(p.size).reshape(omega.shape)
    first = np.concatenate([cell[1:].ravel(), cell[:, 1:].ravel()])
    second = np.concatenate([cell[:-1].ravel(), cell[:, :-1].ravel()])
    return (cp.sum_squares(p) - 1) / 2 + omega.strength * cp.sum(cp.abs(p[first] - p[second]))


register(
    MapRecord(
        "tvmax",
        tvmax,
        TotalVariation2d,
        summary="neighbours in an image get equal weights: attention in patches",
        complexity="a few cuts of the grid",
        cite="martins2021tvmax",
        example={"strength": 0.25},
        colour="#5f7c2b",
        domain="image",
        program=_program,
        learnable=Learnable("strength"),
        module="TVmax",
        equivariant=False,
    )
)
