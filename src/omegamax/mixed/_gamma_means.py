"""Means of the gamma function's logarithms over random subsets, without a sum over the subsets."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_STEP = 0.25  # the trapezoidal rule's error is about exp(-pi^2 / step) = 7e-18


class GammaMeans:
    r"""Means of functions of :math:`A = \sum_{i \in f} \alpha_i` over a random non-empty set f of independent vertices.

    With :math:`M(t) = E \, e^{-A t}`, which is a product over vertices,

    .. math:: E \log \Gamma(A) &= \int_0^\infty \Bigl[(E A - 1) e^{-t}
              - \frac{e^{-t} - M(t)}{1 - e^{-t}}\Bigr] \frac{dt}{t} \\
              E[W \psi(A)] &= \int_0^\infty \Bigl[E W \frac{e^{-t}}{t} - \frac{E[W e^{-A t}]}{1 - e^{-t}}\Bigr] dt,
              \qquad W = \sum_{i \in f} w_i

    (Malmsten's and Gauss's integrals), by the trapezoidal rule in :math:`\log t`.

    Args:
        log_in: log-probabilities of the vertices before the empty set is ruled out, ``[*, K]``.
        log_some: log-probability that the set is not empty, ``[*]``.
        alpha: positive, ``[*, K]``.
    """

    def __init__(self, log_in: Tensor, log_some: Tensor, alpha: Tensor) -> None:
        self.log_in, self.log_some, self.alpha = log_in, log_some, alpha
        b = log_in.exp()
        # By the same division as the drop below: what cancels at t = 0 then does so whatever the rounding.
        self.marginals = b / log_some.unsqueeze(-1).exp()
        with torch.no_grad():
            t = _nodes(alpha)
        self.t = t  # [Q]
        decay = (-alpha.unsqueeze(-1) * t).expm1()  # [*, K, Q]
        # A sure vertex (b = 1) leaves e^(-alpha t), which underflows in 1 + (e^(-alpha t) - 1).
        sure = b == 1
        factor = (torch.where(sure, 0.0, b).unsqueeze(-1) * decay).log1p()
        factor = torch.where(sure.unsqueeze(-1), -alpha.unsqueeze(-1) * t, factor)
        log_product = factor.sum(-2)
        some = log_some.unsqueeze(-1)
        self.drop = log_product.expm1() / some.exp()  # M(t) - 1
        # P(i in f, weighted by e^(-A t))
        each = self.log_in.unsqueeze(-1) - alpha.unsqueeze(-1) * t - factor
        self.joint = (each + (log_product - some).unsqueeze(-2)).exp()  # [*, K, Q]

    def lgamma(self) -> Tensor:
        """Return mean of log Gamma(A), ``[*]``."""
        t = self.t
        total = (self.marginals * self.alpha).sum(-1, keepdim=True)
        return _STEP * ((total - 1) * (-t).exp() + 1 - self.drop / (-t).expm1()).sum(-1)

    def digamma_times(self, weights: Tensor) -> Tensor:
        """Return mean of digamma(A) times the sum of ``weights [*, K]`` over the set, ``[*]``."""
        t = self.t
        mean = (self.marginals * weights).sum(-1, keepdim=True)
        moved = (weights.unsqueeze(-1) * self.joint).sum(-2)
        return _STEP * (mean * (-t).exp() + t * moved / (-t).expm1()).sum(-1)

    def shares(self) -> Tensor:
        """Return mean of ``alpha_i / A`` on the sets that hold i, ``[*, K]``."""
        return self.alpha * _STEP * (self.t * self.joint).sum(-1)


def _nodes(alpha: Tensor) -> Tensor:
    """Return points t, equally spaced in their logarithm.

    They reach from where the integrands are rounding errors to where they end.
    """
    if not alpha.numel():
        return alpha.new_ones(1)
    tiny = torch.finfo(alpha.dtype).eps / 100
    low = math.log(tiny) - 2 * math.log(max(1.0, float(alpha.sum(-1).max())))
    high = math.log(-math.log(tiny)) - math.log(min(1.0, max(float(alpha.min()), 1e-280)))
    if not math.isfinite(low + high):  # NaN concentrations: any nodes will do, the result is NaN
        return alpha.new_ones(1)
    count = math.ceil((high - low) / _STEP) + 1
    return (low + _STEP * torch.arange(count, dtype=alpha.dtype, device=alpha.device)).exp()
