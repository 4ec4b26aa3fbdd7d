"""
Which region of a picture?
==========================

Discrete attention gives a weight to each cell of a grid over an image. Continuous attention fits a density to these
weights, and so attends to one region: an ellipse.
"""

import math

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.basis import GaussianRBF, RidgeFit
from omegamax.nn import ContinuousAttention

# %%
# The picture, painted back to front; nothing to download.


def scene(height=180, width=240):
    """A balloon at dusk, ``[height, width, 3]``."""
    y, x = torch.meshgrid((torch.arange(height) + 0.5) / height, (torch.arange(width) + 0.5) / height, indexing="ij")

    def rgb(code):
        return torch.tensor([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])

    def paint(picture, distance, colour):  # where the distance is negative, with an edge of one pixel
        return picture + (0.5 - distance * height).clamp(0, 1)[..., None] * (colour - picture)

    dusk = (y / 0.8).clamp(0, 1)[..., None]
    picture = (1 - dusk) ** 2 * rgb("#35577d") + 2 * dusk * (1 - dusk) * rgb("#9fb3c8") + dusk**2 * rgb("#ffdfb8")
    sun = (x - 1.08).hypot(y - 0.58)
    picture = picture + 0.6 * (-sun / 0.16).exp()[..., None] * (rgb("#ffb45e") - picture)
    picture = paint(picture, sun - 0.07, rgb("#ff9d47"))
    hills = (0.7, 0.06, 5.1, 0.3, "#8d93ad"), (0.78, 0.05, 7.3, 2.1, "#5d7088"), (0.87, 0.04, 4.2, 4.0, "#39565a")
    for base, size, wave, phase, colour in hills:
        ridge = base + size * ((wave * x + phase).sin() + 0.3 * (2.7 * wave * x).sin())
        picture = paint(picture, ridge - y, rgb(colour))
    # The balloon: a ball that narrows towards the basket, sewn from gores.
    u, v = (x - 0.44) / 0.17, (y - 0.3) / 0.2
    u = u / (1 - 0.5 * v.clamp(min=0) ** 2)
    gore = 7 / math.pi * (u / (1 - v.square()).clamp(min=0.003).sqrt()).clamp(-1, 1).asin()
    cloth = torch.where((gore.floor() % 2 == 0)[..., None], rgb("#d23c3a"), rgb("#e4574a"))
    light = 0.86 + 0.2 * (-((0.8 * u + 0.3) ** 2) - (v + 0.35) ** 2).exp()
    picture = paint(picture, 0.17 * (u.hypot(v) - 1), cloth * light[..., None])
    picture = paint(picture, (x - 0.44).abs().maximum((y - 0.575).abs() / 0.8) - 0.025, rgb("#6b4a35"))
    rope = ((x - 0.44).abs() - 0.024 - 0.2 * (0.56 - y).clamp(min=0)).abs() - 0.002
    return paint(picture, rope.maximum((y - 0.525).abs() - 0.035), rgb("#6b4a35")).clamp(0, 1)


picture = scene()

# %%
# Values are the mean colours of 14 x 14 cells. The query is the red of the balloon, and a cell's score says how near
# its colour is: the balloon wins, a little is left for the sun and the sky.

size = (14, 14)
values = torch.nn.functional.adaptive_avg_pool2d(picture.permute(2, 0, 1), size).flatten(1).T  # [196, 3], row by row
query = torch.tensor([0.86, 0.3, 0.27])
weights = omegamax.softmax(-20 * (values - query).square().sum(-1))

# %%
# The value function is a ridge fit with 100 bumps. They must touch: nodes of a 10 x 10 grid are 0.11 apart, and bumps
# with a variance of 0.001 (a deviation of 0.03) leave holes between them. As wide as apart, they give a soft image of
# the picture.

narrow, wide = (GaussianRBF.grid(10, 2, variance=v) for v in (0.001, 0.01))
seen = {}
for title, basis in (("value function, variance 0.001", narrow), ("value function, variance 0.01", wide)):
    fit = RidgeFit(basis, size)
    seen[title] = fit.reconstruct(fit(values), picture.shape[:2]).reshape(picture.shape)
    print(f"{title}: off by {fit.report(values).rmse:.3f} at the cells")

# %%
# Each density has the mean and the covariance of the weights. The Gaussian covers the whole picture, if thinly; the
# others end at the thick line, and the picture is faded where they are exactly 0. Thin lines enclose 25, 50, 75 and 95%
# of the mass. The context is the mean of the value function under the density, here a colour. An ellipse takes some sky
# along with the balloon, and the more so the more evenly it is filled.

regions = {"Gaussian": 1.0, "biweight": 1.5, "truncated paraboloid": 2.0}
contexts, densities = {"query": query, "discrete": weights @ values}, {}
for title, alpha in regions.items():
    attend = ContinuousAttention(wide, alpha=alpha, positions=size)
    contexts[title], densities[title] = attend(values, weights)
print({title: [round(c, 2) for c in context.tolist()] for title, context in contexts.items()})

with viz.style():
    figure, axes = viz.panels(8, 4, size=(3.0, 2.47))
    plain = dict(extent=(0, 1, 1, 0), aspect=picture.shape[0] / picture.shape[1])
    for ax, (title, image) in zip(axes, ({"picture": picture} | seen).items(), strict=False):
        ax.imshow(image.clamp(0, 1).numpy(), **plain)
        ax.set_title(title)
    fog = torch.ones(*size, 4)
    fog[..., 3] = 0.92 * (1 - weights.reshape(size) / weights.max())
    axes[3].imshow(picture.numpy(), **plain)
    axes[3].imshow(fog.numpy(), **plain)
    axes[3].set_title("discrete softmax, 196 weights")
    for ax, (title, p) in zip(axes[4:], densities.items(), strict=False):
        viz.ellipses(p, image=picture, title=f"{title}, alpha {p.alpha:g}", ax=ax)
    for i, (title, context) in enumerate(contexts.items()):
        axes[7].barh(-i, 1, height=0.82, color=context.clamp(0, 1).tolist())
        axes[7].text(0.05, -i, title, va="center", color="white", fontweight="bold")
    axes[7].set(xlim=(0, 1), ylim=(-4.42, 0.42), box_aspect=0.75, title="context")
    for ax in axes:
        ax.set(xticks=[], yticks=[])
    for ax in axes[:4]:
        ax.spines[:].set_visible(True)
    axes[7].spines[:].set_visible(False)
plt.show()
