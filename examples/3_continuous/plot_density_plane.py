"""
What does a density look like in the plane?
===========================================

Over an image the score is a quadratic form, and its levels are ellipses. Softmax makes a Gaussian of it, which is
nowhere 0; entmax with a larger alpha ends at an ellipse.
"""

import math

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.densities import Biweight, Gaussian, TruncatedParaboloid

# %%
# Three members of the family with the same mean and the same covariance. Above, slices one behind the other: a slice is
# grey where the density is exactly 0. Below, the lines that enclose 25, 50, 75 and 95% of the mass; the thick one
# encloses all of it, and the Gaussian has none.

members = {"softmax": Gaussian, "entmax15": Biweight, "sparsemax": TruncatedParaboloid}
centre = torch.zeros(2, dtype=torch.float64)
covariance = torch.tensor([[1.0, 0.45], [0.45, 0.7]], dtype=torch.float64)
x = torch.linspace(-3, 3, 500, dtype=torch.float64)
y = torch.linspace(2.4, -2.4, 33, dtype=torch.float64)
lattice = torch.stack([x.expand(33, -1), y[:, None].expand(-1, 500)], -1)

with viz.style():
    figure, axes = viz.panels(6, 3, size=(3.5, 2.8))
    for above, below, (name, member) in zip(axes[:3], axes[3:], members.items(), strict=True):
        p = member.from_moments(centre, covariance)
        for order, (base, height) in enumerate(zip(y, p.prob(lattice), strict=True)):
            ridge = base + 12 * height
            above.fill_between(x, ridge, base - 0.2, color="white", linewidth=0, zorder=order)  # hides what is behind
            above.plot(x, ridge.where(height == 0, math.nan), color="#d9dee4", linewidth=0.7, zorder=order)
            above.plot(x, ridge.where(height > 0, math.nan), color=viz.colour(name), linewidth=1.1, zorder=order)
        above.set(xlim=(-3, 3), ylim=(-2.6, 3.4), title=f"{member.__name__}, alpha {p.alpha:g}")
        above.set_axis_off()
        viz.ellipses(p, frame=(-3, 3, -2.5, 2.5), colour=viz.colour(name), ax=below)
        below.invert_yaxis()
plt.show()
