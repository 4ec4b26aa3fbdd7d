"""
A cat, or a few scattered cells of one?
=======================================

Sparsemax picks the cells of an image one by one, and noise in the scores leaves holes and specks. Tvmax pays for
differences between neighbours as well: it picks patches of equal weight, in whatever shape the object has.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# The picture, painted back to front; nothing to download.


def scene(size=168):
    """A cat on a sill, ``[size, size, 3]``."""
    at = (torch.arange(size) + 0.5) / size
    y, x = torch.meshgrid(at, at, indexing="ij")

    def rgb(code):
        return torch.tensor([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])

    def paint(picture, distance, colour):  # where the distance is negative, with an edge of one pixel
        return picture + (0.5 - distance * size).clamp(0, 1)[..., None] * (colour - picture)

    def ellipse(left, top, width, height):
        return min(width, height) * (((x - left) / width).hypot((y - top) / height) - 1)

    dusk = (y / 0.86).clamp(0, 1)[..., None]
    picture = (1 - dusk) * rgb("#35577d") + dusk * rgb("#d9c8c0")
    picture = paint(picture, ellipse(0.83, 0.2, 0.075, 0.075), rgb("#f7ecd0"))
    picture = paint(picture, 0.86 - y, rgb("#4d5a63"))
    fur, dark = rgb("#d98444"), rgb("#b9652f")
    # The tail: most of a ring to the right of the body, with a round tip.
    turn = torch.atan2(y - 0.66, x - 0.7)
    ring = ((x - 0.7).hypot((y - 0.66) / 1.2) - 0.17).abs() - 0.058
    cat = ring.where((turn > -1.75) & (turn < 2.5), torch.tensor(1.0)).minimum(ellipse(0.67, 0.459, 0.058, 0.066))
    cat = cat.minimum(ellipse(0.46, 0.67, 0.185, 0.23)).minimum(ellipse(0.4, 0.34, 0.16, 0.13))
    for ear in (0.29, 0.51):
        cat = cat.minimum(((x - ear).abs() * 2.0 - (y - 0.12)).maximum(y - 0.3) / 2)
    picture = paint(picture, cat, fur)
    stripes = (((0.46 - x).hypot(1.4 * (y - 0.4)) * 22).sin().abs() - 0.35) / 60
    picture = paint(picture, stripes.maximum(cat + 0.02).maximum(0.52 - y), dark)
    for eye in (0.34, 0.46):
        picture = paint(picture, ellipse(eye, 0.33, 0.026, 0.03), rgb("#f4f1c8"))
        picture = paint(picture, ellipse(eye, 0.33, 0.01, 0.027), rgb("#2b2b2b"))
    return paint(picture, ellipse(0.4, 0.395, 0.022, 0.014), rgb("#7a3b2c")).clamp(0, 1)


picture = scene()

# %%
# A cell's score says how near its mean colour is to that of the cat, and how well the model saw: not very well.

size = (14, 14)
cells = torch.nn.functional.adaptive_avg_pool2d(picture.permute(2, 0, 1), size).double()  # [3, 14, 14]
query = torch.tensor([0.82, 0.49, 0.25], dtype=torch.float64)
near = (-16 * (cells - query[:, None, None]).square().sum(0)).exp()
noise = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
scores = 0.1 * near + 0.03 * noise

# %%
# Tvmax is sparsemax of the scores after total variation has been taken off, exactly; what it has fused is equal to the
# last bit, so that distinct weights can be counted. A strength of 0 is sparsemax. The default suits scores of this
# size, of which a few dozen are to share the weight.

strengths = [0.01, 0.02, 0.03, 0.05]
maps = {
    "softmax": omegamax.softmax(scores.flatten()).reshape(size),
    "sparsemax": omegamax.sparsemax(scores.flatten()).reshape(size),
    **{f"tvmax, strength {strength}": omegamax.tvmax(scores, strength) for strength in strengths},
}
counts = {}
for name, p in maps.items():
    counts[name] = f"{int((p > 0).sum())} cells, {p[p > 0].unique().numel()} weights"
    print(f"{name}: {counts[name]}")

# %%
# Where does a gradient go? A loss asks for more weight on one cell, in the middle of the cat. Under sparsemax it is the
# score of this cell alone that is raised, and all others in the support pay for it. Under tvmax the credit is shared
# evenly by the patch that the cell belongs to: blue gains, red pays. Weights have the same colours in all panels,
# the darkest from 0.05 on; those of softmax are all below 0.006.

row, column = 9, 5
tied, credit = 0.02, {}
for name, function in (
    ("sparsemax", lambda z: omegamax.sparsemax(z.flatten()).reshape(size)),
    (f"tvmax {tied}", lambda z: omegamax.tvmax(z, tied)),
):
    z = scores.clone().requires_grad_()
    function(z)[row, column].backward()
    credit[name] = z.grad
    print(f"{name}: +{z.grad[row, column]:.3f} for the cell's own score")

with viz.style():
    figure, axes = viz.panels(10, 5, size=(2.3, 2.62))
    axes[0].imshow(picture.numpy(), extent=(-0.5, 13.5, 13.5, -0.5))
    axes[0].set(title="picture", xlabel="14 x 14 cells")
    axes[1].imshow(scores.numpy(), cmap="YlGnBu")
    axes[1].set(title="scores", xlabel=f"from {scores.min():.2f} to {scores.max():.2f}")
    for ax, (name, p) in zip((axes[2], axes[3], *axes[5:9]), maps.items(), strict=True):
        viz.heatmap(p, title=name, ax=ax)
        ax.images[0].set_clim(0, 0.05)
        ax.set_xlabel(counts[name])
    for ax, (name, g) in zip((axes[4], axes[9]), credit.items(), strict=True):
        ax.imshow(g.numpy(), cmap="RdBu", vmin=-0.08, vmax=0.08)
        ax.plot(column, row, "o", ms=5, mfc="white", mec="#1f2933")
        gain, pay = int((g > 0).sum()), int((g < 0).sum())
        ax.set(title=f"credit, {name}", xlabel=f"{gain} cell{'s' * (gain > 1)} gain{'s' * (gain == 1)}, {pay} pay")
    for ax in axes:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
plt.show()
