"""Value functions: ridge regression of values on basis functions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.basis._places import F64, Lengths
from omegamax.basis._positions import grid_positions
from omegamax.basis._ridge_operator import RidgeOperator
from omegamax.basis._ridge_report import RidgeReport, difficulty, errors


class RidgeFit(RidgeOperator):
    r"""Coefficients B of the value function :math:`V(t) = B^\top \psi(t)` that best fits values at L places.

    .. math:: B = \arg\min_B \sum_l \|B^\top \psi(t_l) - v_l\|^2 + \lambda \|B\|_F^2
                = (F F^\top + \lambda I)^{-1} F V, \qquad F = [\psi(t_1), ..., \psi(t_L)]

    The matrix in front of V is computed in double precision and kept, for each size, dtype and device that was met;
    a call is then one matrix product. There are no parameters, and nothing in the state dict.

    Args:
        basis: J functions of a point in n dimensions.
        positions: where the values are. An int L or a tuple ``(H, W)``: the cell centres of a regular grid,
            :func:`grid_positions`. A tensor ``[L, n]``: these places. None: they come with each call (in one
            dimension, if none come, L regular cells for L values).
        penalty: :math:`\lambda \ge 0`. With 0, or one that rounding swallows, coefficients have the least norm among
            the best. The right size of a penalty goes with the square of the basis functions.
        padding: fit zeros around the unit cube as well, on a grid of the same spacing that reaches half a side beyond
            it: :math:`\lfloor k/2 \rfloor` more cells on either side of an axis with k. V then falls to 0 beyond the
            border. For regular grids only.

    ``fit(values [*, L, D])`` gives coefficients ``[*, J, D]``, in the dtype of the values; half precision is computed
    in single. Further arguments, for batches that are not all alike:

    * ``lengths``: for regular grids the size of each example, ``[*]`` in one dimension, ``[*, n]`` in n, in array
      order ``(H, W)``; an example's values are the first of its rows, spread over the whole of the unit cube. For
      fixed places, how many of the first are there, ``[*]``. Rows behind are ignored, whatever they hold. An int or a
      tuple counts for the whole batch. On a GPU, lengths that stay on the CPU save a synchronisation.
    * ``positions [*, L, n]``: places of each example, differentiable; solved anew in each call, so slower.
    * ``mask [*, L]``: True where there is a value; also solved anew.

        >>> from omegamax.basis import GaussianRBF, RidgeFit
        >>> basis = GaussianRBF.grid(8, 1, variance=0.01)
        >>> fit = RidgeFit(basis, 20)
        >>> values = torch.linspace(0, 1, 20).sin().unsqueeze(-1)
        >>> coefficients = fit(values)
        >>> coefficients.shape
        torch.Size([8, 1])
        >>> print(fit.report(values))
        ridge fit of 8 functions to 20 places, penalty 0.01
          rmse                0.00709
          relative error      0.01347
          maximum error       0.02043
          degrees of freedom  7.992
          condition number    52.5

    References: Martins et al. (NeurIPS 2020), Eq. 16; padding: Farinhas, "Visual attention with sparse and continuous
    transformations" (thesis, 2021), Eq. 3.17 and the second footnote of Ch. 6.
    """

    def forward(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Coefficients ``[*, J, D]`` of values ``[*, L, D]``."""
        _check_values("values", "[*, L, D]", values)
        dtype = working_dtype(values)
        operator, present = self._operator(lengths, positions, mask, values.shape[-2], dtype, values.device)
        _check_batches("values", values, operator)
        kept = values.to(dtype)
        if present is not None:  # a zero column would not stop a NaN
            kept = torch.where(present.unsqueeze(-1), kept, 0.0)
        with _full_precision(values.device):
            return (operator @ kept).to(values.dtype)

    def fit(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The same as calling the module."""
        return self(values, lengths, positions=positions, mask=mask)

    def reconstruct(
        self,
        coefficients: Tensor,
        positions: Tensor | int | tuple[int, ...] | None = None,
        *,
        lengths: Lengths | None = None,
    ) -> Tensor:
        """The value function ``[*, L, D]`` with coefficients ``[*, J, D]``, at places ``[*, L, n]``.

        Args:
            positions: a tensor, or the size of a regular grid; by default the places given at construction.
            lengths: of each example, as for the fit; rows behind are zero.
        """
        _check_values("coefficients", f"[*, {len(self.basis)}, D]", coefficients)
        if coefficients.shape[-2] != len(self.basis):
            shape = tuple(coefficients.shape)
            raise ValueError(f"RidgeFit: coefficients must be [*, {len(self.basis)}, D], got shape {shape}")
        device, dtype = coefficients.device, working_dtype(coefficients)
        if positions is not None and not isinstance(positions, Tensor):
            positions = grid_positions(self.places.grid_size(positions), dtype=F64, device=device)
        width = self.places.width(lengths, positions)
        design = self._design(*self.places.each(lengths, positions, None, width, device)).to(dtype)
        _check_batches("coefficients", coefficients, design)
        with _full_precision(device):
            return (design @ coefficients.to(dtype)).to(coefficients.dtype)

    @torch.no_grad()
    def report(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> RidgeReport:
        """How well the fit reproduces the values, and how hard it was; arguments as for the fit."""
        coefficients = self(values, lengths, positions=positions, mask=mask)
        width, device = values.shape[-2], values.device
        points, present = self.places.each(lengths, positions, mask, width, device)
        design = self._design(points, present)
        if positions is None and mask is None:
            sizes = [self.places.whole(width)] if lengths is None else self.places.sizes(lengths, width)[1]
            known = {s: difficulty(*self._rows(s, device), self.penalty) for s in dict.fromkeys(sizes)}
            hard = torch.tensor([known[s] for s in sizes], dtype=F64)
        else:
            hard = torch.stack(difficulty(design, None, self.penalty), -1)
        return RidgeReport(
            **errors(values, design @ coefficients.to(F64), present),
            degrees_of_freedom=hard[..., 1].mean().item(),
            condition=hard[..., 0].max().item(),
            functions=len(self.basis),
            penalty=self.penalty,
        )


def _check_values(argument: str, wanted: str, values: Tensor) -> None:
    if not isinstance(values, Tensor) or not values.is_floating_point():
        given = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(f"RidgeFit: {argument} must be a floating-point tensor, got {given}")
    if values.dim() < 2:
        raise ValueError(f"RidgeFit: {argument} must be {wanted}, got shape {tuple(values.shape)}")


def _check_batches(argument: str, values: Tensor, operator: Tensor) -> None:
    batch, own = values.shape[:-2], operator.shape[:-2]
    if not all(a == b or 1 in (a, b) for a, b in zip(reversed(batch), reversed(own), strict=False)):
        raise ValueError(
            f"RidgeFit: lengths, positions and mask must agree with {argument} of shape {tuple(values.shape)}, "
            f"got a batch of shape {tuple(own)}"
        )


def _full_precision(device: torch.device) -> AbstractContextManager:
    """Autocast off: large coefficients of either sign cancel, which half precision does not survive."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)
