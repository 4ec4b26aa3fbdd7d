"""Attention to time and space: a density in place of weights over pieces."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.basis import Basis
from omegamax.basis.positions import Lengths
from omegamax.densities import BetaGaussian, Density
from omegamax.nn._density_attention import DensityAttention
from omegamax.nn._density_attention import make_density as make_density
from omegamax.nn._head import DensityHead
from omegamax.nn._plane_context import attend_in_plane
from omegamax.nn._row_weights import RowWeights
from omegamax.nn.alpha import Alpha

NAME = "ContinuousAttention"


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
        if density is None and query is None and positions is lengths is mask is extents is None:
            assert weights is not None  # the only source left
            table = self._find_table(values, weights)
            if table is not None:
                context, mean, covariance = attend_in_plane(table, self._attend_plainly, values, weights)
                return context, make_density(mean, self._alpha(mean), covariance)
        if query is not None:
            density = self.predict(query)
        return self._context(values, weights, density, positions, lengths, mask, extents)

    def predict(self, query: Tensor) -> BetaGaussian:
        """Return the density with the location and the scale that a query ``[*, query_dim]`` asks for."""
        if self.query is None:
            raise ValueError(f"{NAME}: a query needs query_dim at construction, got none")
        loc, root = self.query(query)
        return make_density(loc, self._alpha(loc), scale_tril=root)

    def _match(self, rows: RowWeights) -> BetaGaussian:
        mean, covariance = self._moments(rows)
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
