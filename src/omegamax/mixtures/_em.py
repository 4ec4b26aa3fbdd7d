"""Expectation-maximisation for weighted points."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer
from omegamax._checks import check_integers
from omegamax.densities import Mixture
from omegamax.maps import Omega
from omegamax.mixtures import _direct
from omegamax.mixtures._draws import Source, StartDraws
from omegamax.mixtures._fitter import make_fitter
from omegamax.mixtures._init import INITS, count_draws, make_starts
from omegamax.mixtures._mixing import make_mixing
from omegamax.mixtures._points import Points, check_points


def weighted_em(
    positions: Tensor,
    weights: Tensor,
    components: int,
    iterations: int = 10,
    init: str | Mixture = "split",
    floor: float | Tensor | None = None,
    responsibilities: str | Omega = "softmax",
    *,
    alpha: float | Tensor = 1.0,
    distance: str = "gaussian",
    spread: float | Tensor = 0.0,
    mixing: str | Omega | None = None,
    discount: float = 0.2,
    tolerance: float | None = None,
    mask: Tensor | None = None,
    implicit: bool = False,
    restarts: int = 1,
    used: Tensor | None = None,
    generator: Source = None,
) -> Mixture:
    r"""Fit a mixture of K components to weighted points by expectation-maximisation.

    .. math:: \gamma_{lk} \propto \pi_k \, p_k(x_l), \qquad \pi_k = \sum_l w_l \gamma_{lk}, \qquad
              \mu_k = \frac{1}{\pi_k} \sum_l w_l \gamma_{lk} x_l, \qquad
              C_k = \frac{1}{\pi_k} \sum_l w_l \gamma_{lk} (x_l - \mu_k)(x_l - \mu_k)'

    Weights are made to sum to one first. No iteration lowers the weighted log-likelihood
    :math:`\sum_l w_l \log p(x_l)`, under the condition that no variance of a component, in any direction, is below
    ``floor``; for other components and other responsibilities, none lowers :func:`em_objective`.

    Batched over any leading axes, and differentiable in ``weights``, ``positions``, ``alpha``, ``spread`` and in the
    mixture that is its ``init``. A point of weight 0 has no effect, and a weight of 2 that of two points. A component
    that loses all its mass has weight exactly 0 from then on: the mixture is padded. A row without any weight is fitted
    as if its weights were equal, and has no gradient; one that holds NaN or inf gives NaN.

    Args:
        positions: points ``[*, L, n]`` in any number of dimensions, or ``[L, n]`` for all of the batch.
        weights: ``[*, L]``, each >= 0. The mixture has their dtype; it is computed in double precision.
        components: K.
        iterations: how often both steps are taken; with a ``tolerance``, at most.
        init: ``"split"``: boxes of equal volume, for two components the upper and the lower half of the bounding box of
            the points that have weight, for four its quadrants, each with its moments and its mass; ``"kmeans++"``: the
            points nearest to K seeds, drawn in proportion to weight and squared distance from those before;
            ``"random"``: in proportion to weight alone; or a :class:`~omegamax.densities.Mixture` to go on from.
        floor: least variance. By default that of a cell, 1/12 of its squared side: on a grid of k cells along each unit
            1 / 12 k^2; for other positions, whatever their weights, what comes nearest to it: the usual gap between
            coordinates along each axis, times their number, give the box that the positions share. (The side is 1 if
            there is but one.) An ellipse that would be thinner is held at the floor in that direction only. With 0,
            rounding still asks for a width of 1e-6 of the range of the positions, 1e-3 in single precision.
        responsibilities: the map from scores :math:`\log \pi_k + \log p_k(x_l)` to :math:`\gamma_l`. With
            ``"softmax"`` it is Bayes' rule. A sparse map (``"sparsemax"``, ``"entmax15"``, any
            :class:`~omegamax.Omega`) gives each point to few components; of several that explain the same points, all
            but one lose their mass.
        alpha: of the components, above n / (n + 2): 1 for Gaussians, 2 for truncated paraboloids; a number or ``[*]``.
            Each is the Fenchel-Young fit to its share of the points: it has their moments.
        distance: of points from components in the responsibilities, where densities with compact support have no
            likelihood. ``"gaussian"``: that of the Gaussian with the same moments (what the logarithm of a
            Fenchel-Young fit is to first order), in which alpha makes no difference; ``"fenchel_young"``: the
            Fenchel-Young loss itself, which prizes dense components: one narrow peak each, and one wide for the rest.
        spread: variance of each point along each axis, a number or ``[*, n]``: each weight counts as spread out over
            its cell, which is added to the covariances. With one component and the variance of a cell this is the
            density of :class:`~omegamax.nn.ContinuousAttention`.
        mixing: ``"sparsemax"``: weights :math:`\pi = \operatorname{sparsemax}(N / (1 - \delta))` of the masses N, so
            that K is the largest number of components and each example takes as many as it needs; or another member of
            the entmax family. A price on small components, which the objective does not contain: it may fall. A last
            step gives those that are left their masses again. Allow some 50 iterations.
        discount: :math:`\delta`, the mass that sparse ``mixing`` takes away, from each component the same; those that
            have less are gone. Of two components, one with less than :math:`\delta / 2` does not stay.
        tolerance: an example is left as it is once the objective has grown by no more than this.
        mask: bool ``[*, L]``, True keeps a position; the others count for nothing, whatever they hold.
        implicit: take the gradient at the fixed point (the implicit function theorem) and not through all iterations.
            The same if those have converged, an approximation if not; memory does not grow with ``iterations``.
        restarts: number of starts; that with the largest objective counts. After the first, ``"split"`` starts as
            ``"kmeans++"`` does.
        used: how many of the K components an example starts with, integers ``[*]`` or 0-d; the others have weight 0.
            By default all.
        generator: of the random starts.

        >>> from omegamax.basis import grid_positions
        >>> x = grid_positions((14, 14))
        >>> corners = torch.tensor([[0.25, 0.25], [0.75, 0.75]])
        >>> weights = (-50 * torch.cdist(x, corners).square()).exp().sum(-1)
        >>> p = weighted_em(x, weights, 2)
        >>> p.weights, p.components.mean.round(decimals=2)
        (tensor([0.5000, 0.5000]), tensor([[0.2500, 0.2500],
                [0.7500, 0.7500]]))
        >>> weighted_em(x, weights, 6, 50, mixing="sparsemax").component_count
        tensor(2)

    Reference: Farinhas, Martins and Aguiar (2021), Multimodal continuous visual attention mechanisms, Eqs. 6 to 11;
    Farinhas (2021), sections 5.3, 6.3 and, for compact components and sparse weights, 7.2.
    """
    name = "weighted_em"
    components = check_integer(name, "components", components, least=1)
    restarts = check_integer(name, "restarts", restarts, least=1)
    given = check_points(name, positions, weights, mask, floor, spread)
    fitter = make_fitter(given, iterations, responsibilities, alpha, distance, tolerance, implicit)
    mix = make_mixing(name, mixing, discount)
    if mix is not None:
        fitter = replace(fitter, rule=replace(fitter.rule, mix=mix))
    if used is not None:
        check_integers(name, "used", used, f"integers from 1 to {components}")
    if isinstance(init, Mixture):
        if used is not None:
            raise ValueError(f"{name}: used goes with an init by name, got a Mixture, whose weights say it")
        if restarts != 1:
            raise ValueError(f"{name}: restarts must be 1 for an init that is a Mixture, got {restarts}")
        fitter = fitter.open()
        return fitter.mix(fitter.fit(fitter.state_of(name, init, components)), Mixture)
    check_choice(name, "init", init, INITS)
    if _direct.applies(fitter, components):
        return fitter.mix_moments(*_direct.fit(fitter, components, init, restarts, used, generator), Mixture)
    fitter = fitter.open()
    labels = _make_labels(fitter.points, components, init, restarts, used, generator)
    if restarts == 1:
        return fitter.mix(fitter.fit_members(labels[0], components), Mixture)
    state, _, chosen = fitter.search(labels, components)
    if fitter.differentiable:  # the way to the best once more, with its derivatives
        state = fitter.fit_members(chosen, components)
    return fitter.mix(state, Mixture)


def _make_labels(
    data: Points, components: int, init: str, restarts: int, used: Tensor | None, generator: Source
) -> Tensor:
    """Return the members of each component at the start, ``[restarts, *, L]``."""
    counts = [components] if used is None else range(1, components + 1)
    draws = StartDraws(generator, sum(count_draws(data, k, init, restarts) for k in counts), data.x)
    labels = make_starts(data, counts[0], init, restarts, draws)
    for k in counts[1:]:
        assert used is not None
        labels = torch.where(used.unsqueeze(-1) == k, make_starts(data, k, init, restarts, draws), labels)
    return labels


def em_objective(
    positions: Tensor,
    weights: Tensor,
    mixture: Mixture,
    responsibilities: str | Omega = "softmax",
    *,
    distance: str = "gaussian",
    floor: float | Tensor | None = None,
    spread: float | Tensor = 0.0,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return what no iteration of :func:`weighted_em` lowers, ``[*]``.

    .. math:: J = \sum_l w_l \, \Omega^*\bigl(\log \pi - D(x_l)\bigr)

    with weights that sum to one and Omega that of the responsibilities. For ``distance="gaussian"`` D is the negative
    log-density of Gaussians with the moments of the components: J is the weighted log-likelihood if they are Gaussians
    and the responsibilities those of Bayes. For ``distance="fenchel_young"``

    .. math:: D_k(x) = \frac{e^{-(\alpha - 1) r_k}}{2 (g + \alpha - 1)} \, (x - \mu_k)' C_k^{-1} (x - \mu_k)
                     + \frac{g}{g + \alpha - 1} \, \frac{1 - e^{-(\alpha - 1) r_k}}{\alpha - 1}
                     + \tfrac12 \log |2 \pi C|, \qquad
              r_k = \tfrac12 \log \frac{|C_k|}{|C|}, \quad g = 1 + \tfrac{(\alpha - 1) n}{2}

    which is, but for constants, the loss :func:`~omegamax.densities.fenchel_young_loss` in units of the peak, to the
    power of alpha - 1, of the density with the covariance C of all points: the same in metres as in feet.

    Covariances below the floor count as what :func:`weighted_em` makes of them. Arguments are those of
    :func:`weighted_em`; differentiable in weights, positions and the mixture.

        >>> from omegamax.densities import Gaussian
        >>> x, w = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0.25, 0.25, 0.5])
        >>> p = Mixture(torch.tensor([0.5, 0.5]), Gaussian(torch.tensor([[0.0], [2.0]]), 1.0))
        >>> em_objective(x, w, p), (w * p.log_prob(x)).sum()
        (tensor(-1.4686), tensor(-1.4686))
    """
    name = "em_objective"
    given = check_points(name, positions, weights, mask, floor, spread)
    fitter = make_fitter(given, 0, responsibilities, mixture.alpha, distance).open()
    state, data = fitter.state_of(name, mixture, mixture.weights.shape[-1]), fitter.points
    return fitter.rule.objective(data, state).masked_fill(data.broken, torch.nan).to(data.dtype)
