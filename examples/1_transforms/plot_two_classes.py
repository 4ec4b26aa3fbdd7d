r"""
What does alpha do to two classes?
==================================

With two classes a map is one curve: the probability of the first by its lead in score. The entropy that it maximises,
the curve, and the loss that belongs to both change together.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# Tsallis entropies :math:`-\Omega_\alpha(p, 1 - p)`. Shannon's (alpha = 1) has a slope without bound at both ends: no
# score is high enough for a probability of 1. All alphas above 1 have a finite slope there, and reach it.

p = torch.linspace(0, 1, 401, dtype=torch.float64)
lead = torch.linspace(-3.5, 3.5, 701, dtype=torch.float64)
pairs, scores = torch.stack([p, 1 - p], -1), torch.stack([lead, torch.zeros_like(lead)], -1)
target = torch.tensor([1.0, 0.0], dtype=torch.float64).expand_as(scores)
alphas = (1.0, 1.25, 1.5, 2.0, 4.0)

# %%
# The maps: a sigmoid at alpha = 1, a straight line that is cut off at alpha = 2, a step as alpha grows. The lead from
# which on the probability is 1, the margin, is :math:`1 / (\alpha - 1)`; there the loss becomes 0 and stays 0.

for alpha in alphas[1:]:
    omega = omegamax.Tsallis(alpha)
    print(f"alpha = {alpha:g}: probability 1 from a lead of {omega.margin:.3g}")

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.4, 2.8))
    shades = plt.get_cmap("viridis")(torch.linspace(0, 0.86, len(alphas)).numpy())
    for alpha, shade in zip(alphas, shades, strict=True):
        omega = omegamax.Tsallis(alpha)
        axes[0].plot(p, -omega(pairs), color=shade, label=f"alpha = {alpha:g}")
        axes[1].plot(lead, omega.argmax(scores)[:, 0], color=shade)
        axes[2].plot(lead, omegamax.fenchel_young_loss(scores, target, omega, reduction="none"), color=shade)
        if omega.margin < 4:
            axes[2].plot(omega.margin, 0, "o", ms=5, color=shade, clip_on=False, zorder=3)
    axes[0].set(title="entropy", xlabel="probability of the first class", ylim=(0, 1.2))
    axes[0].legend(fontsize=8, ncols=2, loc="upper left")
    axes[1].set(title="map", xlabel="lead of the first class", ylabel="its probability")
    axes[2].set(title="loss, if the first class is right", xlabel="lead of the first class", ylim=(0, 3.5))
plt.show()
