r"""
Which way is down?
==================

A memory is a landscape: stored patterns lie in hollows, and a query rolls downhill. Each step of
:math:`q \leftarrow X^\top \hat p(\beta X q)` lowers the energy, whatever the map.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.hopfield import Memory

# %%
# Five patterns in the plane, and queries to follow from the rim.

degrees = torch.tensor([20.0, 75.0, 150.0, 215.0, 290.0], dtype=torch.float64)
patterns = torch.stack([degrees.deg2rad().cos(), degrees.deg2rad().sin()], -1)
axis = torch.linspace(-1.5, 1.5, 181, dtype=torch.float64)
plane = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
turn = torch.arange(14, dtype=torch.float64) * (2 * torch.pi / 14) + 0.15
queries = 1.4 * torch.stack([turn.cos(), turn.sin()], -1)

# %%
# With softmax and a small beta all hollows are one, in the middle. A larger beta gives each pattern its own, not quite
# where the pattern is, and two that are close share one. With sparsemax the bottom is the pattern itself, and retrieval
# ends there exactly; with normmax a query that two patterns are equally near to may stay half-way between them.

memories = {
    "softmax, beta = 1": Memory(patterns, "softmax", 1.0),
    "softmax, beta = 5": Memory(patterns, "softmax", 5.0),
    "sparsemax, beta = 5": Memory(patterns, "sparsemax", 5.0),
    "normmax (alpha 5), beta = 5": Memory(patterns, omegamax.NormEntropy(5.0), 5.0),
}

with viz.style():
    figure, axes = viz.panels(4, 4, size=(2.9, 3.1))
    for ax, (name, memory) in zip(axes, memories.items(), strict=True):
        energy = memory.energy(plane.reshape(-1, 2)).reshape(plane.shape[:-1])
        found = memory.retrieve(queries, steps=200)
        lowest = (found.state[:, None] - patterns).norm(dim=-1).amin(-1)
        fell = bool((found.energies.diff(dim=0) <= 1e-12).all())
        exact = int((lowest < 1e-9).sum())
        print(f"{name}: energy never rises: {fell}; {exact} of {len(queries)} queries end exactly in a pattern")
        low = energy.min()
        levels = low + (energy.max() - low) * torch.linspace(0, 1, 24, dtype=torch.float64) ** 2
        ax.contourf(axis, axis, energy, levels=levels.tolist(), cmap="Blues_r")
        ax.contour(axis, axis, energy, levels=levels.tolist(), colors="white", linewidths=0.4)
        for way in found.trajectory.unbind(1):
            ax.plot(*way.T, "-", color="#d1495b", lw=1.1)
        ax.plot(*queries.T, ".", color="#d1495b", ms=5)
        ax.plot(*patterns.T, "o", ms=8, mfc="white", mec="#1f2933")
        ax.plot(*found.state.T, "x", color="#1f2933", ms=6, mew=1.6)
        ax.set(title=name, aspect="equal", xticks=[], yticks=[], xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
plt.show()
