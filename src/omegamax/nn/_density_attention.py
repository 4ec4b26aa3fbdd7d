"""The mean of a value function under a density: what attention to time and space is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from omegamax._arguments import check_number
from omegamax._checks import check_batches, check_matrices
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis import Basis, RidgeFit
from omegamax.basis.positions import BatchPositions, Lengths
from omegamax.densities import Density
from omegamax.nn._row_weights import RowWeights
from omegamax.nn.alpha import Alpha, hold_alpha

Matched = TypeVar("Matched", bound=Density)  # the density that a subclass matches to weights


class DensityAttention(torch.nn.Module, Generic[Matched]):
    """The mean of a value function under a density. A subclass says which, in :meth:`_match` and ``forward``."""

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        basis: Basis,
        alpha: float | Tensor | Alpha,
        positions: int | tuple[int, ...] | Tensor | None,
        penalty: float,
        padding: bool,
        combined: bool,
        floor: float | None,
        learnable: bool,
        per: int | tuple[int, int] | None,
        bounds: tuple[float, float],
        least: float,
    ):
        super().__init__()
        self._name = name = type(self).__name__
        if floor is not None:
            floor = check_number(name, "floor", floor, least=0)
        self.fit = RidgeFit(basis, positions, penalty, padding)
        self.combined = combined
        self.floor = floor
        n = basis.dimension
        if isinstance(alpha, Alpha):
            if learnable or per is not None:
                raise ValueError(f"{name}: learnable and per go with a number; the Alpha that was given has its own")
            self.alpha = alpha
        else:
            hold_alpha(self, alpha, learnable, per, bounds, above=least)
        if isinstance(self.alpha, Alpha) and not self.alpha.low > least:
            raise ValueError(f"{name}: bounds[0] must be > {least:g} in {n} dimension(s), got {self.alpha.low:g}")

    @property
    def basis(self) -> Basis:
        """Return the basis of the value function."""
        return self.fit.basis

    def match(
        self,
        weights: Tensor,
        positions: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
        extents: Tensor | None = None,
    ) -> Matched:
        """Return the density for weights ``[*, L]``: the one under which ``forward`` takes the mean."""
        width = weights.shape[-1] if isinstance(weights, Tensor) and weights.dim() else 0
        device = weights.device if isinstance(weights, Tensor) else torch.device("cpu")
        where = self._fill(self.fit.locate(self._name, lengths, positions, mask, width, device), extents)
        return self._match(RowWeights(self._name, weights, where, False))

    def attend(self, coefficients: Tensor, density: Density) -> Tensor:
        """Return the context ``[*, D]`` of value functions with coefficients ``[*, J, D]``, as ``fit`` gives them."""
        check_matrices(self._name, "coefficients", coefficients, f"[*, {len(self.basis)}, D]", len(self.basis))
        with disable_autocast(coefficients.device):
            r = self._expect(density)
            check_batches(self._name, {"coefficients": coefficients.shape[:-2], "density": r.shape[:-1]})
            dtype = torch.promote_types(r.dtype, coefficients.dtype)
            context = torch.einsum("...j,...jd->...d", r.to(dtype), coefficients.to(dtype))
            return context.to(coefficients.dtype)

    def _match(self, rows: RowWeights) -> Matched:
        """Return the density for weights."""
        raise NotImplementedError

    def _context(
        self,
        values: Tensor,
        weights: Tensor | None,
        density: Density | None,
        positions: Tensor | None,
        lengths: Lengths | None,
        mask: Tensor | None,
        extents: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """Return context ``[*, D]`` and density: the one given, or the one that matches the weights."""
        name = self._name
        check_matrices(name, "values", values, "[*, L, D]")
        width, device = values.shape[-2], values.device
        where = self._fill(self.fit.locate(name, lengths, positions, mask, width, device), extents)
        rows = None if weights is None else RowWeights(name, weights, where, self.combined)
        matched = density is None
        if density is None:
            assert rows is not None  # weights are the only source left
            density = self._match(rows)
        with disable_autocast(device):
            r = self._expect(density)
            dtype = torch.promote_types(r.dtype, working_dtype(values))
            operator = self.fit.operator_at(where, dtype, device)
            shapes = {"values": values.shape[:-2], "density": r.shape[:-1], "positions": operator.shape[:-2]}
            check_batches(name, shapes if rows is None else {**shapes, "weights": rows.batch})
            # The weights of a discrete attention with the same context. einsum copies nothing that broadcasts.
            w = torch.einsum("...j,...jl->...l", r.to(dtype), operator)
            if rows is not None and self.combined:
                w = w + (rows.p if matched else rows.blank(rows.p)).to(dtype)
            if rows is not None and matched:
                w = rows.blank(w)
            kept = values.to(dtype)
            if where.present is not None:  # a zero weight would not stop a NaN
                kept = torch.where(where.present.unsqueeze(-1), kept, 0.0)
            return torch.einsum("...l,...ld->...d", w, kept).to(values.dtype), density

    def _fill(self, where: BatchPositions, extents: Tensor | None) -> BatchPositions:
        """Return the positions with the sides of the boxes that the values fill."""
        if extents is None:
            return where
        check_matrices(self._name, "extents", extents, f"[*, {where.width}, {where.dimension}]", where.width)
        if where.points is None or extents.shape[-1] != where.dimension:
            wanted = f"sides of boxes [*, {where.width}, {where.dimension}] at given positions"
            given = f"shape {tuple(extents.shape)}" + ("" if where.points is not None else " for a regular grid")
            raise ValueError(f"{self._name}: extents must be {wanted}, got {given}")
        return replace(where, extents=extents)

    def _moments(self, rows: RowWeights) -> tuple[Tensor, Tensor]:
        """Return mean ``[*, n]`` and covariance ``[*, n, n]`` of the positions under weights, the floor added."""
        where = rows.where
        return rows.moments(self._floor(rows.like if where.extents is None else rows.p, where))

    def _floor(self, p: Tensor, where: BatchPositions) -> Tensor:
        """Return the variance to add along each axis, ``[*, n]``."""
        n = self.basis.dimension
        if where.extents is not None:
            return where.box_variance(p) + (self.floor or 0.0)
        floor = where.cell_variance(p) if self.floor is None else p.new_full((n,), self.floor)
        return floor.expand((*floor.shape[:-1], n))

    def _alpha(self, loc: Tensor) -> Any:
        """Return alpha as a float, or as a tensor that broadcasts with the batch of ``loc [*, n]``."""
        if not isinstance(self.alpha, Alpha):
            return self.alpha
        alpha = self.alpha(loc)
        if self.alpha.axis is not None:
            if self.alpha.axis in (-1, loc.dim() - 1):
                given = f"the last, axis {self.alpha.axis}"
                raise ValueError(f"{self._name}: per must name an axis of the batch, got {given}")
            alpha = alpha.squeeze(-1)
        return alpha

    def _expect(self, density: Density) -> Tensor:
        if not isinstance(density, Density):
            given = type(density).__name__
            raise TypeError(f"{self._name}: density must be a density of omegamax.densities, got {given}")
        return density.expect(self.basis)

    def extra_repr(self) -> str:
        alpha = "" if isinstance(self.alpha, torch.nn.Module) else f"alpha={self.alpha}, "
        return f"{alpha}combined={self.combined}, floor={self.floor}"
