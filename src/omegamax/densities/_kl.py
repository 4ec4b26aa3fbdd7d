"""Kullback-Leibler divergences in closed form, for ``torch.distributions.kl_divergence``."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, register_kl

from omegamax._checks import readable
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._fenchel_young import fenchel_young_loss


@register_kl(BetaGaussian, BetaGaussian)
def _kl_beta_gaussian(p: BetaGaussian, q: BetaGaussian) -> Tensor:
    r"""Return the divergence from a Gaussian q (alpha = 1): the mean of its negative log-likelihood less the entropy.

    .. math:: -H(p) + \tfrac12 \log \det 2\pi\Sigma_q
              + \tfrac12 \operatorname{tr}(\Sigma_q^{-1} C_p) + \tfrac12 |L_q^{-1}(\mu_p - \mu_q)|^2

    Infinite if the covariance of ``p`` is. To any other ``q`` there is no closed form.
    """
    if not _is_gaussian(q):
        raise NotImplementedError(f"kl_divergence: q must be a Gaussian (alpha = 1), got alpha = {q.alpha}")
    if not isinstance(p.alpha, Tensor) and p.alpha == 1:
        return fenchel_young_loss(_as_gaussian(q), p)  # nothing cancels where the two are close
    half = q._root.whiten_matrix(p._root.tril())
    ratio = p._variance_ratio
    spread = torch.where(ratio.isnan(), math.inf, ratio) * half.square().sum((-2, -1))
    shift = q._root.whiten(p._loc - q._loc).square().sum(-1)
    return 0.5 * (spread + shift) - q.log_peak - p.entropy()


@register_kl(BetaGaussian, MultivariateNormal)
def _kl_beta_gaussian_to_normal(p: BetaGaussian, q: MultivariateNormal) -> Tensor:
    return _kl_beta_gaussian(p, _from_normal(q))


@register_kl(MultivariateNormal, BetaGaussian)
def _kl_normal_to_beta_gaussian(p: MultivariateNormal, q: BetaGaussian) -> Tensor:
    return _kl_beta_gaussian(_from_normal(p), q)


def _from_normal(density: MultivariateNormal) -> BetaGaussian:
    return BetaGaussian(density.loc, alpha=1.0, scale_tril=density.scale_tril, validate_args=False)


def _is_gaussian(density: BetaGaussian) -> bool:
    alpha = density.alpha
    if isinstance(alpha, Tensor):
        return readable(alpha) and bool((alpha == 1).all())
    return alpha == 1


def _as_gaussian(density: BetaGaussian) -> BetaGaussian:
    """Return the same density with alpha a float."""
    if not isinstance(density.alpha, Tensor):
        return density
    return BetaGaussian._from_root(density.loc, density._root, 1.0, False)
