"""
One, two, three or four?
========================

The same map of attention weights, fitted with one to four Gaussians. More components always fit better; the criterion
says when the next is no longer worth its parameters.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian
from omegamax.mixtures import BIC, em_objective, select_components, weighted_em

# %%
# Three objects on a grid of 14 by 14 cells, one of them long, and some noise.

size = (14, 14)
x = grid_positions(size, dtype=torch.float64)
generator = torch.Generator().manual_seed(3)
centres = torch.tensor([[0.25, 0.3], [0.75, 0.25], [0.5, 0.78]], dtype=torch.float64)
widths = torch.tensor([[0.07, 0.07], [0.06, 0.1], [0.2, 0.06]], dtype=torch.float64)
weights = (-0.5 * ((x[:, None] - centres) / widths).square().sum(-1)).exp().sum(-1)
weights = weights / weights.sum() * 0.96 + 0.04 * torch.rand(len(x), generator=generator, dtype=torch.float64) / 98

# %%
# Each number from eight starts; of these the best counts. The log-likelihood grows with K, and BIC takes off what the
# parameters cost: the mean, the covariance and the weight of a component are six, at log m each for m points.

chosen = select_components(x, weights, 5, BIC(), restarts=8, iterations=80, generator=generator)
likelihood, fits = [], []
for k in range(1, 6):
    fit = weighted_em(x, weights, k, 80, "kmeans++", restarts=8, generator=generator)
    fits.append(fit)
    likelihood.append(em_objective(x, weights, fit).item())
    print(f"K = {k}: log-likelihood {likelihood[-1]:.3f} a unit of weight, BIC {chosen.scores[k - 1]:.1f}")
best = int(chosen.component_count)
print("chosen:", best)

with viz.style():
    figure, axes = viz.panels(5, 5, size=(2.4, 2.6))
    for k, (ax, fit) in enumerate(zip(axes[:4], fits, strict=False), 1):
        used = fit.weights > 0
        parts = BetaGaussian.from_moments(fit.components.mean[used], fit.components.covariance_matrix[used], 1.0)
        viz.ellipses(parts, image=weights.reshape(size), masses=(0.5, 0.9), cmap="Blues", ax=ax)
        ax.set_title(f"K = {k}{', chosen' if k == best else ''}")
    numbers = range(1, 6)
    axes[4].plot(numbers, chosen.scores, "o-", color="#1f2933", ms=5)
    axes[4].plot(best, chosen.scores[best - 1], "o", color="#d1495b", ms=9)
    axes[4].set(title="BIC, the smaller the better", xlabel="components K", xticks=list(numbers))
plt.show()
