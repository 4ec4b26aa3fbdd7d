"""
Modes that end, and modes that go
=================================

Sparsity enters a mixture in three places. Components may have compact support, so that the density is exactly zero
between them. Each place may belong to few components, by sparse responsibilities. And mixing weights may be exactly
zero, which takes whole components away.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian
from omegamax.mixtures import weighted_em

# %%
# One map of 20 x 20 weights, with three blobs.

size = (20, 20)
x = grid_positions(size, dtype=torch.float64)
centres = torch.tensor([[0.25, 0.3], [0.7, 0.22], [0.62, 0.72]], dtype=x.dtype)
deviations = torch.tensor([[0.08, 0.12], [0.11, 0.07], [0.1, 0.1]], dtype=x.dtype)
blobs = (-0.5 * ((x[:, None] - centres) / deviations).square().sum(-1)).exp()
weights = omegamax.sparsemax(0.02 * blobs.sum(-1))

# %%
# A mixture of truncated paraboloids (alpha = 2) has the moments of a mixture of Gaussians, and ends: here the three
# supports do not meet.

start = torch.Generator().manual_seed(0)
three = weighted_em(x, weights, 3, 30, alpha=2.0, init="kmeans++", restarts=5, generator=start)
fine = grid_positions((200, 200), dtype=x.dtype)
inside = three.components.support_contains(fine[:, None])
print(f"density 0 on {100 * (~inside.any(-1)).double().mean():.0f}% of the square,", end=" ")
print(f"two supports or more on {100 * (inside.sum(-1) > 1).double().mean():.1f}%")

# %%
# Which component does a place belong to? Bayes' rule is a softmax of the scores log pi + log p; with sparsemax in its
# place the borders are narrow, and beyond them a place belongs to one component alone.


def normal(p):
    """Gaussians with the moments of the components that have weight."""
    used = p.weights > 0
    return BetaGaussian.from_moments(p.components.mean[used], p.components.covariance_matrix[used], 1.0)


scores = three.weights.log() + normal(three).log_prob(fine[:, None])
shares = {name: getattr(omegamax, name)(scores) for name in ("softmax", "sparsemax")}
for name, share in shares.items():
    print(f"{name}: more than one component at {100 * ((share > 1e-6).sum(-1) > 1).double().mean():.0f}% of all places")

# %%
# Eight components are too many. With softmax they all stay and lie over each other. Sparse responsibilities divide the
# blobs into pieces instead; each has places of its own, and so none of them goes here. Sparse mixing weights take a
# little mass from each component, a discount of 0.2 in all, and who has none left is gone: three stay, for discounts
# from 0.1 to 0.6.

settings = {
    "all softmax": {},
    "sparse responsibilities": {"responsibilities": "sparsemax"},
    "sparse mixing": {"mixing": "sparsemax"},
}
fits = {}
for name, setting in settings.items():
    start = torch.Generator().manual_seed(0)
    fits[name] = weighted_em(x, weights, 8, 60, alpha=2.0, init="kmeans++", generator=start, **setting)
    print(f"{name}: {int(fits[name].component_count)} of 8 components left")

discounts = [0.0, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8]
counts = []
for discount in discounts:
    start = torch.Generator().manual_seed(0)
    p = weighted_em(x, weights, 8, 60, init="kmeans++", mixing="sparsemax", discount=discount, generator=start)
    counts.append(int(p.component_count))
print("components left, by discount:", dict(zip(discounts, counts, strict=True)))

with viz.style():
    figure, axes = viz.panels(8, 4, size=(2.6, 2.75))
    image = weights.reshape(size)
    axes[0].imshow(image.numpy(), extent=(0, 1, 1, 0), cmap="Blues")
    axes[0].set_title(f"{int((weights > 0).sum())} of {weights.numel()} weights")

    def draw(p, title, ax):
        used, parts = p.weights > 0, p.components
        parts = BetaGaussian.from_moments(parts.mean[used], parts.covariance_matrix[used], p.alpha)
        viz.ellipses(parts, image=image, masses=(0.5,), cmap="Blues", title=title, ax=ax)

    draw(three, "three truncated paraboloids", axes[1])
    hues = torch.tensor([[0.82, 0.29, 0.36], [0.13, 0.46, 0.68], [0.88, 0.62, 0.24]], dtype=x.dtype)
    for ax, (name, share) in zip(axes[2:], shares.items(), strict=False):
        ax.imshow((share @ hues).reshape(200, 200, 3).numpy(), extent=(0, 1, 1, 0))
        ax.set_title(f"responsibilities, {name}")
    for ax, (name, p) in zip(axes[4:], fits.items(), strict=False):
        draw(p, f"{name}: {int(p.component_count)} of 8", ax)
    axes[7].plot(discounts, counts, "o-", color=viz.colour("sparsemax"), ms=4)
    axes[7].set(ylim=(0, 8.5), box_aspect=1, title="components left, by discount")
    for ax in (axes[0], *axes[2:4]):
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
plt.show()
