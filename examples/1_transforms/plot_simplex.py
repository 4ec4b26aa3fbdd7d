"""
What does a map do to three scores?
===================================

Three scores that sum to one are a point of a plane, and the simplex is a triangle in it. Each map colours that plane.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# ``plane`` gives the scores of a lattice of points, and a map takes them all at once.

scores = viz.plane(200)

# %%
# Sparsemax is the projection onto the triangle: inside it nothing moves, and far out only a corner is left. A ceiling
# cuts the corners off; raising alpha rounds or sharpens the borders.

maps = {
    "softmax": omegamax.softmax(scores),
    "entmax, alpha 1.5": omegamax.entmax15(scores),
    "sparsemax": omegamax.sparsemax(scores),
    "entmax, alpha 4": omegamax.entmax(scores, alpha=4.0),
    "normmax, alpha 5": omegamax.normmax(scores, alpha=5.0),
    "sparsemax, at most 0.7": omegamax.constrained_sparsemax(scores, upper=0.7),
}
certain = {name: (p.amax(-1) == 1).to(torch.float64).mean().item() for name, p in maps.items()}
print({name: f"{share:.0%} certain" for name, share in certain.items()})

with viz.style():
    figure, axes = viz.panels(len(maps), 3, size=(2.8, 3.0))
    for ax, (name, p) in zip(axes, maps.items(), strict=True):
        viz.simplex(p, levels=4, title=name, ax=ax)
plt.show()
