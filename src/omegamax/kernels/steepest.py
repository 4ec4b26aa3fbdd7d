r"""Nodes on the path of steepest descent, for the contour integral behind every compact beta-Gaussian.

With ``a_i`` and ``b_i`` the variances and squared means of independent Gaussians ``U_i``, and ``M = 1/(alpha-1) + 1``,

.. math:: E\bigl[(1 - |U|^2)_+^{M-1}\bigr] = \frac{\Gamma(M)}{2 \pi i} \int
          \exp\Bigl(s - M \log s - \sum_i \tfrac12 \log(1 + 2 a_i s) + \frac{b_i s}{1 + 2 a_i s}\Bigr) ds

over any path that goes round the negative axis. On the positive axis the exponent is convex, with its minimum at
``s0``. Written as a function of ``zeta = s / s0 - 1`` and measured from there, it is

.. math:: K(\zeta) = M \ell(\zeta) + \sum_i \tfrac12 \ell(g_i \zeta) + \frac{\gamma_i \zeta^2}{1 + g_i \zeta},
          \qquad \ell(y) = y - \log(1 + y), \quad 0 < g_i < 1, \quad \gamma_i \ge 0.

The path on which ``K = -x^2 / 2`` turns the integrand into a bell in x, whatever the parameters: no narrow basis
function, no far one and no thin ellipsoid is a special case, and the trapezoidal rule needs the same few nodes for all.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

# Spacing and number of nodes in x: at the last one the bell is 4e-16.
STEP = 0.3
NODES = 28
_SADDLE_STEPS = 14
_NEWTON_STEPS = 2


def saddle(size: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``s0``, where the exponent is least on the positive axis. ``size`` is M ``[*]``; ``a, b: [*, n]``."""
    # The derivative is increasing and concave: Newton's method from the left stays on the left. Each term alone
    # gives a bound from the left.
    s = torch.maximum(size, ((b.sqrt() - 1) / (2 * a)).amax(-1))
    for _ in range(_SADDLE_STEPS):
        w = 1 + 2 * a * s.unsqueeze(-1)
        slope = 1 - size / s - ((a + b / w) / w).sum(-1)
        s = s - slope / (size / s.square() + ((2 * a + 4 * b / w) * (a / w.square())).sum(-1))
    return s


def steepest(size: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``s0 [*]``, then the nodes ``zeta`` and their weights ``[*, NODES]``, complex.

    The sum over the nodes of ``(f(s) * weight).real`` is the integral of ``f(s) ds / (2 pi i)`` with
    ``s = s0 (1 + zeta)``; the other half of the path is the mirror image.
    """
    s0 = saddle(size, a, b)
    w0 = 1 + 2 * a * s0.unsqueeze(-1)
    g = 1 - 1 / w0
    gamma = b * s0.unsqueeze(-1) / w0.square() * g
    curvature = size + (g.square() / 2 + 2 * gamma).sum(-1)
    skew = (-2 * size - (g.pow(3) + 6 * gamma * g).sum(-1)) / (6 * curvature)

    def gain(zeta: Tensor) -> tuple[Tensor, Tensor]:
        """``K`` and its derivative."""
        z = zeta.unsqueeze(-1)
        gz = g * z
        y = 1 + gz
        k = size * _excess(zeta) + (_excess(gz) / 2 + gamma * z.square() / y).sum(-1)
        slope = size / (1 + zeta) + (g.square() / (2 * y) + gamma * (1 + y) / y.square()).sum(-1)
        return k, slope * zeta

    nodes: list[Tensor] = []
    rates: list[Tensor] = []
    for i in range(NODES):
        x = (i + 0.5) * STEP
        steps = _NEWTON_STEPS
        if i < 2:
            height = x * curvature.rsqrt()
            zeta = torch.complex(skew * height.square(), height)
            steps += 3
        else:  # the cubic through the last two nodes with their slopes, carried on
            zeta = 5 * nodes[-2] - 4 * nodes[-1] + STEP * (4 * rates[-1] + 2 * rates[-2])
        for _ in range(steps):
            k, slope = gain(zeta)
            zeta = zeta - (k + x * x / 2) / slope
        nodes.append(zeta)
        rates.append(-x / gain(zeta)[1])
    weight = torch.stack(rates, -1) * (s0 * (STEP / torch.pi)).unsqueeze(-1) / 1j
    return s0, torch.stack(nodes, -1), weight


def contour(size: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``s0`` and sums over the path, ``[*, 3 + 2n + n (n - 1) / 2]``; ``size`` is M ``[*]``; ``a, b: [*, n]``.

    With ``r_i = 1 / (1 + 2 a_i s)`` and the integrand in units of its value at ``s0``: the integral itself, then with
    the factors ``log s``, ``s r_i``, ``(s r_i)^2`` and ``s r_i r_j`` for i < j. Its derivatives are made of these.
    """
    s0, zeta, weight = steepest(size, a, b)
    x = (torch.arange(NODES).to(size) + 0.5) * STEP
    # On the path the integrand is a bell in x: nothing to evaluate.
    weight = weight * (-x.square() / 2).exp()
    s = s0.unsqueeze(-1) * (1 + zeta)
    rates = [1 / (1 + 2 * a_i.unsqueeze(-1) * s) for a_i in a.unbind(-1)]
    factors = [s.log(), *(s * r for r in rates), *((s * r).square() for r in rates)]
    factors += [s * r * q for r, q in itertools.combinations(rates, 2)]
    sums = [weight.real.sum(-1), *((weight * f).real.sum(-1) for f in factors)]
    return torch.stack([s0, *sums], -1)


def _excess(y: Tensor) -> Tensor:
    return y - torch.log1p(y)
