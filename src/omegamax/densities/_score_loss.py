"""Fenchel-Young losses of densities that are known by their scores: on a grid, and location-scale families."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import tsallis_log
from omegamax.densities._base import Density
from omegamax.densities._fenchel_young import check_same_alpha, fenchel_young_rule
from omegamax.densities._grid import GridDensity
from omegamax.densities._location_scale import LocationScale, _slope


@fenchel_young_rule(GridDensity)
def _on_grid(density: GridDensity, target: Density | Tensor) -> Tensor:
    r"""Return the loss for a target q on the same nodes.

    With l the constant such that ``f - l = (p^(alpha-1) - 1) / (alpha - 1)``,

    .. math:: L = \sum_i w_i \bigl[ \omega(q_i) - \omega(p_i) - (f_i - l + 1/\alpha)(q_i - p_i) \bigr], \qquad
              \omega(x) = \frac{x^\alpha - x}{\alpha (\alpha - 1)}

    in which no term is negative, because the bracket times ``q - p`` is the slope of omega at p, and less off the
    support. For points :math:`\Omega^*(f) - f(t)`, where the score must have been given as a function.
    """
    alpha, p, w = density._each, density.probs_at_nodes, density.node_weights
    level = _level(density)
    if isinstance(target, Tensor):
        if density.function is None:
            raise ValueError(
                "fenchel_young_loss: points need the score between the nodes: make the density by from_function"
            )
        # (sum w p^alpha - 1) / alpha, as sum w p (p^(alpha-1) - 1) / alpha: there is no difference at alpha = 1.
        power = (density.masses * tsallis_log(p, alpha)).sum(-1) * (density.alpha - 1) / density.alpha
        return level + power - density.function(target)
    check_same_alpha("fenchel_young_loss", density, target)
    if not isinstance(target, GridDensity) or not _same_nodes(density.nodes, target.nodes):
        raise TypeError(
            "fenchel_young_loss: a GridDensity is compared with points or a GridDensity on the same nodes, "
            f"got a {type(target).__name__}"
        )
    q = target.probs_at_nodes
    # A node that was taken away costs nothing unless the target has mass there.
    kept = (p > 0) | (q > 0)
    slope = torch.where(kept, density.scores - level.unsqueeze(-1), 0.0) + 1 / alpha
    terms = _omega(q, alpha) - _omega(p, alpha) - slope * (q - p)
    return (w * torch.where(kept, terms, 0.0)).sum(-1)


def _omega(p: Tensor, alpha: float | Tensor) -> Tensor:
    return p * tsallis_log(p, alpha) / alpha


def _level(density: GridDensity) -> Tensor:
    """Return ``l``, read off at the node of the largest density, ``[*]``."""
    best = density.probs_at_nodes.argmax(-1, keepdim=True)
    top, peak = density.scores.gather(-1, best), density.probs_at_nodes.gather(-1, best)
    return (top - tsallis_log(peak, density._each)).squeeze(-1)


def _same_nodes(first: Tensor, second: Tensor) -> bool:
    if first is second:
        return True
    if not (readable(first) and readable(second)):
        return first.shape[-2:] == second.shape[-2:]
    return first.shape[-2:] == second.shape[-2:] and bool((first == second).all())


@fenchel_young_rule(LocationScale)
def _loss_of_location_scale(density: LocationScale, target: Density | Tensor) -> Tensor:
    r"""Return the loss, for points only.

    .. math:: \tfrac12 (1 + \int p^2) - \tfrac1\sigma \bigl(g'(a) - g'(|t - \mu| / \sigma)\bigr)
    """
    if isinstance(target, Density):
        raise TypeError(f"fenchel_young_loss: a LocationScale is compared with points, got a {type(target).__name__}")
    s = ((target - density.loc).abs() / density.scale).clamp(min=torch.finfo(density.loc.dtype).tiny)
    above = (density._top - _slope(density.g, s)) / density.scale
    return 1 - density.tsallis_entropy() - above.squeeze(-1)
