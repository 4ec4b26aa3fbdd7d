r"""Probabilities of faces: of Gaussian vectors that lie in a polytope.

Sparsemax sends x to the face I of k vertices where, with :math:`\tau = (\sum_{i \in I} x_i - 1) / k`,

.. math:: v_i = x_i - \tau > 0 \quad (i \in I), \qquad v_j = \tau - x_j \ge 0 \quad (j \notin I).

The :math:`v_i` of the face sum to one, so that one of them is left out and bounds the others from above. What is left
is separated: each v given those before it is Gaussian and lies in an interval, whose probability is a factor and from
which it is drawn. The factors depend on how many deviations wide the intervals are and on nothing else, so that no
scale is too small or too large. One or two draws are integrated by Gauss-Legendre rules, more of them by a lattice
rule.

Reference: Genz (J. Comput. Graph. Stat. 1992) for the separation; Sloan and Joe (1994) for lattice rules.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from omegamax.mixed._orthant import quantile
from omegamax.mixed._quadrature import legendre

_ORDERS = {1: 128, 2: 80}  # nodes along each axis
# A lattice found component by component, in the order of the coordinates: 8192 points, 14 coordinates.
NODES = 8192
_GENERATOR = (1, 3457, 1833, 507, 235, 849, 2225, 633, 1745, 1733, 825, 1345, 1913, 1019)
_SURE = 40.0  # deviations beyond which nothing is left
_FARTHEST_DEVIATIONS = 1e7  # what is further out than so many deviations counts as if it were there: exp(-5e13)
_NARROW, _LINEAR = 1e-2, 1e-5


def log_polytope(loc: Tensor, root: Tensor, face: Tensor) -> Tensor:
    """Return the log-probability ``[*]`` that sparsemax of ``N(loc, root root')`` lies on a face.

    Args:
        loc: ``[*, K]``.
        root: ``[*, K, m]``, m >= K - 1.
        face: ``[K]`` bool, with at least one vertex.
    """
    # In units of the largest deviation, so that squares neither overflow nor vanish.
    unit = root.detach().abs().amax((-2, -1), keepdim=True)
    mean, rows, inside = _order(*_distances(loc / unit[..., 0], root / unit, face, 1 / unit[..., 0]))
    count = loc.shape[-1] - 1
    log_u, log_rest, log_weight = (t.to(loc) for t in _nodes(max(count - 1, 0)))
    total = log_weight.expand(*loc.shape[:-1], -1)
    room = (1 / unit[..., 0]).expand_as(total)  # what the entries of the face have left to share
    axes: list[Tensor] = []
    drawn: list[Tensor] = []
    for i in range(count):
        rest, middle = rows[..., i, :], mean[..., i, None]
        for axis, e in zip(axes, drawn, strict=True):
            part = (rest * axis).sum(-1, keepdim=True)
            rest, middle = rest - part * axis, middle + part * e
        deviation = rest.norm(dim=-1, keepdim=True)
        axes.append(rest / deviation)
        low = (-middle / deviation).clamp(-_FARTHEST_DEVIATIONS, _FARTHEST_DEVIATIONS)
        bounded = inside[..., i, None]
        width = torch.where(
            bounded, (room / deviation).clamp(max=3 * _FARTHEST_DEVIATIONS), low.clamp(min=0) + _SURE - low
        )
        interval = _Interval(low, width.clamp(min=torch.finfo(width.dtype).tiny))
        total = total + interval.log_p
        if i < count - 1:
            offset = interval.draw(log_u[:, i], log_rest[:, i])
            drawn.append(low + offset)
            room = torch.where(bounded, (room - deviation * offset).clamp(min=0), room)
    return total.logsumexp(-1)


def _distances(loc: Tensor, root: Tensor, face: Tensor, one: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return means ``[*, K]`` and roots ``[*, K, m]`` of v, and where it belongs to the face ``[*, K]``.

    ``one`` is ``[*, 1]``.
    """
    size = int(face.sum())
    share = face.to(loc.dtype) / size
    sign = torch.where(face, 1.0, -1.0).to(loc)
    # Relative to an entry of the face, so that nothing cancels where locations are large.
    anchor = loc[..., int(face.int().argmax()), None]
    gap = loc - anchor
    mean = sign * (gap - (gap * share).sum(-1, keepdim=True) + one / size)
    rows = sign.unsqueeze(-1) * (root - (root * share.unsqueeze(-1)).sum(-2, keepdim=True))
    return mean, rows, face.expand(mean.shape)


def _order(mean: Tensor, rows: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Order entries by likelihood, the least first; the last, never used, is the likeliest of the face."""
    with torch.no_grad():
        deviation = rows.square().sum(-1).sqrt()
        score = mean / torch.where(deviation > 0, deviation, 1.0)
        spare = torch.where(inside, score, -math.inf).argmax(-1, keepdim=True)
        rank = score.scatter(-1, spare, math.inf).argsort(-1)
    across = rank.unsqueeze(-1).expand(*rank.shape, rows.shape[-1])
    return mean.gather(-1, rank), rows.gather(-2, across), inside.gather(-1, rank)


class _Interval:
    """From ``low`` over ``width``, in deviations of a standard Gaussian variable."""

    def __init__(self, low: Tensor, width: Tensor) -> None:
        self.low, self.width, self.middle = low, width, low + width / 2
        # Its mirror image where it leans to the right, so that both ends are in the tail that is accurate.
        self.left = self.middle <= 0
        self.start = torch.where(self.left, low, -low - width)
        self.log_p = self._log_p()

    def _log_p(self) -> Tensor:
        size = self.width * self.middle.abs().clamp(min=1)
        narrow = size < _NARROW
        # Of a narrow one the difference would be rounding: Taylor's series of the density about its middle.
        h, square = torch.where(narrow, self.width, _NARROW), torch.where(narrow, self.middle, 0.0).square()
        series = h.square() / 24 * (square - 1) + h.pow(4) / 1920 * (square.square() - 6 * square + 3)
        thin = h.log() + series.log1p() - square / 2 - 0.5 * math.log(2 * math.pi)
        start = torch.where(narrow, -1.0, self.start)
        at_start, at_end = (torch.special.log_ndtr(t) for t in (start, start + torch.where(narrow, 1.0, self.width)))
        return torch.where(narrow, thin, at_end + torch.log(-torch.expm1(at_start - at_end)))

    def draw(self, log_u: Tensor, log_rest: Tensor) -> Tensor:
        """Return how far from ``low`` the share u of the probability lies."""
        narrow = self.width * self.middle.abs().clamp(min=1) < _LINEAR
        share = torch.where(self.left, log_u, log_rest) + self.log_p
        x = quantile(torch.logaddexp(torch.special.log_ndtr(self.start), share))
        offset = torch.where(self.left, x, -x) - self.low
        offset = torch.minimum(offset.clamp(min=0), self.width)
        u = log_u.exp()
        # The density is linear there, to the square of what narrow means.
        linear = self.width * u * (1 + torch.where(narrow, self.middle * self.width, 0.0) * (u - 1) / 2)
        return torch.where(narrow, linear, offset)


@functools.cache
def _nodes(dimension: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``log u`` and ``log(1 - u)`` ``[Q, D]`` and log-weights ``[Q]`` for means over the unit cube; float64."""
    if dimension in _ORDERS:
        nodes, weights = legendre(_ORDERS[dimension], torch.empty(0, dtype=torch.float64))
        x = torch.stack(torch.meshgrid(*[nodes] * dimension, indexing="ij"), -1).reshape(-1, dimension)
        w = torch.stack(torch.meshgrid(*[weights] * dimension, indexing="ij"), -1).reshape(-1, dimension).prod(-1)
    elif dimension:
        step = torch.tensor(_GENERATOR[:dimension], dtype=torch.float64) / NODES
        x = (torch.arange(NODES, dtype=torch.float64).unsqueeze(-1) + 0.5) * step % 1
        w = torch.ones(NODES, dtype=torch.float64)
    else:
        x, w = torch.empty(1, 0, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    # Flat at both ends, where quantiles are infinite; and so periodic, which a lattice rule needs.
    y = 1 - x
    u, rest = (t.pow(3) * (10 - 15 * t + 6 * t * t) for t in (x, y))
    w = w * (x * y).square().prod(-1)
    return u.log(), rest.log(), (w / w.sum()).log()
