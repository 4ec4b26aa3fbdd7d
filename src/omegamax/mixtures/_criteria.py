"""What another component has to be worth: penalties on the size of a mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import is_number


class Criterion:
    r"""A score of a fitted mixture, the smaller the better.

    .. math:: -2 m \sum_l w_l \log p(x_l) + \text{penalty}, \qquad \sum_l w_l = 1

    with m the number of points that the weights stand for. A subclass gives :meth:`score`.
    """

    def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
        """Return the score, ``[*]``.

        Args:
            objective: log-likelihood per unit of weight, ``[*]``.
            size: effective number of points, ``1 / sum w^2`` (Kish), ``[*]``.
            weights: of the components, ``[*, K]``; only those > 0 count.
            dimension: n.
        """
        raise NotImplementedError

    def cost(self, size: Tensor, dimension: int) -> Tensor | None:
        """Return the mass that each component pays for its parameters while it is fitted, ``[*]``; None: nothing."""
        return None


def component_parameters(n: int) -> int:
    """Return the number of parameters in a mean and a covariance."""
    return n + n * (n + 1) // 2


def parameter_count(weights: Tensor, n: int) -> Tensor:
    """Return the number of free parameters of the components with weight, K - 1 + K n + K n (n + 1) / 2, ``[*]``."""
    return (weights > 0).sum(-1) * (1 + component_parameters(n)) - 1


@dataclass(frozen=True)
class Linear(Criterion):
    r""":math:`-2 \sum_l w_l \log p(x_l) + \lambda K`: per unit of weight, as in the papers.

    Reference: Farinhas, Martins and Aguiar (2021), Eq. 15, where lambda = 5.
    """

    penalty: float

    def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
        return -2 * objective + self.penalty * (weights > 0).sum(-1).to(objective.dtype)  # not in the default dtype


@dataclass(frozen=True)
class BIC(Criterion):
    r""":math:`-2 m \sum_l w_l \log p(x_l) + d \log m`, with :math:`m = 1 / \sum_l w_l^2` (Kish) and d parameters.

    Reference: Schwarz (1978).
    """

    def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
        return -2 * size * objective + parameter_count(weights, dimension) * size.log()


@dataclass(frozen=True)
class AIC(Criterion):
    r""":math:`-2 m \sum_l w_l \log p(x_l) + 2 d`, with :math:`m = 1 / \sum_l w_l^2` (Kish) and d parameters.

    Reference: Akaike (1974).
    """

    def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
        return -2 * size * objective + 2 * parameter_count(weights, dimension)


@dataclass(frozen=True)
class MDL(Criterion):
    r"""Twice the message length of Figueiredo and Jain, which prunes components while they are fitted.

    .. math:: -2 m \sum_l w_l \log p(x_l) + c \sum_{k: \pi_k > 0} \log \frac{m \pi_k}{12}
              + K \log \frac{m}{12} + K (c + 1), \qquad c = n + \tfrac{n (n + 1)}{2}

    A component is worth its c parameters if its points are: in the M-step the weights are
    :math:`\pi_k \propto [N_k - c / 2m]_+`.

    Reference: Figueiredo and Jain (2002), Unsupervised learning of finite mixture models.
    """

    def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
        c, count = component_parameters(dimension), (weights > 0).sum(-1)
        unit = (size / 12).log()
        logs = torch.where(weights > 0, torch.where(weights > 0, weights, 1.0).log(), 0.0).sum(-1)
        return -2 * size * objective + c * (logs + count * unit) + count * (unit + c + 1)

    def cost(self, size: Tensor, dimension: int) -> Tensor:
        return component_parameters(dimension) / (2 * size)


class Penalty(NamedTuple):
    """A score in numbers, for kernels: :math:`-2 m J + c (d K - f)` of a mixture with K components."""

    per_point: bool  # m is the number of points, and not 1
    price: float  # c; inf: the logarithm of the number of points
    each: int  # d
    fewer: int  # f


NO_PENALTY = Penalty(False, 0.0, 0, 0)


def find_penalty(criterion: Criterion, dimension: int) -> Penalty | None:
    """Return the numbers of one of the scores here; None where a score is more than they say."""
    kind, each = type(criterion), 1 + component_parameters(dimension)  # of a subclass the score may be another
    if kind is BIC:
        return Penalty(True, math.inf, each, 1)
    if kind is AIC:
        return Penalty(True, 2.0, each, 1)
    if isinstance(criterion, Linear) and kind is Linear and is_number(criterion.penalty):
        return Penalty(False, float(criterion.penalty), 1, 0) if math.isfinite(criterion.penalty) else None
    return None
