"""Attention to time and space: a density in place of weights over pieces."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from omegamax._arguments import check_number
from omegamax._checks import check_batches, check_floating, check_matrices, check_shape, readable
from omegamax._compile import fix_number
from omegamax._first_order import FirstOrder, has_first_order
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis import Basis, RidgeFit
from omegamax.basis.positions import BatchPositions, Lengths
from omegamax.densities import BetaGaussian, Density, Gaussian
from omegamax.nn._head import DensityHead
from omegamax.nn.alpha import Alpha, hold_alpha

NAME = "ContinuousAttention"
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
        return self._match(normalise_weights(self._name, weights, where)[0], where)

    def attend(self, coefficients: Tensor, density: Density) -> Tensor:
        """Return the context ``[*, D]`` of value functions with coefficients ``[*, J, D]``, as ``fit`` gives them."""
        check_matrices(self._name, "coefficients", coefficients, f"[*, {len(self.basis)}, D]", len(self.basis))
        with disable_autocast(coefficients.device):
            r = self._expect(density)
            check_batches(self._name, {"coefficients": coefficients.shape[:-2], "density": r.shape[:-1]})
            dtype = torch.promote_types(r.dtype, coefficients.dtype)
            context = torch.einsum("...j,...jd->...d", r.to(dtype), coefficients.to(dtype))
            return context.to(coefficients.dtype)

    def _match(self, p: Tensor, where: BatchPositions) -> Matched:
        """Return the density for ``p [*, L]``, each row of which sums to one."""
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
        p = lost = nothing = None
        if weights is not None:
            p, lost, nothing = normalise_weights(name, weights, where)
            if density is not None:
                p, lost = torch.where(lost, nothing, p), None
        if density is None:
            assert p is not None  # weights are the only source left
            density = self._match(p, where)
        with disable_autocast(device):
            r = self._expect(density)
            dtype = torch.promote_types(r.dtype, working_dtype(values))
            operator = self.fit.operator_at(where, dtype, device)
            shapes = {"values": values.shape[:-2], "density": r.shape[:-1], "positions": operator.shape[:-2]}
            check_batches(name, shapes if p is None else {**shapes, "weights": p.shape[:-1]})
            # The weights of a discrete attention with the same context. einsum copies nothing that broadcasts.
            w = torch.einsum("...j,...jl->...l", r.to(dtype), operator)
            if p is not None and self.combined:
                w = w + p.to(dtype)
            if lost is not None and nothing is not None:
                w = torch.where(lost, nothing.to(dtype), w)
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

    def _moments(self, p: Tensor, where: BatchPositions) -> tuple[Tensor, Tensor]:
        """Return mean ``[*, n]`` and covariance ``[*, n, n]`` of the positions under p, the floor added."""
        mean, covariance = where.moments(p)
        floor = self._floor(p, where)
        return mean, covariance + (floor.unsqueeze(-1) if floor.shape[-1] == 1 else torch.diag_embed(floor))

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


class ContinuousAttention(DensityAttention[BetaGaussian]):
    r"""Attention to an interval of time or a region of space: the mean of a value function under a density.

    .. math:: c = E_p[V(t)] = B^\top E_p[\psi(t)], \qquad V(t) = B^\top \psi(t)

    The value function V is the ridge fit of the values, :class:`~omegamax.basis.RidgeFit`; p is a
    :class:`~omegamax.densities.BetaGaussian`: a Gaussian at alpha = 1 (continuous softmax), a truncated paraboloid at
    alpha = 2 (continuous sparsemax), zero outside an ellipsoid for any alpha > 1. Each call has its density from

    * ``weights [*, L]``, discrete attention: p has the mean and the covariance of the positions under the weights, plus
      the covariance of a uniform density over one cell, as if each weight were spread over its cell. So a single
      weight does not collapse, and no parameter is added to those of discrete attention. Weights are made to sum to
      one; a row that cannot be, of zeros or all masked, has context 0, no gradient, and the density of equal weights.
    * ``query [*, query_dim]``, if built with ``query_dim``: an affine map predicts the location, through a sigmoid, the
      diagonal of the scale, through a softplus, and in more than one dimension its correlations. The scale is the
      :math:`\Sigma` of the score :math:`-\frac12 (t - \mu)^\top \Sigma^{-1} (t - \mu)`, in one dimension
      :math:`\sigma^2` (not :math:`\sigma`); it is the covariance only at alpha = 1.
    * ``density``, any that has a rule for its expectation of the basis.

    Args:
        basis: J functions of a point in n dimensions.
        alpha: a float; a tensor that broadcasts with the batch ``[*]``; or an :class:`~omegamax.nn.Alpha`. To match
            moments it must be above ``n / (n + 2)``.
        positions, penalty, padding: where the values are and how V is fitted, see :class:`~omegamax.basis.RidgeFit`.
            A size such as ``(14, 14)`` is a regular grid over the unit cube; in one dimension the default is a regular
            grid of as many cells as there are values.
        combined: add the discrete context, the mean of the values under the weights, from wherever the density comes.
        floor: variance to add along each axis when moments are matched. By default that of a cell: 1/(12 k^2) along an
            axis with k cells; for L given positions, that of a cube of volume 1/L. With 0 the moments are those of the
            weights alone, and all weight on one position, or in one hyperplane, leaves no density: NaN or an error.
        query_dim: features of a query.
        learnable: learn alpha, from the given one on, within ``bounds``; ``per``: one for each head, ``n``, axis -3 of
            weights ``[*, H, Q, L]``, or for each index of another axis, ``(axis, size)``.

    ``forward(values [*, L, D], weights=None, positions=None, *, density=None, query=None, lengths=None, mask=None,
    extents=None)`` returns the context ``[*, D]``, in the dtype of the values, and the density, of batch ``[*]``.
    Batches broadcast: values ``[B, 1, L, D]`` serve Q queries with weights ``[B, Q, L]``. ``positions [*, L, n]``,
    ``lengths`` (or sizes of images, ``[*, n]``) and ``mask [*, L]`` say where the values of each example are, as for
    the fit; what is absent counts for nothing, whatever it holds. Values that fill boxes, such as those of objects,
    have their centres as ``positions`` and the sides of the boxes as ``extents [*, L, n]``: each weight then counts as
    spread out over its box and not over a cell, which adds the mean of the boxes' variances; ``floor`` is added to it.

    B is never formed: with G the matrix of the fit, :math:`E_p[\psi]^\top G` are L weights for the values. For many
    queries to the same values, ``coefficients = attention.fit(values)`` once, then ``attention.attend(coefficients,
    density)`` with ``density = attention.match(weights)`` or ``attention.predict(query)``.

        >>> from omegamax.basis import GaussianRBF
        >>> attend = ContinuousAttention(GaussianRBF.grid(64, 1, variance=0.01), alpha=2.0)
        >>> values, scores = torch.randn(3, 280, 16), torch.randn(3, 280)
        >>> context, density = attend(values, scores.softmax(-1))
        >>> context.shape, density.mean.shape, density.variance.shape
        (torch.Size([3, 16]), torch.Size([3, 1]), torch.Size([3, 1]))
        >>> look = ContinuousAttention(GaussianRBF.grid(10, 2, variance=0.001), positions=(14, 14))
        >>> context, density = look(torch.randn(3, 196, 16), torch.randn(3, 196).softmax(-1))
        >>> density
        Gaussian(loc: (3, 2), alpha: 1.0)

    References: Martins et al. (NeurIPS 2020), Def. 2, Eq. 16 and Sec. 4; moments for alpha = 2: Farinhas, "Visual
    attention with sparse and continuous transformations" (thesis, 2021), Alg. 2 and Eqs. 4.3 and 4.6.
    """

    def __init__(
        self,
        basis: Basis,
        alpha: float | Tensor | Alpha = 1.0,
        *,
        positions: int | tuple[int, ...] | Tensor | None = None,
        penalty: float = 0.01,
        padding: bool = False,
        combined: bool = False,
        floor: float | None = None,
        query_dim: int | None = None,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (0.75, 2.0),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        n = basis.dimension
        # Without a finite covariance there are no moments to match; a predicted scale needs a density only.
        least = n / (n + 2) if query_dim is None else 1 - 2 / n
        super().__init__(basis, alpha, positions, penalty, padding, combined, floor, learnable, per, bounds, least)
        self.query = None if query_dim is None else DensityHead(query_dim, n, device, dtype)

    def forward(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        density: Density | None = None,
        query: Tensor | None = None,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
        extents: Tensor | None = None,
    ) -> tuple[Tensor, Density]:
        """Return context ``[*, D]`` and density."""
        self._check_source(weights, density, query)
        if query is not None:
            density = self.predict(query)
        return self._context(values, weights, density, positions, lengths, mask, extents)

    def predict(self, query: Tensor) -> BetaGaussian:
        """Return the density with the location and the scale that a query ``[*, query_dim]`` asks for."""
        if self.query is None:
            raise ValueError(f"{NAME}: a query needs query_dim at construction, got none")
        loc, root = self.query(query)
        return make_density(loc, self._alpha(loc), scale_tril=root)

    def _match(self, p: Tensor, where: BatchPositions) -> BetaGaussian:
        mean, covariance = self._moments(p, where)
        return make_density(mean, self._alpha(mean), covariance)

    def _check_source(self, weights: Tensor | None, density: Density | None, query: Tensor | None) -> None:
        given = [k for k, x in (("weights", weights), ("density", density), ("query", query)) if x is not None]
        sources = [k for k in given if k != "weights"] or given
        if len(sources) != 1:
            raise ValueError(
                f"{NAME}: the density comes from one of weights, query and density, got {' and '.join(given) or 'none'}"
            )
        if self.combined and weights is None:
            raise ValueError(f"{NAME}: combined=True adds the discrete context and needs weights, got {given[0]} alone")
        if not self.combined and len(given) > 1:
            raise ValueError(f"{NAME}: weights go with {sources[0]} only if combined=True, got both")


def make_density(loc: Tensor, alpha: float | Tensor, covariance: Tensor | None = None, **scale: Tensor) -> BetaGaussian:
    """Return the density with this location and covariance or scale. Validating it would wait for a GPU."""
    kind: Any = BetaGaussian
    if torch.compiler.is_compiling() and not isinstance(alpha, Tensor):
        alpha = fix_number(alpha)
    settings: dict[str, Any] = {"alpha": alpha, "validate_args": False}
    if not isinstance(alpha, Tensor) and alpha == 1:
        kind = Gaussian
        del settings["alpha"]
    return kind(loc, **scale, **settings) if covariance is None else kind.from_moments(loc, covariance, **settings)


def normalise_weights(name: str, weights: Tensor, where: BatchPositions) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights ``[*, L]`` of the values present, made to sum to one, in the working dtype.

    Rows that cannot be are ``lost``, the second result, ``[*, 1]``: they have equal weights in their stead, and no
    gradient. The third is what such a row has to have as its context: 0, or NaN if it is not finite.
    """
    check_shape(
        name, "weights", check_floating(name, "weights", weights), "*", where.width, meaning="one for each value"
    )
    weights = weights.to(working_dtype(weights))
    if where.present is not None:
        check_batches(name, {"weights": weights.shape[:-1], "lengths or mask": where.present.shape[:-1]})
        weights = torch.where(where.present, weights, 0.0)
    if readable(weights) and bool((weights < 0).any()):
        raise ValueError(f"{name}: weights must be >= 0, got a minimum of {weights.min().item():g}")
    total = weights.detach().sum(-1, keepdim=True)
    bounds = torch.finfo(total.dtype)
    lost = total.clamp(bounds.tiny, bounds.max) != total  # elsewhere 1 / total is finite
    equal = where.equal_weights(weights)
    plainly = partial(_divide_plainly, lost, equal)
    if not has_first_order(weights):
        return plainly(weights), lost, 0 * total
    divide = partial(_divide, total, lost, equal)
    return FirstOrder.apply(divide, _pull_division_back, plainly, weights), lost, 0 * total


def _divide_plainly(lost: Tensor, equal: Tensor | float, weights: Tensor) -> Tensor:
    return torch.where(lost, equal, weights / weights.sum(-1, keepdim=True).masked_fill(lost, 1.0))


def _divide(
    total: Tensor, lost: Tensor, equal: Tensor | float, weights: Tensor
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    divisor = total.masked_fill(lost, 1.0)
    p = weights / divisor
    p = torch.where(lost, equal, p) if isinstance(equal, Tensor) else p.masked_fill_(lost, equal)
    return (p,), (p, divisor, lost)


def _pull_division_back(p: Tensor, divisor: Tensor, lost: Tensor, g: Tensor) -> tuple[Tensor]:
    centred = g - (g * p).sum(-1, keepdim=True)
    return (centred.div_(divisor).masked_fill_(lost, 0.0),)
