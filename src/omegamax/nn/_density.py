"""What attention to a density is made of, however the density comes about: its moments, its alpha, its context."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._numerics import working_dtype
from omegamax.basis import Basis, RidgeFit
from omegamax.basis._places import Lengths
from omegamax.densities import BetaGaussian, Gaussian
from omegamax.densities._base import Density
from omegamax.nn._layout import Layout, check_batches, check_matrix, equalised, layout, moments, normalised
from omegamax.nn.alpha import Alpha, alpha_for, hold_alpha


class DensityAttention(torch.nn.Module):
    """The mean of a value function under a density. A subclass says which, in :meth:`_matched` and ``forward``."""

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
        if floor is not None and (not is_number(floor) or not 0 <= floor < math.inf):
            raise ValueError(f"{name}: floor must be a finite number >= 0, a variance, or None, got {floor!r}")
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
        """The basis of the value function."""
        return self.fit.basis

    def match(
        self,
        weights: Tensor,
        positions: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        """The density for weights ``[*, L]``."""
        width = weights.shape[-1] if isinstance(weights, Tensor) and weights.dim() else 0
        device = weights.device if isinstance(weights, Tensor) else torch.device("cpu")
        where = layout(self._name, self.fit, lengths, positions, mask, width, device)
        p, lost = normalised(self._name, weights, where.present, width)
        return self._matched(equalised(p, lost, where.present), where)

    def attend(self, coefficients: Tensor, density: Density) -> Tensor:
        """The context ``[*, D]`` of value functions with coefficients ``[*, J, D]``, as ``fit`` gives them."""
        check_matrix(self._name, "coefficients", f"[*, {len(self.basis)}, D]", coefficients, len(self.basis))
        with full_precision(coefficients.device):
            r = self._expect(density)
            check_batches(self._name, {"coefficients": coefficients.shape[:-2], "density": r.shape[:-1]})
            dtype = torch.promote_types(r.dtype, coefficients.dtype)
            context = torch.einsum("...j,...jd->...d", r.to(dtype), coefficients.to(dtype))
            return context.to(coefficients.dtype)

    def _matched(self, p: Tensor, where: Layout) -> Density:
        """The density for ``p [*, L]``, each row of which sums to one."""
        raise NotImplementedError

    def _context(
        self,
        values: Tensor,
        weights: Tensor | None,
        density: Density | None,
        positions: Tensor | None,
        lengths: Lengths | None,
        mask: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """Context ``[*, D]`` and density: the one given, or the one that matches the weights."""
        name = self._name
        check_matrix(name, "values", "[*, L, D]", values)
        width, device = values.shape[-2], values.device
        where = layout(name, self.fit, lengths, positions, mask, width, device)
        p = lost = None
        if weights is not None:
            p, lost = normalised(name, weights, where.present, width)
        if density is not None:
            lost = None
        else:
            assert p is not None and lost is not None  # weights are the only source left
            density = self._matched(equalised(p, lost, where.present), where)
        with full_precision(device):
            r = self._expect(density)
            dtype = torch.promote_types(r.dtype, working_dtype(values))
            at: dict[str, Any] = {"positions": positions, "mask": mask, "width": width}
            operator = self.fit.operator(lengths, **at, dtype=dtype, device=device)
            shapes = {"values": values.shape[:-2], "density": r.shape[:-1], "places": operator.shape[:-2]}
            check_batches(name, shapes if p is None else {**shapes, "weights": p.shape[:-1]})
            # The weights of a discrete attention with the same context. einsum copies nothing that broadcasts.
            w = torch.einsum("...j,...jl->...l", r.to(dtype), operator)
            if p is not None:
                p = p.to(dtype)
                w = w if lost is None else torch.where(lost, p, w)
                w = w + p if self.combined else w
            kept = values.to(dtype)
            if where.present is not None:  # a zero weight would not stop a NaN
                kept = torch.where(where.present.unsqueeze(-1), kept, 0.0)
            return torch.einsum("...l,...ld->...d", w, kept).to(values.dtype), density

    def _moments(self, p: Tensor, where: Layout) -> tuple[Tensor, Tensor]:
        """Mean ``[*, n]`` and covariance ``[*, n, n]`` of the places under p, the floor added."""
        mean, covariance = moments(p, where.coordinates(p))
        return mean, covariance + torch.diag_embed(self._floor(p, where))

    def _floor(self, p: Tensor, where: Layout) -> Tensor:
        """The variance to add along each axis, ``[*, n]``."""
        n = self.basis.dimension
        floor = where.cell_variance(n, p) if self.floor is None else p.new_full((n,), self.floor)
        return floor.expand((*floor.shape[:-1], n))

    def _alpha(self, loc: Tensor) -> Any:
        """A number, or a tensor that broadcasts with the batch of ``loc [*, n]``."""
        alpha: Any = alpha_for(self.alpha, loc)
        if isinstance(self.alpha, Alpha) and self.alpha.axis is not None:
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


def member(loc: Tensor, alpha: float | Tensor, covariance: Tensor | None = None, **scale: Tensor) -> BetaGaussian:
    """The density with this location and covariance or scale. Nothing is validated: that would wait for a GPU."""
    kind: Any = BetaGaussian
    settings: dict[str, Any] = {"alpha": alpha, "validate_args": False}
    if is_number(alpha) and alpha == 1:
        kind = Gaussian
        del settings["alpha"]
    return kind(loc, **scale, **settings) if covariance is None else kind.from_moments(loc, covariance, **settings)


def full_precision(device: torch.device) -> AbstractContextManager:
    """Autocast off: large coefficients of either sign cancel."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
