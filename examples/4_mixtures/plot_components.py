"""
How many regions?
=================

A mixture is fitted to each map of attention weights with one, two, and up to six components. A criterion weighs what
another component gains against what it costs, and chooses a number for each map.
"""

import math

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian
from omegamax.mixtures import AIC, BIC, MDL, Linear, select_components

# %%
# Maps of 14 x 14 weights: one to four blobs, each turned its own way, and a crescent, which is no sum of ellipses. A
# twentieth of the mass is noise.

size = (14, 14)
x = grid_positions(size, dtype=torch.float64)
generator = torch.Generator().manual_seed(1)


def blob(centre, long, short, degrees):
    """An ellipse with these deviations, ``[196]``."""
    turn = math.radians(degrees)
    along = torch.tensor([math.cos(turn), math.sin(turn)], dtype=x.dtype)
    offset = x - torch.tensor(centre, dtype=x.dtype)
    across = offset[:, 0] * along[1] - offset[:, 1] * along[0]
    return (-0.5 * ((offset @ along / long) ** 2 + (across / short) ** 2)).exp() / (long * short)


blobs = [
    blob((0.28, 0.3), 0.1, 0.06, 40),
    blob((0.74, 0.68), 0.11, 0.06, -30),
    blob((0.72, 0.22), 0.06, 0.06, 0),
    blob((0.25, 0.78), 0.09, 0.05, 80),
]
angle = torch.atan2(x[:, 1] - 0.4, x[:, 0] - 0.5)
radius = (x - torch.tensor([0.5, 0.4], dtype=x.dtype)).norm(dim=-1)
crescent = (-0.5 * ((radius - 0.33) / 0.05) ** 2).exp() * torch.sigmoid(8 * angle.sin() + 1)
shapes = {
    "one blob": blobs[0],
    "two": sum(blobs[:2]),
    "three": sum(blobs[:3]),
    "four": sum(blobs),
    "a crescent": crescent,
}
maps = torch.stack([shape / shape.sum() for shape in shapes.values()])
noise = torch.rand(maps.shape, generator=generator, dtype=x.dtype)
maps = 0.95 * maps + 0.05 * noise / noise.sum(-1, keepdim=True)

# %%
# All maps, all numbers and all starts are fitted in one call. BIC and AIC count points, and a map of weights has none:
# they take the number of equal weights that would be as concentrated, 1 / sum of squares. ``Linear(5.0)`` is the
# penalty of the paper on multimodal attention, per unit of weight: another component has to make the density 12 times
# higher, which takes narrower blobs than these. MDL takes components away that are not worth their parameters, while it
# fits.

print("each map counts as", [round(m) for m in (1 / maps.square().sum(-1)).tolist()], "points")
criteria = {"BIC": BIC(), "AIC": AIC(), "MDL": MDL(), "Linear(5.0)": Linear(5.0), "Linear(0.5)": Linear(0.5)}
fits = {}
for name, criterion in criteria.items():
    generator.manual_seed(0)
    fits[name] = select_components(x, maps, 6, criterion, iterations=60, generator=generator)
    print(f"{name}: {fits[name].component_count.tolist()} components")

# %%
# A row for each criterion. Lines enclose 50 and 90% of the mass of each component. The crescent has no true number: two
# or more ellipses follow it about as well as its few points can tell. With a smaller penalty per unit of weight, the
# noise around a single blob already pays for a component of its own.

with viz.style():
    figure, axes = viz.panels(len(criteria) * len(shapes), len(shapes), size=(1.9, 2.0))
    panels = iter(axes)
    for name, p in fits.items():
        mean, covariance = p.components.mean, p.components.covariance_matrix
        for i, shape in enumerate(shapes):
            ax, used = next(panels), p.weights[i] > 0
            parts = BetaGaussian.from_moments(mean[i, used], covariance[i, used], 1.0)
            viz.ellipses(parts, image=maps[i].reshape(size), masses=(0.5, 0.9), cmap="Blues", ax=ax)
            ax.set_title(f"{shape}: K = {int(used.sum())}" if name == "BIC" else f"K = {int(used.sum())}")
            if i == 0:
                ax.set_ylabel(name, fontweight="bold")
plt.show()
