"""Kullback-Leibler divergences in closed form, for ``torch.distributions.kl_divergence``."""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Categorical, kl_divergence, register_kl

from omegamax.mixed import _rectified
from omegamax.mixed._base import Mixed
from omegamax.mixed._gaussian_sparsemax import GaussianSparsemax
from omegamax.mixed._gumbel_softmax import GumbelSoftmax
from omegamax.mixed._logistic_normal import LogisticNormal
from omegamax.mixed._max_entropy import MaxEntropyMixed
from omegamax.mixed._mixed_dirichlet import MixedDirichlet, dirichlet_divergence


@register_kl(GaussianSparsemax, GaussianSparsemax)
def _kl_gaussian_sparsemax(p: GaussianSparsemax, q: GaussianSparsemax) -> Tensor:
    """Return the divergence of two rectified Gaussians; more than two vertices have no closed form."""
    _check_vertices(p, q)
    if p.vertices != 2:
        raise NotImplementedError(
            f"kl_divergence: closed form for 2 vertices only, got {p.vertices}; use omegamax.mixed.kl_divergence"
        )
    return _rectified.divergence(p._edge, q._edge)


@register_kl(LogisticNormal, LogisticNormal)
def _kl_logistic_normal(p: LogisticNormal, q: LogisticNormal) -> Tensor:
    """Return the divergence of the log-ratios, of which the points are a smooth function that can be inverted."""
    _check_vertices(p, q)
    if p.vertices == 1:
        return (p.loc + q.loc).squeeze(-1) * 0
    return kl_divergence(p.log_ratios(), q.log_ratios())


@register_kl(MixedDirichlet, MixedDirichlet)
def _kl_mixed_dirichlet(p: MixedDirichlet, q: MixedDirichlet) -> Tensor:
    _check_vertices(p, q)
    return dirichlet_divergence(p, q)


@register_kl(Mixed, MaxEntropyMixed)
def _kl_to_max_entropy(p: Mixed, q: MaxEntropyMixed) -> Tensor:
    """Return what is missing of the entropy: the density of ``q`` depends on the number of non-zero entries alone."""
    _check_vertices(p, q)
    entropy = p.entropy()  # first: distributions without a closed one may take long to count non-zero entries
    return q._log_normaliser - (p.nonzeros() - 1) * q.bits * math.log(2) - entropy


@register_kl(GumbelSoftmax, GumbelSoftmax)
def _kl_gumbel_softmax(p: GumbelSoftmax, q: GumbelSoftmax) -> Tensor:
    """Return the divergence of two categorical distributions on the vertices; soft ones have no closed form."""
    _check_vertices(p, q)
    if not (p.hard and q.hard):
        raise NotImplementedError("kl_divergence: closed form for hard=True only; use omegamax.mixed.kl_divergence")
    return kl_divergence(
        Categorical(logits=p.logits, validate_args=False), Categorical(logits=q.logits, validate_args=False)
    )


def _check_vertices(p: Mixed, q: Mixed) -> None:
    if p.vertices != q.vertices:
        raise ValueError(f"kl_divergence: p and q must have as many vertices, got {p.vertices} and {q.vertices}")
