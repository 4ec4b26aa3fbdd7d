r"""
What does alpha do to a density?
================================

Softmax over a line, with a quadratic score, is the Gaussian. The same score under entmax gives a whole family, from
heavy tails to a box.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.densities import BetaGaussian, Laplace, Triangular

# %%
# The score is :math:`-\tfrac12 (t - \mu)^2 / \sigma^2`. Below alpha = 1 the tails are those of Student's t; above, the
# support is an interval, and hollow dots mark its ends. With one and the same score, a larger alpha reaches less far.

alphas = {0.5: "Student's t", 1: "Gaussian", 1.5: "biweight", 2: "truncated parabola", 4: "", 32: "almost a box"}
origin = torch.zeros(1, dtype=torch.float64)
same_score = {alpha: BetaGaussian(origin, 1.0, alpha=alpha) for alpha in alphas}
print("ends, same score:   ", {a: round(p.support_tril.item(), 2) for a, p in same_score.items()})

# %%
# To compare shapes, ``from_moments`` finds the score that gives a variance of 1. In the limit of a box the support ends
# at the square root of 3.

same_variance = {alpha: BetaGaussian.from_moments(origin, 1.0, alpha=alpha) for alpha in alphas}
print("ends, same variance:", {a: round(p.support_tril.item(), 2) for a, p in same_variance.items()})

# %%
# A score that falls linearly, :math:`-|t - \mu| / b`, gives Laplace's density, and a triangle under sparsemax.

corners = {"Laplace": Laplace.from_moments(origin, 1.0), "triangular": Triangular.from_moments(origin, 1.0)}

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.5, 3.1))
    shades = plt.get_cmap("viridis")([0.0, 0.2, 0.4, 0.58, 0.75, 0.9])
    for ax, family in zip(axes, (same_score, same_variance), strict=False):
        for (alpha, p), shade in zip(family.items(), shades, strict=True):
            viz.density(p, -3.3, 3.3, fill=0, colour=shade, label=f"{alpha:g}  {alphas[alpha]}", ax=ax)
    for (label, p), name, alpha in zip(corners.items(), ("softmax", "sparsemax"), (1, 2), strict=True):
        viz.density(p, -3.3, 3.3, colour=viz.colour(name), label=f"{alpha:g}  {label}", ax=axes[2])
    for ax, title in zip(axes, ("same score", "same variance", "linear score, same variance"), strict=True):
        ax.set(title=title, xticks=range(-3, 4))
    axes[2].legend(title="alpha", alignment="left", handlelength=1.2)
    key = dict(title="alpha", alignment="left", ncols=len(alphas), handlelength=1.2, columnspacing=1.6, fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", **key)
plt.show()
