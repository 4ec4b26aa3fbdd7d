r"""
Can a probability be exactly 0 or 1 by chance?
==============================================

Two choices :math:`(y, 1 - y)` are a point of an interval. A density over it never hits the ends; a truncated one does,
with a probability that can be told.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import mixed, viz

# %%
# Softmax of Gaussian noise stays inside however noisy it is. Sparsemax of the same noise is the rectified Gaussian, cut
# off at both ends: what lay beyond is mass at the ends. The hard concrete distribution stretches a concrete one and
# cuts it off. Of the mixed ones, ``log_prob`` is a density inside and a mass at the ends.

scores = torch.tensor([0.3, 0.0], dtype=torch.float64)
inside = torch.linspace(0, 1, 401, dtype=torch.float64)[1:-1]
points = torch.stack([inside, 1 - inside], -1)
ends = torch.eye(2, dtype=torch.float64)
distributions = {
    "logistic-normal": ("softmax", mixed.LogisticNormal(scores, scale=1.0)),
    "Gaussian-sparsemax": ("sparsemax", mixed.GaussianSparsemax(scores, scale=0.5)),
    "hard concrete": ("entmax15", mixed.HardConcrete(0.7, logits=scores, stretch=1.5)),
}

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.4, 2.7), share=True)
    for ax, (name, (colour, p)) in zip(axes, distributions.items(), strict=True):
        density, masses = p.log_prob(points).exp(), p.log_prob(ends).exp().tolist()
        # The measure of the edge is its length as y runs from 0 to 1.
        total = torch.trapezoid(density, inside).item() + sum(masses)
        print(f"{name}: y = 1 with {masses[0]:.3f}, y = 0 with {masses[1]:.3f}, all of it {total:.2f}")
        ax.fill_between(inside, density, color=viz.colour(colour), alpha=0.2, linewidth=0)
        ax.plot(inside, density, color=viz.colour(colour))
        for place, mass in zip((1, 0), masses, strict=True):
            if mass:
                ax.plot([place, place], [0, mass], color=viz.colour(colour), linewidth=3, clip_on=False)
                ax.plot(place, mass, "o", color=viz.colour(colour), clip_on=False)
                ax.text(abs(place - 0.05), mass + 0.06, f"{mass:.2f}", ha="right" if place else "left", fontsize=9)
        ax.set(title=name, xlabel="y", xlim=(0, 1), ylim=(0, None), xticks=[0, 0.5, 1])
    axes[0].set_ylabel("density, and mass at the ends")
plt.show()
