"""How many components: every number tried, from several starts, for each example on its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, check_type
from omegamax.densities import Density, Mixture
from omegamax.maps import Omega
from omegamax.mixtures import _direct
from omegamax.mixtures._criteria import BIC, Criterion
from omegamax.mixtures._draws import Source, StartDraws
from omegamax.mixtures._fitter import make_fitter, take_along_first
from omegamax.mixtures._init import INITS, count_draws, make_starts
from omegamax.mixtures._mixing import annihilate
from omegamax.mixtures._points import check_points
from omegamax.mixtures._step import MixtureParameters


class SelectedMixture(Mixture):
    """The mixtures that :func:`select_components` has chosen: a :class:`~omegamax.densities.Mixture`, and why.

    ``component_count [*]`` is the number of components of each example; the others have weight 0. ``scores``
    ``[*, max_components]`` are those of the best start with 1, 2 and so on components; the smallest was chosen.
    """

    def __init__(self, weights: Tensor, components: Density, scores: Tensor, validate_args: bool | None = None):
        super().__init__(weights, components, validate_args)
        self.scores = scores

    def expand(self, batch_shape: Any, _instance: Any = None) -> SelectedMixture:
        new: Any = super().expand(batch_shape, type(self).__new__(type(self)) if _instance is None else _instance)
        new.scores = self.scores.expand((*batch_shape, self.scores.shape[-1]))
        return new


def select_components(
    positions: Tensor,
    weights: Tensor,
    max_components: int,
    criterion: Criterion | None = None,
    restarts: int = 3,
    *,
    iterations: int = 10,
    init: str = "kmeans++",
    floor: float | Tensor | None = None,
    responsibilities: str | Omega = "softmax",
    alpha: float | Tensor = 1.0,
    distance: str = "gaussian",
    spread: float | Tensor = 0.0,
    tolerance: float | None = None,
    mask: Tensor | None = None,
    generator: Source = None,
) -> SelectedMixture:
    r"""Fit mixtures with 1 to ``max_components`` components, and keep for each example the one that scores best.

    .. math:: K^* = \arg\min_K \; -2 \log p(x \mid \hat\Theta_K) + \text{penalty}(K)

    Each number is tried from several starts, of which the one with the largest objective counts. All examples and
    starts are fitted at once. Of equal scores the smallest mixture wins.

    Args:
        positions, weights: points ``[*, L, n]`` or ``[L, n]``, and their weights ``[*, L]``.
        max_components: the largest number to try.
        criterion: ``BIC()`` (the default), ``AIC()``, ``MDL()``, ``Linear(penalty)`` or another
            :class:`~omegamax.mixtures.Criterion`. The likelihood is :func:`em_objective` where there is none.
        restarts: starts for each number.
        iterations, init, floor, responsibilities, alpha, distance, spread, tolerance, mask, generator: as for
            :func:`weighted_em`. ``MDL()`` prunes while it iterates, which takes more than the default.

    Returns:
        A mixture with ``max_components`` components, those not chosen of weight 0, which has also ``component_count
        [*]`` and ``scores [*, max_components]``. It is differentiable as that of :func:`weighted_em` is; the scores
        and the choice are not.

        >>> from omegamax.basis import grid_positions
        >>> x = grid_positions((14, 14))
        >>> centres = torch.tensor([[0.2, 0.3], [0.8, 0.4], [0.4, 0.9]])
        >>> bumps = (-80 * torch.cdist(x, centres).square()).exp()
        >>> weights = torch.stack([bumps[:, 0], bumps[:, :2].sum(-1), bumps.sum(-1)])
        >>> p = select_components(x, weights, 4, generator=torch.Generator().manual_seed(0))
        >>> p.component_count, p.scores.shape
        (tensor([1, 2, 3]), torch.Size([3, 4]))

    Reference: Farinhas, Martins and Aguiar (2021), Multimodal continuous visual attention mechanisms, section 5 and
    Alg. 1.
    """
    name = "select_components"
    criterion = BIC() if criterion is None else criterion
    max_components = check_integer(name, "max_components", max_components, least=1)
    restarts = check_integer(name, "restarts", restarts, least=1)
    check_choice(name, "init", init, INITS)
    check_type(name, "criterion", criterion, Criterion, "a Criterion such as BIC()")
    given = check_points(name, positions, weights, mask, floor, spread)
    fitter = make_fitter(given, iterations, responsibilities, alpha, distance, tolerance)
    if type(criterion).cost is Criterion.cost and _direct.applies(fitter, max_components):
        table, moments = _direct.select(fitter, max_components, criterion, init, restarts, generator)
        return _tell_scores(fitter.mix_moments(*moments, SelectedMixture), table)
    fitter = fitter.open()
    data, n = fitter.points, given.dimension
    size = data.size.detach()
    cost = criterion.cost(size, n)
    if cost is not None:
        fitter = replace(fitter, rule=replace(fitter.rule, mix=partial(annihilate, cost=cost)))

    # One needs no search.
    draws = StartDraws(
        generator, sum(count_draws(data, k, init, restarts) for k in range(2, max_components + 1)), data.x
    )
    scores, states, labels = [], [], []
    for k in range(1, max_components + 1):
        one = k == 1
        tried = replace(fitter, iterations=0) if one else fitter
        begin = make_starts(data, k, "split" if one else init, 1 if one else restarts, draws)
        state, value, chosen = tried.search(begin, k)
        scores.append(criterion.score(value, size, state.weights, n))
        states.append(_pad(state, max_components))
        labels.append(chosen)
    table = torch.stack(scores, -1)
    # Of two equal but for rounding, the smaller mixture.
    best = table.amin(-1, keepdim=True)
    index = (table <= best + 1e-9 * best.abs().clamp(min=1)).int().argmax(-1)
    if fitter.differentiable:  # the way to the best once more, with its derivatives; what is not a member is empty
        final = fitter.fit_members(take_along_first(torch.stack(labels), index), max_components)
    else:
        final = MixtureParameters(*(take_along_first(torch.stack(each), index) for each in zip(*states, strict=True)))
    table = table.masked_fill(data.broken.unsqueeze(-1), torch.nan).to(data.dtype)
    return _tell_scores(fitter.mix(final, SelectedMixture), table)


def _tell_scores(chosen: SelectedMixture, scores: Tensor) -> SelectedMixture:
    chosen.scores = scores
    return chosen


def _pad(state: MixtureParameters, components: int) -> MixtureParameters:
    """Return a state with more components, of weight 0."""
    more = components - state.weights.shape[-1]
    repeated = (t[..., :1, :].expand((*t.shape[:-2], more, t.shape[-1])) for t in (state.mean, state.cov))
    mean, cov = (torch.cat([t, r], -2) for t, r in zip((state.mean, state.cov), repeated, strict=True))
    return MixtureParameters(torch.nn.functional.pad(state.weights, (0, more)), mean, cov)
