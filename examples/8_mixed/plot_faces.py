"""
Where do samples land?
======================

A point of the simplex has a face: the entries that are not zero. Softmax of noise only ever lands inside. A mixed
distribution lands on corners, on edges and inside, each with a probability of its own.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import mixed, viz

# %%
# Eight distributions for three choices; those that have scores have the same ones. Blue dots are samples with three
# non-zero entries; the histograms on the edges are samples with two, and the area of a red disc is the probability of a
# single choice.

torch.manual_seed(0)
scores = torch.tensor([0.6, 0.2, -0.1])
correlated = torch.tensor([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.5]])
distributions = {
    "Gumbel-softmax, temperature 1": mixed.GumbelSoftmax(1.0, logits=scores),
    "straight-through": mixed.GumbelSoftmax(1.0, logits=scores, hard=True),
    "hard concrete, stretch 1.5": mixed.HardConcrete(1.0, logits=scores, stretch=1.5),
    "Gaussian-sparsemax": mixed.GaussianSparsemax(scores, scale=0.5),
    "the same, first two correlated": mixed.GaussianSparsemax(scores, cov=correlated),
    "mixed Dirichlet": mixed.MixedDirichlet(scores / 2, torch.tensor([3.0, 2.0, 2.0])),
    "maximum entropy": mixed.MaxEntropyMixed(3),
    "maximum entropy, 3 bits": mixed.MaxEntropyMixed(3, bits=3.0),
}

with viz.style():
    figure, axes = viz.panels(len(distributions), 4, size=(2.7, 2.6))
    for ax, (title, distribution) in zip(axes, distributions.items(), strict=True):
        viz.faces(distribution.sample((20000,)), title=title, ax=ax)

# %%
# The densities say the same without samples: probabilities of the seven faces, and the entropy of the direct sum.

for title, distribution in distributions.items():
    if not isinstance(distribution, mixed.HardConcrete):  # whose density is known for two choices only
        probs = [f"{p:.2f}" for p in distribution.face_probs()]
        value, error = mixed.entropy(distribution)
        print(f"{title:32}", *probs, f" entropy {value:.2f} +- {error:.2f}")
plt.show()
