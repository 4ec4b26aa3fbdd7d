"""
Where does a query end?
=======================

Six patterns in the plane, and every point of it a query. A step replaces the query by a weighted sum of patterns, until
nothing moves. Which patterns those are depends on the map that makes the weights.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import KSubsets, NormEntropy, Tsallis, viz
from omegamax.hopfield import Memory, separation, threshold

# %%
# The patterns lie around a circle, two of them close to each other.

degrees = torch.tensor([12.0, 58.0, 92.0, 160.0, 225.0, 300.0], dtype=torch.float64)
length = torch.tensor([1.0, 0.95, 1.05, 0.9, 1.1, 1.0], dtype=torch.float64)
patterns = length[:, None] * torch.stack([degrees.deg2rad().cos(), degrees.deg2rad().sin()], -1)
print("separations:", [round(d, 2) for d in separation(patterns).tolist()])

# %%
# A grid of queries, and a few to follow on their way. Above, entmax: from softmax (alpha 1), whose few attractors are
# averages, to larger alphas, with which single patterns win. A pattern is a fixed point just where its separation is at
# least the margin over beta, and the margin falls with alpha. Below, normmax: its margin is 1 whatever alpha is, and
# larger alphas turn what lies between patterns into equal shares. The last panel, wider, retrieves pairs: sums of two
# patterns. Hatched is what ends between patterns, at a cross.

beta, reach, points = 3.0, 1.5, 101
axis = torch.linspace(-reach, reach, points, dtype=torch.float64)
queries = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).reshape(-1, 2)
turn = torch.arange(18, dtype=torch.float64) * (2 * torch.pi / 18) + 0.1
followed = 1.35 * torch.stack([turn.cos(), turn.sin()], -1)
followed = torch.cat([followed, 0.25 * followed[::3]])

omegas = {
    "entmax, alpha = 1 (softmax)": Tsallis(1.0),
    "entmax, alpha = 1.5": Tsallis(1.5),
    "entmax, alpha = 2 (sparsemax)": Tsallis(2.0),
    "entmax, alpha = 4": Tsallis(4.0),
    "normmax, alpha = 1.5": NormEntropy(1.5),
    "normmax, alpha = 2": NormEntropy(2.0),
    "normmax, alpha = 10": NormEntropy(10.0),
    "k-subsets, k = 2": KSubsets(2),
}

with viz.style():
    figure, axes = viz.panels(len(omegas), 4, size=(2.7, 2.9))
    for ax, (name, omega) in zip(axes, omegas.items(), strict=True):
        memory, pairs = Memory(patterns, omega, beta), omega.total == 2
        wide = 1.5 if pairs else 1.0  # sums of two are longer
        found = memory.retrieve(wide * queries, steps=500, record=False)
        if not pairs:
            fixed = int((separation(patterns) >= threshold(omega, beta)).sum())
            alone = (found.weights.amax(-1) > 0.999).double().mean()
            print(f"{name}: {fixed} patterns are fixed points, {alone:.0%} of the queries end in one")
        viz.basins(
            found.weights.reshape(points, points, -1),
            patterns,
            tuple(wide * edge for edge in (-reach, reach, -reach, reach)),
            states=found.state,
            trajectories=memory.retrieve(wide * followed, steps=100).trajectory,
            title=name,
            ax=ax,
        )
plt.show()
