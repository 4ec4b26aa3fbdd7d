"""
What decides on which face a sample lands?
==========================================

For Gaussian-sparsemax: how far the scores are apart, and how noisy they are. For the hard concrete distribution: the
stretch. For the distribution of largest entropy: how finely a coordinate is coded.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import mixed, viz

# %%
# Three scores with one in the lead. Little noise leaves the face of the noiseless scores; much noise makes a corner,
# any corner, almost sure. The probabilities are integrals of densities, not counts.

kinds = ("corner", "edge", "inside")
colours = ("#d1495b", "#e09f3e", "#2176ae")
size = mixed.faces(3).sum(-1)


def by_size(distribution: mixed.Mixed) -> torch.Tensor:
    """Probabilities of one, two and three non-zero entries."""
    probs = distribution.face_probs()
    return torch.stack([probs[..., size == k].sum(-1) for k in (1, 2, 3)], -1)


scale = torch.logspace(-1, 1, 31, dtype=torch.float64)
lead = torch.linspace(-0.5, 2.0, 31, dtype=torch.float64)
scores = torch.tensor([0.3, 0.2, 0.0], dtype=torch.float64)
first = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
noisy = by_size(mixed.GaussianSparsemax(scores, scale[:, None], order=24))
leading = by_size(mixed.GaussianSparsemax(lead[:, None] * first, scale=0.5, order=24))

# %%
# Two choices are a Gaussian cut off at both ends, and the hard concrete distribution is known in closed form.

stretch = torch.linspace(1.0, 3.0, 101, dtype=torch.float64)
stretched = mixed.HardConcrete(0.7, logits=torch.tensor([0.5, 0.0], dtype=torch.float64), stretch=stretch)
bits = torch.linspace(-4, 6, 101, dtype=torch.float64)
coded = mixed.MaxEntropyMixed(3, bits)
print("largest code length of 3 choices at 0, 4 and 8 bits:", [round(mixed.max_entropy(3, n), 2) for n in (0, 4, 8)])

with viz.style():
    figure, axes = viz.panels(4, 2, size=(3.6, 2.5))
    for ax, x, probs in ((axes[0], scale, noisy), (axes[1], lead, leading), (axes[3], bits, coded.size_probs)):
        ax.stackplot(x, probs.T, colors=colours, alpha=0.85, labels=kinds)
    axes[2].stackplot(
        stretch,
        stretched.face_probs().T,
        colors=("#d1495b", "#e3919b", "#e09f3e"),
        alpha=0.85,
        labels=("first corner", "second corner", "edge"),
    )
    axes[0].set(title="Gaussian-sparsemax: noise", xlabel="scale", xscale="log")
    axes[1].set(title="Gaussian-sparsemax: lead of one score", xlabel="score of the first")
    axes[2].set(title="hard concrete, two choices", xlabel="stretch")
    axes[3].set(title="maximum entropy", xlabel="bits of a coordinate")
    for ax in axes:
        ax.set(ylim=(0, 1), xlim=ax.dataLim.intervalx, ylabel="probability")
    for ax, place in ((axes[0], "upper left"), (axes[2], "lower right")):
        ax.legend(loc=place, reverse=True, fontsize=8, frameon=True, framealpha=0.8, edgecolor="none")
plt.show()
