"""Fenchel-Young losses of densities: how far a score is from explaining a density, or a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import gap, phi, psi
from omegamax.densities._base import Density
from omegamax.densities._beta_gaussian import BetaGaussian

Rule = TypeVar("Rule", bound=Callable[[Any, Any], Tensor])
_RULES: dict[type, Callable[[Any, Any], Tensor]] = {}


def fenchel_young_loss(density: Density, target: Density | Tensor) -> Tensor:
    r"""Return the Fenchel-Young loss between the score ``f`` of a density and a target ``q``, ``[*]``.

    .. math:: L_{\Omega_\alpha}(f, q) = \Omega_\alpha^*(f) + \Omega_\alpha(q) - E_q[f(t)]

    Never negative, and zero only where the density is the target. At alpha = 1 it is ``KL(q, p)``; at alpha = 2 half
    the integral of ``(p - q)^2``, and more where ``q`` leaves the support of ``p``. Its gradient in the canonical
    parameters of the score is the gap of the moments: the beta-Gaussian that minimises it matches mean and covariance.

    Args:
        density: whose score is judged. Its alpha must be large enough for a finite covariance.
        target: a density with the same alpha, or points ``[*, n]``. For points :math:`\Omega_\alpha(q)` is left out
            (the cross-Fenchel-Young loss; at alpha = 1 the negative log-likelihood), and the loss can be negative.

        >>> from omegamax.densities import TruncatedParaboloid
        >>> p = TruncatedParaboloid(torch.zeros(2), 1.0)
        >>> q = TruncatedParaboloid(torch.tensor([0.5, 0.0]), 2.0)
        >>> fenchel_young_loss(p, p), fenchel_young_loss(p, q)
        (tensor(0.), tensor(0.1478))

    Reference: Blondel et al. (JMLR 2020), Def. 2; Martins et al. (JMLR 2022).
    """
    name = "fenchel_young_loss"
    rule = next((_RULES[kind] for kind in type(density).__mro__ if kind in _RULES), None)
    if rule is None:
        raise TypeError(f"{name}: no closed form for a density of type {type(density).__name__}")
    if not isinstance(target, (Density, Tensor)):
        raise TypeError(f"{name}: target must be a density or a tensor of points, got {type(target).__name__}")
    n = density.event_shape[0]
    shape = target.event_shape if isinstance(target, Density) else target.shape[-1:]
    if tuple(shape) != (n,):
        raise ValueError(f"{name}: target must have {n} coordinates, as the density has, got shape {tuple(shape)}")
    return rule(density, target)


def fenchel_young_rule(kind: type) -> Callable[[Rule], Rule]:
    """Make a function ``(density, target) -> [*]`` the closed form for densities of this type and its subclasses."""

    def register(rule: Rule) -> Rule:
        _RULES[kind] = rule
        return rule

    return register


def check_same_alpha(name: str, density: Any, target: Any) -> None:
    """Refuse two densities of different alpha; tensors are compared only where that costs no device sync."""
    first, second = density.alpha, getattr(target, "alpha", None)
    if second is None:
        raise TypeError(f"{name}: a {type(target).__name__} has no alpha, so it cannot be compared with this density")
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        first, second = torch.as_tensor(first), torch.as_tensor(second)
        if not (readable(first) and readable(second)):
            return
        same = bool(torch.isclose(first.double(), second.double(), rtol=1e-6).all())
    else:
        same = math.isclose(first, second)
    if not same:
        raise ValueError(f"{name}: both densities must have the same alpha, got {_shown(first)} and {_shown(second)}")


def _shown(alpha: float | Tensor) -> str:
    return str(alpha.tolist()) if isinstance(alpha, Tensor) else f"{alpha:g}"


@fenchel_young_rule(BetaGaussian)
def _quadratic(density: BetaGaussian, target: Density | Tensor) -> Tensor:
    r"""Return the loss of a beta-Gaussian.

    With e = alpha - 1, g = 1 + en/2 and ``K K'`` the matrix of the target's Sigma in units of the density's,

    .. math:: L = \tfrac12 |d|^2 + \frac{c_q}{2 (g + e)} \bigl( \|K\|^2 - n - 2 \ell \, \varphi(e \ell / g) \bigr),
              \qquad \ell = \log \det K, \quad \varphi(y) = (e^y - 1) / y

    and d the whitened difference of the locations. The bracket is of second order in ``D = K - I``; summed as
    ``2 sum (D_ii - log(1 + D_ii)) + |D|^2 - 2 l (phi - 1)`` it is exact where it is small.
    """
    root, e, g = density._root, density._e, density._g
    if isinstance(target, Tensor):
        return _conjugate(density) + 0.5 * root.whiten(target - density._loc).square().sum(-1)
    check_same_alpha("fenchel_young_loss", density, target)
    if not isinstance(target, BetaGaussian):
        whitened = root.whiten_matrix(root.whiten_matrix(target.covariance_matrix).mT)
        trace = whitened.diagonal(dim1=-2, dim2=-1).sum(-1)
        shift = root.whiten(target.mean - density._loc).square().sum(-1)
        return _conjugate(density) + 0.5 * (shift + trace) - target.tsallis_entropy()
    shift = root.whiten(target.loc - density._loc).square().sum(-1)
    change = root.whiten_matrix(target._root.tril() - root.tril())
    stretch = change.diagonal(dim1=-2, dim2=-1)
    log_det = stretch.log1p().sum(-1)
    y = e / g * log_det
    bend = 2 * e / g * log_det.square() * (phi(y) - psi(y))  # 2 log_det (phi(y) - 1)
    bracket = (2 * stretch.square() * gap(stretch)).sum(-1) + change.square().sum((-2, -1)) - bend
    return 0.5 * (shift + target._dilation / _spread(density) * bracket)


def _conjugate(density: BetaGaussian) -> Tensor:
    r"""Return :math:`\Omega_\alpha^*` of the centred score, ``[*]``: the log-partition function at alpha = 1."""
    e, level, spread = density._e, density._log_peak, _spread(density)
    return (-density._g * level * phi(e * level) - density.dimension * e / (2 * (1 + e))) / spread


def _spread(density: BetaGaussian) -> Any:
    """Return ``g + e``, the reciprocal of the variance but for the dilation.

    The loss is infinite or undefined unless > 0.
    """
    spread, n = density._spread, density.dimension
    if isinstance(spread, Tensor):
        return torch.where(spread > 0, spread, math.nan)
    if spread <= 0:
        least = f"{n}/{n + 2}"
        raise ValueError(f"fenchel_young_loss: alpha must be > {least} in {n} dimensions, got {density.alpha:g}")
    return spread
