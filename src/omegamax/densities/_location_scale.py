"""Continuous sparsemax of any score that falls off symmetrically and convexly: the location-scale families."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_number
from omegamax._checks import is_plain, readable
from omegamax.densities._grid import GridDensity
from omegamax.densities._line import LineDensity

Function = Callable[[Tensor], Tensor]
_NODES = 64


class LocationScale(LineDensity):
    r"""Density over the line for the score :math:`f(t) = -\tfrac1\sigma g'(|t - \mu| / \sigma)` with a convex g.

    .. math:: p(t) = \tfrac1\sigma \bigl[g'(a) - g'(|t - \mu| / \sigma)\bigr]_+, \qquad
              a g'(a) - g(a) + g(0) = \tfrac12

    It is the continuous sparsemax (alpha = 2) of that score. Here :math:`\sigma` is a true scale:
    :math:`g(s) = s^3/6` is the truncated parabola whose score has the variance :math:`\sigma^3`, and
    :math:`g(s) = s^2/2` the triangular density with :math:`b = \sigma^2`.

    Args:
        g: convex and smooth for s > 0 (moments and entropies are integrals by a rule of 64 nodes); takes a tensor and
            acts on each element with torch operations. Tensors that it closes over must broadcast to ``[*, 1]``, and
            gradients reach them.
        loc: :math:`\mu`, ``[*, 1]``.
        scale: :math:`\sigma > 0`, ``[*, 1]`` or a number.

        >>> density = LocationScale(lambda s: s.cosh(), torch.zeros(1), 1.0)
        >>> density.prob(torch.tensor([[0.0], [0.5], [2.0]]))
        tensor([1.0367, 0.5156, 0.0000])
        >>> density.support_radius
        tensor(0.9071)

    Reference: Martins et al. (NeurIPS 2020), Eq. 13 and App. E.4. The condition given there, that g be strongly
    convex, is sufficient; what counts is that the equation for ``a`` has a solution.
    """

    def __init__(self, g: Function, loc: Tensor, scale: float | Tensor, validate_args: bool | None = None):
        if not callable(g):
            raise TypeError(f"LocationScale: g must be a function of a tensor, got {type(g).__name__}")
        super().__init__(loc, scale, 2.0, validate_args)
        self.g = g
        self._edge = _solve_edge(g, self.loc)
        self._top = _slope(g, self._edge)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.g = self.g
        new._edge, new._top = self._edge.expand_as(new.loc), self._top.expand_as(new.loc)
        return new

    def escort(self, beta: float | Tensor) -> GridDensity:
        r"""Return the density proportional to :math:`p^\beta`, on a grid of 64 nodes on each side of the peak.

        ``prob`` is exact between the nodes; moments, entropies and expectations are sums over them. At beta = 0, which
        is 2 - alpha, it is uniform on the support.

        Args:
            beta: at least 0; a number or a tensor ``[*]``. Gradients reach it.

            >>> p = LocationScale(lambda s: s**2 / 2, torch.zeros(1), 2.0)  # triangular, on [-2, 2]
            >>> p.escort(0.0).prob(torch.tensor([[0.0], [1.5], [2.5]])), p.escort(2.0).prob(torch.zeros(1))
            (tensor([0.2500, 0.2500, 0.0000]), tensor(0.7500))

        Reference: Martins et al. (NeurIPS 2020), Eq. 5.
        """
        _check_power("LocationScale.escort", beta)
        nodes, weights = self.quadrature()
        grid = GridDensity.from_function(self.log_prob, nodes, weights, 1.0, self.batch_shape, False)
        return grid.escort(beta)

    def quadrature(self) -> tuple[Tensor, Tensor]:
        """Return points of the support, ``[*, Q, 1]`` in ascending order, and weights ``[*, Q]`` for integrals over it.

        They are close together at the ends and at the peak, where powers of the density need not be smooth.
        """
        x, w = (self.loc.new_tensor(v) for v in _rule())
        x, w = torch.cat([-x.flip(0), x]), torch.cat([w.flip(0), w])
        radius = self.scale * self._edge
        return (self.loc + radius * x).unsqueeze(-1), radius * w

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def covariance_matrix(self) -> Tensor:
        return (self.scale.square() * self._integral(lambda s, h: s.square() * h)).unsqueeze(-1)

    @property
    def support_radius(self) -> Tensor:
        r"""Return half the width :math:`\sigma a` of the support, ``[*]``."""
        return (self.scale * self._edge).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        height = self._height((value - self.loc).abs() / self.scale)
        inside = ~(height <= 0)  # a NaN counts as inside, and stays one
        log_p = torch.where(inside, height, 1.0).log() - self.scale.log()
        return torch.where(inside, log_p, -torch.inf).squeeze(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return mass to the left of points ``[*, 1]``, ``[*]``."""
        self._check(value)
        x = (value - self.loc) / self.scale
        inside = ~(x.abs() >= self._edge)
        half = torch.where(inside, self._mass(torch.where(inside, x.abs(), 0.0)), 0.5)
        return torch.where(x < 0, 0.5 - half, 0.5 + half).squeeze(-1)

    def entropy(self) -> Tensor:
        logarithm = self._integral(lambda s, h: h * torch.where(h > 0, h, 1.0).log())
        return (self.scale.log() - logarithm).squeeze(-1)

    def tsallis_entropy(self) -> Tensor:
        r"""Return half the Gini-Simpson index, :math:`\tfrac12 (1 - \int p^2)`, ``[*]``."""
        return (0.5 * (1 - self._integral(lambda s, h: h.square()) / self.scale)).squeeze(-1)

    def _height(self, s: Tensor) -> Tensor:
        """Return ``[g'(a) - g'(s)]_+``, with zero gradient beyond the edge and at the peak."""
        inside = ~(s >= self._edge)
        # At s = 0 the second derivative may be infinite (s^1.5); the clamp stops it before it meets a sign of zero.
        s = torch.where(inside, s, 0.0).clamp(min=torch.finfo(s.dtype).tiny)
        return torch.where(inside, (self._top - _slope(self.g, s)).clamp(min=0), 0.0)

    def _mass(self, s: Tensor) -> Tensor:
        """Return the mass between the peak and s <= a; 1/2 at a."""
        return s * self._top - (self.g(s) - self.g(torch.zeros_like(s)))

    def _integral(self, integrand: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Integrate a function of ``s`` and the density ``h(s)`` at scale one over the support; ``[*, 1]``."""
        column = (_NODES,) + (1,) * self.loc.dim()
        nodes, weights = (self.loc.new_tensor(v).reshape(column) for v in _rule())
        s = self._edge * nodes
        return 2 * (self._edge * weights * integrand(s, self._height(s))).sum(0)

    def _at(self, tail: Tensor, sign: Tensor) -> Tensor:
        with torch.no_grad():
            # The mass beyond s is convex and, near the edge, quadratic; its square root is nearly a straight line.
            goal, edge = tail.detach().sqrt(), self._edge.detach()
            low, high = torch.zeros_like(tail), edge.expand_as(tail)
            s = edge * (1 - goal)
            for _ in range(60):
                beyond = (1 - 2 * self._mass(s)).clamp(min=0).sqrt()
                missing = (beyond - goal) * beyond
                if is_plain(s) and bool((missing.abs() <= 2 * torch.finfo(s.dtype).eps).all()):
                    break
                low, high = torch.where(beyond > goal, s, low), torch.where(beyond > goal, high, s)
                moved = s + missing / self._height(s)
                s = torch.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
        goal = 0.5 * (1 - tail)
        height = self._height(s)
        if not is_plain(s) or height.requires_grad or goal.requires_grad:
            for _ in range(2):  # Newton at the solution gives it gradients: one step the first order, two the second
                height = torch.where(height > 0, height, torch.inf)
                s = s - (self._mass(s) - goal) / height
                height = self._height(s)
        return self.loc + self.scale * sign * s


def _check_power(name: str, beta: float | Tensor) -> None:
    """Refuse a power at which the rule would meet an infinite value at the end of the support."""
    if not isinstance(beta, Tensor):
        check_number(name, "beta", beta, least=0)
    elif readable(beta) and not bool((beta >= 0).all()):
        raise ValueError(f"{name}: beta must be >= 0 everywhere, got a minimum of {beta.min().item():g}")


def _slope(g: Function, s: Tensor) -> Tensor:
    """Return g' at each element, itself differentiable in s and in what g holds."""
    return torch.func.grad(lambda s: g(s).sum())(s)


def _solve_edge(g: Function, loc: Tensor) -> Tensor:
    """Return the root a of ``a g'(a) - g(a) + g(0) = 1/2``, ``[*, 1]``, with gradients to what g holds."""
    start = torch.ones_like(loc, dtype=torch.float64)
    given = g(start)
    if given.shape != start.shape:
        raise ValueError(
            f"LocationScale: g must keep the shape {tuple(start.shape)} of loc and scale, got {tuple(given.shape)}"
        )

    def excess(a: Tensor) -> Tensor:
        return a * _slope(g, a) - (g(a) - g(torch.zeros_like(a))) - 0.5

    def slope(a: Tensor) -> Tensor:  # a g''(a)
        return a * torch.func.grad(lambda a: _slope(g, a).sum())(a)

    plain = is_plain(start)
    with torch.no_grad():
        low, high = start, start.clone()
        for _ in range(64):  # an interval from a power of two to the next
            short, long = excess(high) < 0, ~(excess(low) < 0)
            high, low = torch.where(short, 2 * high, high), torch.where(long, low / 2, low)
            if plain and not bool((short | long).any()):
                break
        if readable(high) and bool((excess(high) < 0).any()):
            raise ValueError("LocationScale: g must be so convex that a g'(a) - g(a) + g(0) reaches 1/2 for some a > 0")
        a = (low + high) / 2
        for _ in range(60):
            value = excess(a)
            low, high = torch.where(value < 0, a, low), torch.where(value < 0, high, a)
            moved = a - value / slope(a)
            moved = torch.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
            done = (moved - a).abs() <= 1e-9 * a  # the next step would be of the order of its square
            a = moved
            if plain and bool(done.all()):
                break
    if not plain or excess(a).requires_grad:
        for _ in range(2):  # as in _at
            a = a - excess(a) / slope(a)
    return a.to(loc.dtype)


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights on [0, 1] after ``s = x^3 (10 - 15 x + 6 x^2)``.

    The substitution is flat at both ends, where h log h has a logarithm and g' may be a power.
    """
    x, w = np.polynomial.legendre.leggauss(_NODES)
    x, w = (1 + x) / 2, w / 2
    return x**3 * (10 - 15 * x + 6 * x * x), w * 30 * (x * (1 - x)) ** 2
