"""
Temperature or alpha?
=====================

Both sharpen an answer. Do they do the same?
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# One vector of scores. Softmax is sharpened by dividing it by a temperature: the path runs from uniform to one-hot,
# and never meets a zero on the way.

z = torch.tensor([1.6, 1.2, 0.8, 0.2, -0.4, -1.0], dtype=torch.float64)
temperatures = torch.logspace(-1, 1, 161, dtype=torch.float64)
cooled = omegamax.softmax(z / temperatures[:, None])

# %%
# Entmax leaves the scores alone and turns alpha instead. Row by row, alpha goes from 1 (softmax) to 4: entries leave
# one by one, and those that stay are still told apart. Each row has its own alpha, so one call does it.

alphas = torch.linspace(1, 4, 151, dtype=torch.float64)
turned = omegamax.entmax(z.expand(151, -1), alpha=alphas[:, None])
print("support at alpha = 1, 2, 4:", [int((turned[i] > 0).sum()) for i in (0, 50, 150)])

# %%
# Sparsemax at a temperature does both: lines join the support one after another as it warms.

warmed = omegamax.sparsemax(z / temperatures[:, None])

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.4, 2.6))
    viz.path(temperatures, cooled, title="softmax, by temperature", ax=axes[0])
    viz.path(temperatures, warmed, title="sparsemax, by temperature", ax=axes[1])
    viz.path(alphas, turned, title="entmax, by alpha", ax=axes[2])
    axes[2].set_xscale("linear")
    for ax, label in zip(axes, ("temperature", "temperature", "alpha"), strict=True):
        ax.set_xlabel(label)
plt.show()
