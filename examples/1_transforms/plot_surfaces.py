"""
What does the first probability look like?
==========================================

Three scores, of which the third is 0: the probability of the first is a surface over the first and the second.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# Softmax is smooth and never flat. Sparsemax is made of planes: at 0 below, at 1 above, and with few slopes between
# them. At alpha = 1.5 the pieces join without an edge. Far out all are alike: they follow the largest score.

axis = torch.linspace(-3, 3, 61, dtype=torch.float64)
first, second = torch.meshgrid(axis, axis, indexing="ij")
scores = torch.stack([first, second, torch.zeros_like(first)], -1)
surfaces = {
    "softmax": ("softmax", omegamax.softmax(scores)),
    "1.5-entmax": ("entmax15", omegamax.entmax15(scores)),
    "sparsemax": ("sparsemax", omegamax.sparsemax(scores)),
}
for name, (_, p) in surfaces.items():
    flat = ((p[..., 0] == 0) | (p[..., 0] == 1)).double().mean().item()
    print(f"{name}: exactly 0 or 1 on {flat:.0%} of the square")

with viz.style():
    figure = plt.figure(figsize=(11, 3.7))
    for column, (name, (colour, p)) in enumerate(surfaces.items()):
        ax = figure.add_axes((0.005 + column / 3, 0.02, 0.32, 0.9), projection="3d")
        look = dict(rstride=3, cstride=3, color=viz.colour(colour), edgecolor="white", linewidth=0.4, shade=False)
        ax.plot_surface(first.numpy(), second.numpy(), p[..., 0].numpy(), **look)
        ax.view_init(elev=26, azim=-128)
        ax.set(xticks=[-3, 0, 3], yticks=[-3, 0, 3], zticks=[0, 0.5, 1], zlim=(0, 1))
        ax.set_xlabel("first score", rotation=0, labelpad=2)
        ax.set_ylabel("second score", rotation=0, labelpad=2)
        ax.set_title(name, y=1.0)
        ax.set_box_aspect((1, 1, 0.65), zoom=0.95)
plt.show()
