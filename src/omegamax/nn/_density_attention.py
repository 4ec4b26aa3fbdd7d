"""The mean of a value function under a density: what attention to time and space is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from omegamax._arguments import check_number
from omegamax._checks import check_batches, check_matrices
from omegamax._compile import fix_number
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis import Basis, RidgeFit
from omegamax.basis.positions import BatchPositions, Lengths
from omegamax.densities import BetaGaussian, Density, Gaussian
from omegamax.nn._plane_table import PlaneTable, PlaneTables
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
        self._tables = PlaneTables()
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
        return self._take_mean(values, density, where, rows, matched), density

    def _take_mean(
        self, values: Tensor, density: Density, where: BatchPositions, rows: RowWeights | None, matched: bool
    ) -> Tensor:
        """Return the context; ``matched`` says whether the density comes from the weights."""
        name, device = self._name, values.device
        with disable_autocast(device):
            r = self._expect(density)
            dtype = torch.promote_types(r.dtype, working_dtype(values))
            operator = self.fit.operator_at(where, dtype, device)
            shapes = {"values": values.shape[:-2], "density": r.shape[:-1], "positions": operator.shape[:-2]}
            check_batches(name, shapes if rows is None else {**shapes, "weights": rows.batch})
            # The weights of a discrete attention with the same context. einsum copies nothing that broadcasts; where
            # nothing does, a product of matrices is the same in a fraction of the Python.
            r = r.to(dtype)
            w = r @ operator if operator.dim() == 2 else torch.einsum("...j,...jl->...l", r, operator)
            if rows is not None and self.combined:
                w = w + (rows.p if matched else rows.blank(rows.p)).to(dtype)
            if rows is not None and matched:
                w = rows.blank(w)
            kept = values.to(dtype)
            if where.present is not None:  # a zero weight would not stop a NaN
                kept = torch.where(where.present.unsqueeze(-1), kept, 0.0)
            if w.shape[:-1] == kept.shape[:-2]:
                return (w.unsqueeze(-2) @ kept).squeeze(-2).to(values.dtype)
            return torch.einsum("...l,...ld->...d", w, kept).to(values.dtype)

    def _find_table(self, values: Tensor, weights: Tensor) -> PlaneTable | None:
        """Return what one operation over the plane takes beside values and weights; None where there is none."""
        if self.combined:
            return None
        return self._tables.find(self.fit, self.alpha, self.floor, values, weights, self._floor)

    def _attend_plainly(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return context, mean and covariance in operations that autograd differentiates any number of times."""
        where = self.fit.locate(self._name, None, None, None, values.shape[-2], values.device)
        rows = RowWeights(self._name, weights, where, False)
        mean, covariance = self._moments(rows)
        density = make_density(mean, self._alpha(mean), covariance)
        return self._take_mean(values, density, where, rows, True), mean, covariance

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

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_tables": PlaneTables()}  # a copy, or a pickle, makes its own

    def extra_repr(self) -> str:
        alpha = "" if isinstance(self.alpha, torch.nn.Module) else f"alpha={self.alpha}, "
        return f"{alpha}combined={self.combined}, floor={self.floor}"


def make_density(loc: Tensor, alpha: float | Tensor, covariance: Tensor | None = None, **scale: Tensor) -> BetaGaussian:
    """Return the density with this location and covariance, symmetric to the last bit, or scale.

    Validating it would wait for a GPU.
    """
    if torch.compiler.is_compiling() and not isinstance(alpha, Tensor):
        alpha = fix_number(alpha)
    kind: Any = Gaussian if not isinstance(alpha, Tensor) and alpha == 1 else BetaGaussian
    if covariance is not None:
        return kind._from_covariance(loc, covariance, alpha)
    settings: dict[str, Any] = {} if kind is Gaussian else {"alpha": alpha}
    return kind(loc, **scale, **settings, validate_args=False)
