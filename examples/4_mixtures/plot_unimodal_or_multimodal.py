"""
One region or several?
======================

A question about a picture may need several places at once: how many balloons are there? One ellipse has to cover all of
them, and the sky between. A mixture has an ellipse for each.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian, Mixture
from omegamax.nn import ContinuousAttention, MultimodalAttention

# %%
# The picture, painted back to front; nothing to download.


def scene(height=180, width=240):
    """Three balloons over hills, ``[height, width, 3]``."""
    y, x = torch.meshgrid((torch.arange(height) + 0.5) / height, (torch.arange(width) + 0.5) / height, indexing="ij")

    def rgb(code):
        return torch.tensor([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])

    def paint(picture, distance, colour):  # where the distance is negative, with an edge of one pixel
        return picture + (0.5 - distance * height).clamp(0, 1)[..., None] * (colour - picture)

    haze = (y / 0.8).clamp(0, 1)[..., None]
    picture = (1 - haze) * rgb("#5f8fc0") + haze * rgb("#e6eef2")
    hills = (0.78, 0.05, 5.1, 0.3, "#9db4b8"), (0.86, 0.04, 7.3, 2.1, "#6f9480"), (0.93, 0.03, 4.2, 4.0, "#466b4c")
    for base, size, wave, phase, colour in hills:
        picture = paint(picture, base + size * (wave * x + phase).sin() - y, rgb(colour))
    for left, top, size in (0.3, 0.24, 0.15), (1.06, 0.3, 0.12), (0.74, 0.58, 0.09):
        u, v = (x - left) / size, (y - top) / (1.15 * size)
        u = u / (1 - 0.5 * v.clamp(min=0) ** 2)
        light = 0.86 + 0.2 * (-((0.8 * u + 0.3) ** 2) - (v + 0.35) ** 2).exp()
        stripe = torch.where(((v * 3).floor() % 2 == 0)[..., None], rgb("#d23c3a"), rgb("#e4574a"))
        picture = paint(picture, size * (u.hypot(v) - 1), stripe * light[..., None])
        basket = (x - left).abs().maximum((y - top - 1.55 * size).abs() / 0.8) - 0.14 * size
        picture = paint(picture, basket, rgb("#6b4a35"))
    return picture.clamp(0, 1)


picture = scene()

# %%
# Values are the mean colours of 20 x 20 cells, the query is red, and 1.5-entmax gives weight to cells near to it.

size = (20, 20)
values = torch.nn.functional.adaptive_avg_pool2d(picture.permute(2, 0, 1), size).flatten(1).T  # [400, 3], row by row
query = torch.tensor([0.86, 0.3, 0.27])
weights = omegamax.entmax15(-30 * (values - query).square().sum(-1))

# %%
# All layers have the same value function and no parameters. The one with several modes chooses their number by BIC, for
# each picture on its own; on a grid of 14 x 14 cells there are too few under the balloons, and it is content with two.
# Truncated paraboloids are exactly zero between the balloons, where the picture is faded. The nearer a context is to
# the query, the less sky is in it.

basis = GaussianRBF.grid(10, 2, variance=0.01)
layers = {
    "one Gaussian": ContinuousAttention(basis, positions=size),
    "one paraboloid": ContinuousAttention(basis, alpha=2.0, positions=size),
    "Gaussians": MultimodalAttention(basis, 5, components="selected", iterations=20, positions=size),
    "paraboloids": MultimodalAttention(basis, 5, alpha=2.0, components="selected", iterations=20, positions=size),
}
contexts, densities = {"query": query, "discrete": weights @ values}, {}
for title, layer in layers.items():
    context, p = layer.eval()(values, weights)
    if title.endswith("s"):
        title = f"mixture of {int(p.component_count)} {title}"
    contexts[title], densities[title] = context, p
for title, context in contexts.items():
    print(f"{title}: context {[round(c, 2) for c in context.tolist()]}, off by {(context - query).norm():.2f}")

with viz.style():
    figure, axes = viz.panels(8, 4, size=(3.0, 2.47))
    plain = dict(extent=(0, 1, 1, 0), aspect=picture.shape[0] / picture.shape[1])
    fog = torch.ones(*size, 4)
    fog[..., 3] = 0.92 * (1 - weights.reshape(size) / weights.max())
    axes[0].imshow(picture.numpy(), **plain)
    axes[4].imshow(picture.numpy(), **plain)
    axes[4].imshow(fog.numpy(), **plain)
    axes[0].set_title("picture")
    axes[4].set_title(f"discrete entmax, {int((weights > 0).sum())} of 400 cells")
    for ax in (axes[0], axes[4]):
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
    for ax, (title, p) in zip((axes[i] for i in (1, 5, 2, 6)), densities.items(), strict=True):
        if isinstance(p, Mixture):  # an ellipse for each component
            used, parts = p.weights > 0, p.components
            p = BetaGaussian.from_moments(parts.mean[used], parts.covariance_matrix[used], p.alpha)
        viz.ellipses(p, image=picture, masses=(0.5, 0.95), title=title, ax=ax)
    axes[3].remove()
    for i, (title, context) in enumerate(contexts.items()):
        axes[7].barh(-i, 1, height=0.82, color=context.clamp(0, 1).tolist())
        axes[7].text(0.05, -i, title, va="center", color="white", fontweight="bold")
    axes[7].set(xlim=(0, 1), ylim=(-5.42, 0.42), box_aspect=0.75, title="context", xticks=[], yticks=[])
    axes[7].spines[:].set_visible(False)
plt.show()
