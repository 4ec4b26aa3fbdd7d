"""
Which roads are worth building?
===============================

Towns on a plain, and the roads that could be built. A network that reaches every town without a circle is a spanning
tree; its map gives each road a probability, most of them exactly 0.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.tri import Triangulation

from omegamax import viz
from omegamax.structured import SpanningTree, sparsemap

# %%
# Scores fall with the length of a road. A road is drawn as thick as it is probable, and grey if not at all. The larger
# the scores, the fewer trees share the probability; at last it is the shortest one alone.

grid = torch.cartesian_prod(torch.arange(7.0), torch.arange(4.0))
noise = torch.randn(28, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
towns = grid.double() + 0.28 * noise
roads = torch.from_numpy(Triangulation(*towns.T.numpy()).edges).T.long()  # [2, E]
length = (towns[roads[0]] - towns[roads[1]]).norm(dim=-1)
with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.6, 2.5))
    for ax, scale in zip(axes, (0.5, 2, 100), strict=True):
        marginals, found = sparsemap(-scale * length, SpanningTree(roads), return_structures=True)
        for (a, b), p in zip(roads.T.tolist(), marginals.tolist(), strict=True):
            if p > 0:
                ax.plot(*towns[[a, b]].T, color="#2176ae", linewidth=0.4 + 3 * p, alpha=0.25 + 0.75 * p)
            else:
                ax.plot(*towns[[a, b]].T, color="#d9dee4", linewidth=0.6, zorder=0)
        ax.plot(*towns.T, "o", ms=5, mfc="white", mec="#1f2933")
        ax.set_aspect(1)
        ax.set_axis_off()
        trees, used = int(found.count), int((marginals > 0).sum())
        ax.set_title(f"scores x {scale}: {trees} tree{'s' * (trees > 1)}, {used} of {len(length)} roads")
plt.show()
