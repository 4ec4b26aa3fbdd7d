r"""
How many points does an expectation take?
=========================================

Continuous attention needs :math:`E_p[\psi_j(t)]` for every basis function. Under a compact density that is an integral
which seldom has a closed form, and common rules fail where the basis function is narrow or the density is steep.
"""

import math

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian, TruncatedParaboloid, product_nodes

generator = torch.Generator().manual_seed(0)


def uniform(*shape):
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def worst(value, truth):
    """The largest error of ``[B, J]`` expectations, against the largest of the J for the same density."""
    return ((value - truth).abs().amax(-1) / truth.amax(-1)).max().item()


# %%
# **The plane.** A hundred bumps with the variance 0.001 of the papers, and truncated paraboloids of every shape, with
# deviations from 0.02 to 0.5 along their axes.

count = 24
bumps = GaussianRBF.grid(10, 2, variance=0.001, dtype=torch.float64)
loc, turn, width = uniform(count, 2), 2 * math.pi * uniform(count), 0.02 * 25 ** uniform(count, 2)
axes = torch.stack([turn.cos(), -turn.sin(), turn.sin(), turn.cos()], -1).reshape(count, 2, 2)
paraboloids = TruncatedParaboloid.from_moments(loc, axes * width.square().unsqueeze(-2) @ axes.mT)

# %%
# The rule of the papers is polar: the radius in closed form, and a sum over I angles, 100 in their experiments.
# (Printed, its angles advance by 1/I; the step is 2 pi / I. And 0 and 2 pi are one angle, to be counted once.)


def polar(p, basis, angles):
    """Terms ``[B, J, angles]`` whose mean is the expectation: Martins et al. (NeurIPS 2020), eqs. 56 to 60."""
    inverse = torch.linalg.inv(p.support_tril).unsqueeze(-3)  # takes the support to the unit disk
    m = (inverse @ (basis.centers - p.loc.unsqueeze(-2)).unsqueeze(-1)).squeeze(-1)
    precision = torch.linalg.inv(inverse @ basis.covariance @ inverse.mT)
    theta = 2 * math.pi / angles * torch.arange(angles, dtype=torch.float64)
    a = torch.stack([theta.cos(), theta.sin()], -1)
    along = a @ precision
    s = (along * a).sum(-1).rsqrt()
    r0 = s.square() * (along @ m.unsqueeze(-1)).squeeze(-1)
    across = (m * (precision @ m.unsqueeze(-1)).squeeze(-1)).sum(-1, keepdim=True) - (r0 / s).square()
    scale = precision.det().sqrt().unsqueeze(-1) * s * torch.exp(-across / 2) / math.sqrt(2 * math.pi)
    start, end = -r0 / s, (1 - r0) / s
    bell_start, bell_end = (torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi) for x in (start, end))
    mass = (torch.erf(end / math.sqrt(2)) - torch.erf(start / math.sqrt(2))) / 2
    inner = s * (2 * s**2 + r0**2 + r0) * bell_end - s * (2 * s**2 + r0**2 - 1) * bell_start
    inner = inner - (r0**3 + (3 * s**2 - 1) * r0) * mass
    return math.pi * p.support_radius.square()[..., None, None] * scale * inner


# Every other angle of a rule is the rule with half as many: one evaluation serves all.
terms = polar(paraboloids, bumps, 800)
truth = terms.mean(-1)
plane = {"polar rule": {}, "0 and 2 pi both counted": {}}
for every in (32, 16, 8, 4, 2):
    once, twice = terms[..., ::every], torch.cat([terms[..., ::every], terms[..., :1]], -1)
    plane["polar rule"][once.shape[-1]] = worst(once.mean(-1), truth)
    plane["0 and 2 pi both counted"][twice.shape[-1]] = worst(twice.mean(-1), truth)

# %%
# Points that follow the density, radii times directions, work for any smooth basis; ``product_nodes`` gives them.
# And ``expect`` knows Gaussian bumps: it moves the integral to a path in the complex plane on which the integrand is a
# bell, whatever the bump and the density. In double precision 32 points do there, for every dimension and alpha > 1.


def by_points(p, basis, order):
    t, w = product_nodes(p, order)
    return torch.stack([w @ basis(points) for points in t])


plane["product rule"] = {2 * k * k: worst(by_points(paraboloids, bumps, k), truth) for k in (4, 8, 16, 32, 64)}
plane["expect"] = {32: worst(paraboloids.expect(bumps), truth)}
print({rule: {points: f"{e:.0e}" for points, e in row.items()} for rule, row in plane.items()})

# %%
# **The line.** Thirty bumps of the same variance, and the trapezoidal rule over the support. A larger alpha is steeper
# at the ends, and the rule gains less from more points. The truth is the product rule with 800 of them.

bumps = GaussianRBF.grid(30, 1, variance=0.001, dtype=torch.float64)
loc, width = uniform(count, 1), 0.02 * 25 ** uniform(count, 1)
line = {}
for alpha in (1.5, 2.0, 4.0):
    p = BetaGaussian.from_moments(loc, width.square().unsqueeze(-1), alpha=alpha)
    truth = by_points(p, bumps, 400)
    reach = p.support_tril.squeeze(-1)
    for points in (10, 30, 100, 300, 1000):
        t = loc + torch.linspace(-1, 1, points, dtype=torch.float64)[:, None, None] * reach
        value = (p.prob(t).unsqueeze(-1) * bumps(t)).sum(0) * 2 * reach / (points - 1)  # the ends have the density 0
        line.setdefault(f"trapezoid, alpha {alpha:g}", {})[points] = worst(value, truth)
    for order in (4, 8, 16, 32, 64, 128):
        row = line.setdefault("product rule", {})
        row[2 * order] = max(row.get(2 * order, 0), worst(by_points(p, bumps, order), truth))
    row = line.setdefault("expect", {32: 0.0})
    row[32] = max(row[32], worst(p.expect(bumps), truth))
print({rule: {points: f"{e:.0e}" for points, e in row.items()} for rule, row in line.items()})

# %%
# Below, the worst of the densities, as a share of the largest expectation. The other rules need the more points the
# wider a density is beside a bump.

with viz.style():
    figure, (left, right) = viz.panels(2, 2, size=(5.3, 3.9))
    red, pink, blue, teal = viz.colour("sparsemax"), "#e0929d", viz.colour("entmax15"), viz.colour("entmax")
    for ax, rows in ((left, plane), (right, line)):
        for rule, row in rows.items():
            shade = {"polar rule": red, "trapezoid, alpha 4": red, "product rule": blue, "expect": teal}.get(rule, pink)
            last, low = list(row.items())[-1]
            if rule == "expect":
                ax.plot(last, low, "*", ms=15, color=shade)
            else:
                ax.plot(list(row), list(row.values()), "o-", ms=4, color=shade)
            text, place = ("0 and 2 pi\nboth counted", (-6, -28)) if rule.startswith("0") else (rule, (9, -3))
            ax.annotate(text, (last, low), place, textcoords="offset points", color=shade, fontweight="bold")
        ax.set(xscale="log", yscale="log", xlim=(6, 1e5), ylim=(1e-15, 3e1), xlabel="evaluations for each bump")
        ax.grid(axis="y", color="#eef0f3")
    arrow = dict(arrowstyle="-", color=red, shrinkB=5)
    left.annotate("the papers'\n100 angles", (100, plane["polar rule"][100]), (12, 1e-6), arrowprops=arrow, color=red)
    left.set(title="the plane, alpha 2", ylabel="worst error")
    right.set_title("the line, alpha 1.5, 2 and 4")
plt.show()
