r"""
Can a memory return a whole scene?
==================================

Patterns that come in an order, such as the frames of a film, are wanted several at a time and next to each other. The
map decides: subsets of k patterns, with or without a score for neighbours.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import KSubsets, SequentialKSubsets, Tsallis, viz
from omegamax.hopfield import Memory

# %%
# Forty frames that change from scene to scene, and a query: the third scene, seen through noise.

generator = torch.Generator().manual_seed(0)
frames, features = 40, 32
scene = torch.randn(8, features, dtype=torch.float64, generator=generator).repeat_interleave(5, 0)
patterns = 0.6 * scene + torch.randn(frames, features, dtype=torch.float64, generator=generator)
patterns = patterns / patterns.norm(dim=-1, keepdim=True)
wanted = slice(10, 15)
noise = 0.5 * torch.randn(features, dtype=torch.float64, generator=generator)
query = (patterns[wanted].sum(0) / 2 + noise)[None]

# %%
# Sparsemax ends in a single frame. 5-subsets return five frames, of which one is a stranger that happens to be alike.
# A score for each pair of neighbours makes them one run, and it is the scene.

beta = 4.0
omegas = {
    "sparsemax": ("sparsemax", Tsallis(2.0)),
    "5-subsets": ("k_subsets", KSubsets(5)),
    "5-subsets, neighbours preferred": ("sequential_k_subsets", SequentialKSubsets(5, 0.5)),
}
with viz.style():
    figure, axes = viz.panels(3, 1, size=(8.4, 1.5), share=True)
    for ax, (name, (colour, omega)) in zip(axes, omegas.items(), strict=True):
        weights = Memory(patterns, omega, beta).retrieve(query, steps=100, record=False).weights[0]
        kept = (weights > 0).nonzero()[:, 0].tolist()
        print(f"{name}: frames {kept}")
        ax.axvspan(wanted.start - 0.5, wanted.stop - 0.5, color="#e4e8ec", linewidth=0)
        ax.bar(range(frames), weights.tolist(), width=0.8, color=viz.colour(colour))
        ax.set(title=name, ylim=(0, 1.05), ylabel="weight")
    axes[0].text(wanted.stop - 0.2, 0.86, "the scene asked for", fontsize=9, color="#52606d")
    axes[-1].set_xlabel("frame")
plt.show()
