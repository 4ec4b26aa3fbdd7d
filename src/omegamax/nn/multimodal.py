"""Attention to several regions at once: a mixture in place of one density."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, check_type
from omegamax._numerics import disable_autocast
from omegamax.basis import Basis
from omegamax.basis.positions import Lengths
from omegamax.densities import Mixture
from omegamax.maps import Omega, get
from omegamax.mixtures import BIC, INITS, Criterion, FixedDraws, select_components, weighted_em
from omegamax.nn._density_attention import DensityAttention, make_density
from omegamax.nn._head import MixtureHead
from omegamax.nn._plane_context import attend_in_plane, mix_in_plane
from omegamax.nn._plane_table import PlaneTable
from omegamax.nn._row_weights import RowWeights
from omegamax.nn.alpha import Alpha

NAME = "MultimodalAttention"
MODES = ("fixed", "random", "test", "selected")


class MultimodalAttention(DensityAttention[Mixture]):
    r"""Attention to several regions at once: the mean of a value function under a mixture.

    .. math:: c = E_p[V(t)] = \sum_{k=1}^K \pi_k c_k, \qquad
              p(t) = \sum_{k=1}^K \pi_k \, p_k(t), \quad c_k = E_{p_k}[V(t)] = B^\top E_{p_k}[\psi(t)]

    The mixture is fitted to discrete attention, the positions of the values under ``weights``, by weighted
    expectation-maximisation (:func:`~omegamax.mixtures.weighted_em`), and one B, the ridge fit of the values
    (:class:`~omegamax.basis.RidgeFit`), serves all components. No parameter is added to those of discrete attention,
    so weights learnt with :class:`ContinuousAttention`, which is this with one component, can be loaded.

    How many components there are, ``components``:

    ============== ============================== ========================================================
    \              while training                 in evaluation
    ============== ============================== ========================================================
    ``"fixed"``    ``max_components`` (K-MCA)     the same
    ``"random"``   drawn for each call,           selected for each example, by
                   uniformly from 1 to the most   :func:`~omegamax.mixtures.select_components` (Algorithm 1)
    ``"test"``     one: continuous attention      selected for each example (test-MCA)
    ``"selected"`` selected for each example      selected for each example
    ============== ============================== ========================================================

    Each weight counts as spread out over its cell, as in :class:`ContinuousAttention`: the variance of a cell is added
    to the covariance of each component, so that none collapses. Weights are made to sum to one; a row that cannot be,
    of zeros or all masked, has context 0, no gradient, and the mixture of equal weights.

    Args:
        basis: J functions of a point in n dimensions.
        max_components: K, or the most there may be.
        alpha: of the components, as for :class:`ContinuousAttention`: 1 for Gaussians, 2 for truncated paraboloids.
        components: one of the words above.
        criterion: what selects, ``BIC()`` (the default), ``AIC()``, ``MDL()`` (with some 50 iterations), or
            ``Linear(5.0)`` as in the paper.
        iterations: of expectation-maximisation; a pair for training and evaluation.
        init: where it starts: ``"split"`` (boxes of equal volume, no chance), ``"kmeans++"`` or ``"random"``.
        restarts: starts for each number tried by a selection; those of ``"split"`` after the first are
            ``"kmeans++"``. Without a selection there is one.
        responsibilities, distance: which component a position belongs to; see
            :func:`~omegamax.mixtures.weighted_em`.
        mixing, discount: with ``components="fixed"``, ``mixing="sparsemax"`` lets small components go, so that
            ``max_components`` is the most there may be, in training too; see there, also for the iterations it needs.
        positions, penalty, padding, combined, floor, learnable, per, bounds: as for :class:`ContinuousAttention`.
            ``floor`` is the variance to add; with 0, several components are held just wide enough to compute with,
            a single one is as :class:`ContinuousAttention` has it.
        query_dim: features of a query, ``query [*, query_dim]``, from which an affine map predicts ``max_components``
            components, in place of weights: mixing weights through softmax, locations and scales as for
            :class:`ContinuousAttention`. With ``components="fixed"`` only, and neither ``combined`` nor ``mixing``.
        generator: of the random number of components and the random starts. By default training draws from the global
            one, and evaluation from its own, the same in each call: it repeats itself and leaves the global one alone.

    ``forward(values [*, L, D], weights [*, L], positions=None, *, query=None, lengths=None, mask=None, extents=None)``
    returns the context ``[*, D]``, in the dtype of the values, and the :class:`~omegamax.densities.Mixture`, of batch
    ``[*]``, in which what an example does not use has weight 0. It is differentiable in values and weights, though not
    in the choices: of a number, and of a start. Batches broadcast, and ``positions [*, L, n]``, ``lengths`` and ``mask
    [*, L]`` are those of :class:`ContinuousAttention`, and so are ``extents``, whose mean under all weights is added to
    each component. For many queries to the same values, ``coefficients = attention.fit(values)`` once, then
    ``attention.attend(coefficients, attention.match(weights))``.

        >>> from omegamax.basis import GaussianRBF, grid_positions
        >>> x = grid_positions((14, 14))
        >>> look = MultimodalAttention(GaussianRBF.grid(10, 2, 0.001), 4, components="random", positions=(14, 14))
        >>> near = (-80 * torch.cdist(x, torch.tensor([[0.2, 0.3], [0.8, 0.7]])).square()).exp()
        >>> weights = torch.stack([near[:, 0], near.sum(-1)])
        >>> context, p = look.eval()(torch.randn(2, 196, 16), weights)
        >>> context.shape, p.component_count
        (torch.Size([2, 16]), tensor([1, 2]))
        >>> p.components.mean[1, :2].round(decimals=2)
        tensor([[0.2000, 0.3000],
                [0.8000, 0.7000]])

    References: Farinhas, Martins and Aguiar (2021), Multimodal continuous visual attention mechanisms, Eqs. 4, 5, 8 to
    11 and 15, and Alg. 1; Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021), Eqs.
    5.5 and 5.20, and section 6.3 for K-MCA and test-MCA.
    """

    def __init__(
        self,
        basis: Basis,
        max_components: int,
        alpha: float | Tensor | Alpha = 1.0,
        *,
        components: str = "fixed",
        criterion: Criterion | None = None,
        iterations: int | tuple[int, int] = (5, 10),
        init: str = "split",
        restarts: int = 3,
        responsibilities: str | Omega = "softmax",
        distance: str = "gaussian",
        mixing: str | Omega | None = None,
        discount: float = 0.2,
        positions: int | tuple[int, ...] | Tensor | None = None,
        penalty: float = 0.01,
        padding: bool = False,
        combined: bool = False,
        floor: float | None = None,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (0.75, 2.0),
        query_dim: int | None = None,
        generator: torch.Generator | None = None,
    ):
        n = basis.dimension
        # Of an alpha that leaves moments to match; a predicted scale needs a density only.
        least = n / (n + 2) if query_dim is None else 1 - 2 / n
        super().__init__(basis, alpha, positions, penalty, padding, combined, floor, learnable, per, bounds, least)
        max_components = check_integer(NAME, "max_components", max_components, least=1)
        check_choice(NAME, "components", components, MODES)
        check_choice(NAME, "init", init, INITS)
        check_choice(NAME, "distance", distance, ("gaussian", "fenchel_young"))
        restarts = check_integer(NAME, "restarts", restarts, least=1)
        pair = iterations if isinstance(iterations, tuple) else (iterations, iterations)
        if len(pair) != 2:
            raise ValueError(f"{NAME}: iterations must be an int or two, for training and evaluation, got {iterations}")
        first, last = (check_integer(NAME, "iterations", each, least=0) for each in pair)
        if criterion is not None:
            check_type(NAME, "criterion", criterion, Criterion, "a Criterion such as BIC()")
        if generator is not None:
            check_type(NAME, "generator", generator, torch.Generator, "a torch.Generator")
        get(responsibilities)  # refuses what it does not know
        if mixing is not None:
            get(mixing)
            if components != "fixed":
                raise ValueError(
                    f"{NAME}: mixing selects by itself and goes with components='fixed', got {components!r}"
                )
        if query_dim is not None and (components != "fixed" or combined or mixing is not None):
            given = f"components={components!r}, combined={combined} and mixing={mixing!r}"
            raise ValueError(f"{NAME}: query_dim goes with components='fixed' and nothing fitted, got {given}")
        self.query = None if query_dim is None else MixtureHead(query_dim, n, max_components)
        self.max_components = max_components
        self.components = components
        self.criterion = BIC() if criterion is None else criterion
        self.iterations = first, last
        self.init = init
        self.restarts = restarts
        self.responsibilities = responsibilities
        self.distance = distance
        self.mixing, self.discount = mixing, discount
        self.generator = generator

    def forward(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        query: Tensor | None = None,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
        extents: Tensor | None = None,
    ) -> tuple[Tensor, Mixture]:
        """Return context ``[*, D]`` and mixture."""
        if query is not None:
            if weights is not None:
                raise ValueError(f"{NAME}: the mixture comes from weights or from a query, got both")
            return self._context(values, None, self.predict(query), positions, lengths, mask, extents)
        weights = check_type(NAME, "weights", weights, Tensor, "a floating-point tensor [*, L]")
        if positions is lengths is mask is extents is None:
            table = self._find_table(values, weights)
            if table is not None:
                return self._attend_in_plane(table, values, weights)
        return self._context(values, weights, None, positions, lengths, mask, extents)

    def predict(self, query: Tensor) -> Mixture:
        """Return the mixture that a query ``[*, query_dim]`` asks for."""
        if self.query is None:
            raise ValueError(f"{NAME}: a query needs query_dim at construction, got none")
        pi, loc, root = self.query(query)
        alpha = self._alpha(loc[..., 0, :])
        if isinstance(alpha, Tensor):
            alpha = alpha.unsqueeze(-1)
        return Mixture(pi, make_density(loc, alpha, scale_tril=root), validate_args=False)

    def _match(self, rows: RowWeights) -> Mixture:
        count, used = self._count(rows.like.device)
        if count == 1:
            return self._one(rows)
        p, where = rows.p, rows.where
        coordinates = where.coordinates(p)
        p = p.expand(torch.broadcast_shapes(p.shape, coordinates[0].shape))
        alpha = self._alpha(p[..., :1])
        if isinstance(alpha, Tensor):
            p = p.expand((*torch.broadcast_shapes(p.shape[:-1], alpha.shape), p.shape[-1]))
        return self._fit(torch.stack(coordinates, -1), p, self._floor(p, where), alpha, count, used)

    def _fit(
        self,
        points: Tensor,
        p: Tensor,
        spread: Tensor,
        alpha: float | Tensor,
        count: int | None,
        used: Tensor | None,
    ) -> Mixture:
        """Return the mixture for points ``[*, L, n]`` with weights ``[*, L]``."""
        # Spread over their cells the points leave no component without width: nothing else has to hold it.
        settings: dict[str, Any] = {
            "iterations": self.iterations[0 if self.training else 1],
            "init": self.init,
            "floor": 0.0,
            "spread": spread,
            "responsibilities": self.responsibilities,
            "alpha": alpha,
            "distance": self.distance,
            "generator": self._starts(),
        }
        with disable_autocast(p.device):
            if count is not None:
                discounted = {"mixing": self.mixing, "discount": self.discount, **settings}
                return weighted_em(points, p, count, used=used, **discounted)
            return select_components(points, p, self.max_components, self.criterion, self.restarts, **settings)

    def _attend_in_plane(self, table: PlaneTable, values: Tensor, weights: Tensor) -> tuple[Tensor, Mixture]:
        """Return context and mixture in few operations, where there are kernels."""
        alpha: Any = self.alpha
        count, used = self._count(weights.device)
        if count == 1:
            context, mean, covariance = attend_in_plane(table, self._attend_plainly, values, weights)
            pi = table.one.expand((*mean.shape[:-1], 1))
            return context, Mixture._from_moments(pi, mean.unsqueeze(-2), covariance.unsqueeze(-3), alpha)
        rows = RowWeights(NAME, weights, table.where, False)
        mixture = self._fit(table.positions, rows.p, table.floor, alpha, count, used)

        def mix_plainly(values: Tensor, pi: Tensor, mean: Tensor, covariance: Tensor) -> tuple[Tensor]:
            mixture = Mixture._from_moments(pi, mean, covariance, alpha)
            return (self._take_mean(values, mixture, table.where, rows, True),)

        parts: Any = mixture.components
        moments = (mixture.weights, parts.loc, parts._root.given)
        return mix_in_plane(table, mix_plainly, (rows.lost, rows.nothing), values, *moments), mixture

    def _one(self, rows: RowWeights) -> Mixture:
        """Return one component: that of continuous attention, to the last bit."""
        mean, covariance = self._moments(rows)
        alpha = self._alpha(mean)
        if isinstance(alpha, Tensor):
            alpha = alpha.unsqueeze(-1)
        density = make_density(mean.unsqueeze(-2), alpha, covariance.unsqueeze(-3))
        return Mixture(mean.new_ones(density.batch_shape), density, validate_args=False)

    def _count(self, device: torch.device) -> tuple[int | None, Tensor | None]:
        """Return how many components this call has, None: as many as each example needs; and how many of them it uses.

        The latter is a tensor where the number that was drawn cannot be read, as in a compiled graph; None: all.
        """
        if self.components == "fixed" or self.max_components == 1:
            return self.max_components, None
        if not self.training or self.components == "selected":
            return None, None
        if self.components == "test":
            return 1, None
        if self.generator is not None:
            device = self.generator.device
        elif not torch.compiler.is_compiling():
            device = torch.device("cpu")
        drawn = torch.randint(1, self.max_components + 1, (), generator=self.generator, device=device)
        if torch.compiler.is_compiling():
            return self.max_components, drawn
        return int(drawn), None

    def _starts(self) -> torch.Generator | FixedDraws | None:
        """Return where random starts come from; None: the global generator."""
        return FixedDraws() if self.generator is None and not self.training else self.generator

    def extra_repr(self) -> str:
        count = f"max_components={self.max_components}, components={self.components!r}"
        return f"{count}, iterations={self.iterations}, {super().extra_repr()}"
