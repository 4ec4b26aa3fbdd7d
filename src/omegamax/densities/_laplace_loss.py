"""Fenchel-Young losses and Kullback-Leibler divergences within the beta-Laplace family, in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import register_kl

from omegamax._checks import readable
from omegamax._numerics import gap, log_ratio, phi, psi
from omegamax.densities._base import Density
from omegamax.densities._fenchel_young import check_same_alpha, fenchel_young_rule
from omegamax.densities._laplace import BetaLaplace, Laplace


@fenchel_young_rule(BetaLaplace)
def _linear(density: BetaLaplace, target: Density | Tensor) -> Tensor:
    r"""Return the loss of a beta-Laplace density.

    With e = alpha - 1, c = p(mu)^e and the unit s = b c of each density,

    .. math:: L = \frac{c_q}{2\alpha - 1} \bigl( \kappa - 1 - \ell \varphi(e \ell / \alpha) \bigr)
                  + \frac{s_q}{b} \, W\Bigl(\frac{|\mu - \mu_q|}{s_q}\Bigr), \qquad
              \kappa = \frac{b_q}{b}, \quad \ell = \log \kappa, \quad \varphi(y) = \frac{e^y - 1}{y}

    where W(r) is the integral from 0 to r of one minus the tail of the target. Both terms are of second order where the
    densities are close, and summed so that nothing cancels there. For points, Omega* plus |t - mu| / b.
    """
    if isinstance(target, Tensor):
        return _conjugate(density) + ((target - density.loc).abs() / density.scale).squeeze(-1)
    check_same_alpha("fenchel_young_loss", density, target)
    if not isinstance(target, BetaLaplace):
        raise TypeError(
            f"fenchel_young_loss: a {type(density).__name__} is compared with points or a density of its family, "
            f"got a {type(target).__name__}"
        )
    alpha, strength = density._each, _strength(density)
    e = alpha - 1
    growth = (target.scale / density.scale).log()
    y = e / alpha * growth
    # kappa - 1 - l phi(y) = l (phi(l) - 1) - l (phi(y) - 1), and phi(y) - 1 = y (phi(y) - psi(y)).
    bend = (phi(growth) - psi(growth)) - e / alpha * (phi(y) - psi(y))
    stretch = target._unit / target.scale / strength * growth.square() * bend
    offset = target.loc - density.loc
    distance = torch.where(offset < 0, -offset, offset)  # not abs: its curvature at 0 would be lost with the sign
    shift = target._unit / density.scale * _shift(distance / target._unit, e, strength)
    return (stretch + shift).squeeze(-1)


def _shift(r: Tensor, e: Tensor, strength: Tensor) -> Tensor:
    """Return W(r) = ``r + ([1 - e r]_+^((2 alpha - 1) / e) - 1) / (2 alpha - 1)``.

    It is about ``alpha r^2 / 2`` for small r.
    """
    reach = e * r
    near, inside = reach.abs() < 0.5, reach < 1
    s = torch.where(near, r, 0.0)
    z = strength * s * log_ratio(-e * s)
    close = z.square() * (phi(-z) - psi(-z)) / strength - e * s.square() * gap(-e * s)
    t = torch.where(inside & ~near, r, 0.0)
    far = r + (-strength * t * log_ratio(-e * t)).expm1() / strength
    return torch.where(near, close, torch.where(inside, far, r - 1 / strength))


def _conjugate(density: BetaLaplace) -> Tensor:
    r"""Return :math:`\Omega_\alpha^*` of the score, ``[*]``: log 2b at alpha = 1."""
    alpha = density._each
    return ((alpha * density._normaliser - 1 + 1 / alpha) / _strength(density)).squeeze(-1)


def _strength(density: BetaLaplace) -> Tensor:
    """Return ``2 alpha - 1``; Omega is infinite for members of the family unless it is positive."""
    alpha = density.alpha
    if isinstance(alpha, Tensor):
        strength = 2 * alpha.unsqueeze(-1) - 1
        return torch.where(strength > 0, strength, math.nan)
    if alpha <= 0.5:
        raise ValueError(f"fenchel_young_loss: alpha must be > 1/2 for a beta-Laplace density, got {alpha:g}")
    return density.loc.new_tensor([2 * alpha - 1])


@register_kl(BetaLaplace, BetaLaplace)
def _kl_beta_laplace(p: BetaLaplace, q: BetaLaplace) -> Tensor:
    r"""Return the divergence from a Laplace density ``q`` (alpha = 1); from any other there is no closed form.

    .. math:: -H(p) + \log 2 b_q + E_p|t - \mu_q| / b_q
    """
    flat = readable(q.alpha) and bool((q.alpha == 1).all()) if isinstance(q.alpha, Tensor) else q.alpha == 1
    if not flat:
        raise NotImplementedError(f"kl_divergence: q must be a Laplace density (alpha = 1), got alpha = {q.alpha}")
    if not isinstance(p.alpha, Tensor) and p.alpha == 1:
        return _linear(Laplace(q.loc, q.scale, validate_args=False), p)  # nothing cancels where the two are close
    return ((2 * q.scale).log().squeeze(-1) + p.mean_distance(q.loc) / q.scale.squeeze(-1)) - p.entropy()
