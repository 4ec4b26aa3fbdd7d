"""Entropy, divergence and mutual information of mixed distributions, with the error of their estimates."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions import kl_divergence as torch_kl

from omegamax._arguments import check_count
from omegamax.mixed._base import Mixed
from omegamax.mixed._quadrature import face_nodes


class Estimate(NamedTuple):
    """A number and its error, both ``[*]``.

    ``error`` is exactly 0 for a closed form, the standard error of a Monte Carlo mean, and the change from a coarser
    rule to a finer one for a quadrature, and more where the rule misses mass: infinite if that is above a hundredth,
    as it is for distributions much narrower than the distance of the nodes. The truth lies within two standard errors
    95 times out of 100.
    """

    value: Tensor
    error: Tensor


def entropy(p: Distribution, *, samples: int = 4096, order: int | None = None) -> Estimate:
    r"""Return the direct-sum entropy in nats: of the face, and on average of the point on it.

    .. math:: H(Y) = -\sum_f \int_{\mathrm{ri} f} p(y) \log p(y) \, dy = H(F) + \sum_f P_F(f) \, h(Y \mid f)

    In closed form where ``p.entropy()`` is: two vertices of :class:`GaussianSparsemax`, any :class:`MixedDirichlet`,
    :class:`MaxEntropyMixed`. Else, with ``order``, by a quadrature over all faces with ``order^(K-1)`` nodes (for few
    vertices and smooth densities), and without it the mean of ``samples`` draws.

    A Monte Carlo value has an unbiased gradient: that of the score function with the mean of the other draws as its
    baseline. Gradients through samples would not see mass move from face to face.

        >>> from omegamax.mixed import GaussianSparsemax
        >>> p = GaussianSparsemax(torch.tensor([1.0, 0.5, 0.0]), scale=0.5)
        >>> [round(part.item(), 3) for part in entropy(p, order=24)]
        [1.056, 0.0]
        >>> value, error = entropy(p, samples=1000)
        >>> bool((value - entropy(p, order=24).value).abs() < 5 * error)
        True

    Reference: Farinhas et al. (ICLR 2022).
    """
    try:
        return _exact(p.entropy())
    except NotImplementedError:
        pass
    if order is not None:
        return _by_quadrature("entropy", p, order, lambda y, log_p: -log_p)
    y = _draw("entropy", p, samples)
    log_p = p.log_prob(y)
    return _mean(-log_p, log_p)


def kl_divergence(p: Distribution, q: Distribution, *, samples: int = 4096, order: int | None = None) -> Estimate:
    r"""Return the Kullback-Leibler divergence in nats: of the face, and on average of the point on it.

    .. math:: \mathrm{KL}(p \| q) = \sum_f \int_{\mathrm{ri} f} p(y) \log \frac{p(y)}{q(y)} \, dy

    In closed form where ``torch.distributions.kl_divergence`` has one; else as in :func:`entropy`. Infinite where ``p``
    has mass and ``q`` has none.

        >>> from omegamax.mixed import MaxEntropyMixed, MixedDirichlet
        >>> p = MixedDirichlet(torch.zeros(3), torch.ones(3))
        >>> kl_divergence(p, MaxEntropyMixed(3))  # all faces alike, from nearly all alike
        Estimate(value=tensor(0.0249), error=tensor(0.))
    """
    _check_pair("kl_divergence", p, q)
    try:
        return _exact(torch_kl(p, q))
    except NotImplementedError:
        pass
    if order is not None:
        return _by_quadrature("kl_divergence", p, order, lambda y, log_p: log_p - q.log_prob(y))
    y = _draw("kl_divergence", p, samples)
    log_p = p.log_prob(y)
    return _mean(log_p - q.log_prob(y), log_p)


def mutual_information(
    p: Distribution, weights: Tensor | None = None, *, samples: int = 1024, order: int | None = None
) -> Estimate:
    r"""Return the mutual information in nats between a message and which of M senders, or inputs, it comes from.

    .. math:: I(X; Y) = \sum_x w_x \, \mathrm{KL}\bigl(p(y \mid x) \,\big\|\, p(y)\bigr),
              \qquad p(y) = \sum_x w_x \, p(y \mid x)

    Args:
        p: the distributions of the message for each x, along the last axis of the batch: ``batch_shape [*, M]``.
        weights: probabilities of x, ``[*, M]``; equal ones if none are given.
        samples: draws from each distribution.
        order: quadrature with ``order^(K-1)`` nodes in place of draws.

    Returns:
        ``[*]``; at most log M.

        >>> from omegamax.mixed import GaussianSparsemax
        >>> p = GaussianSparsemax(5 * torch.eye(3), scale=0.5)  # three senders, each with a vertex of its own
        >>> value, error = mutual_information(p)
        >>> bool((value - math.log(3)).abs() < 1e-4)
        True
    """
    if not p.batch_shape:
        raise ValueError("mutual_information: p needs a last batch axis, one entry for each x; got no batch_shape")
    count = p.batch_shape[-1]
    like = p.sample()
    if weights is None:
        weights = like.new_full((count,), 1 / count)
    if not isinstance(weights, Tensor) or weights.dim() == 0 or weights.shape[-1] != count:
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(f"mutual_information: weights must have shape [*, {count}], got {shape}")
    log_w = torch.where(weights > 0, weights, 1.0).log().where(weights > 0, torch.tensor(-math.inf).to(weights))
    if order is not None:
        return _information_by_quadrature(p, weights, log_w, order)
    y = _draw("mutual_information", p, samples)  # [S, *, M, K]
    event = len(p.event_shape)
    # The distribution drawn from goes in front, so that the last axis of the batch is free for the distribution
    # evaluated.
    every = p.log_prob(y.movedim(-1 - event, 1).unsqueeze(-1 - event))  # [S, M drawn, *, M evaluated]
    own = every.diagonal(dim1=1, dim2=-1)  # [S, *, M]
    mixture = (every + log_w).logsumexp(-1).movedim(1, -1)  # [S, *, M]
    value, error = _mean(own - mixture, own)
    return Estimate((weights * value).sum(-1), (weights * error).square().sum(-1).sqrt())


def code_length(p: Mixed, bits: float, *, samples: int = 4096, order: int | None = None) -> Estimate:
    r"""Return the bits of the best code that keeps the face exactly and each of its k - 1 coordinates to ``bits`` bits.

    .. math:: \frac{H(Y)}{\log 2} + N \, (E[k] - 1)

    for many bits N. At most :func:`max_entropy`, which :class:`MaxEntropyMixed` attains.

        >>> from omegamax.mixed import MaxEntropyMixed, max_entropy
        >>> round(code_length(MaxEntropyMixed(3, bits=4.0), 4.0).value.item() - max_entropy(3, 4.0), 5)
        0.0
    """
    value, error = entropy(p, samples=samples, order=order)
    return Estimate(value / math.log(2) + bits * (p.nonzeros() - 1), error / math.log(2))


def _exact(value: Tensor) -> Estimate:
    return Estimate(value, torch.zeros_like(value))


def _draw(name: str, p: Distribution, samples: int) -> Tensor:
    check_count(name, "samples", samples, 2)
    return p.sample(torch.Size([samples]))


def _mean(f: Tensor, log_p: Tensor) -> Estimate:
    """Return the mean of ``f [S, *]`` at draws of log-density ``log_p``, with the gradient of its expectation."""
    count = len(f)
    value = f.mean(0)
    if log_p.requires_grad:
        with torch.no_grad():
            advantage = (f - f.mean(0)) * (count / (count - 1))  # against the mean of the other draws
            advantage = torch.where(advantage.isfinite(), advantage, 0.0)
        value = value + (advantage * (log_p - log_p.detach())).mean(0)
    with torch.no_grad():
        error = f.std(0) / math.sqrt(count)
        error = torch.where(f.mean(0).isinf(), math.inf, error)
    return Estimate(value, error)


def _by_quadrature(name: str, p: Distribution, order: int, integrand) -> Estimate:
    if not isinstance(p, Mixed):
        raise TypeError(f"{name}: a quadrature (order) needs a mixed distribution, got {type(p).__name__}")

    def total(order: int) -> tuple[Tensor, Tensor]:
        """Return the integral, and how much of the mass the rule misses times the largest size of the integrand."""
        y, w = _nodes_like(p, order)
        log_p = p.log_prob(y)
        f = integrand(y, log_p)
        with torch.no_grad():
            missed = ((w * log_p.exp()).sum(0) - 1).abs()
            size = torch.where(f.isfinite(), f.abs(), 0.0).amax(0).clamp(min=1)
            missed = torch.where(missed > 0.01, math.inf, missed * size)
        return (w * _weight(log_p, f)).sum(0), missed

    value, missed = total(order)
    with torch.no_grad():
        coarse = total(max(2, 3 * order // 4))[0]
        return Estimate(value, (value - coarse).abs() + missed)


def _information_by_quadrature(p: Distribution, weights: Tensor, log_w: Tensor, order: int) -> Estimate:
    def integrand(y: Tensor, log_p: Tensor) -> Tensor:
        return log_p - (log_p + log_w).logsumexp(-1, keepdim=True)

    value, error = _by_quadrature("mutual_information", p, order, integrand)
    return Estimate((weights * value).sum(-1), (weights * error).sum(-1))


def _nodes_like(p: Mixed, order: int) -> tuple[Tensor, Tensor]:
    """Return nodes ``[Q, 1..., K]`` and weights ``[Q, 1...]`` that broadcast with the batch of ``p``."""
    like = p.sample()
    y, w = face_nodes(p.vertices, order, dtype=like.dtype, device=like.device)
    ones = (1,) * len(p.batch_shape)
    return y.reshape(-1, *ones, p.vertices), w.reshape(-1, *ones)


def _weight(log_p: Tensor, f: Tensor) -> Tensor:
    """Return ``p f``, 0 where p is 0 whatever f is."""
    kept = log_p > -math.inf
    return torch.where(kept, log_p, 0.0).exp() * torch.where(kept, f, 0.0) * kept


def _check_pair(name: str, p: Distribution, q: Distribution) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"{name}: p and q must have one event shape, got {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
