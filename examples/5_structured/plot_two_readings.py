"""
Which word depends on which?
============================

Did she see the man with a telescope, or the man who has one? Asked word by word, heads may go round in circles. The
marginals of trees answer for all words at once, and give probability to a few trees only.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.structured import DependencyTree, sparsemap

# %%
# A row of scores for each word, over its possible heads; on the diagonal stands the score of the root, who has no head.

words = "she saw the man with a telescope".split()
noise = torch.randn(7, 7, generator=torch.Generator().manual_seed(58), dtype=torch.float64)
scores = 0.4 * noise
for i, head in enumerate("saw saw man saw saw telescope with".split()):
    scores[i, words.index(head)] += 1.5
scores[words.index("with"), words.index("man")] += 1.6

# %%
# Word by word, noise makes *a* the likeliest head of *saw*, and the likeliest heads go round in a circle: *saw, a,
# telescope, with, man, saw*. No tree does that. Three trees share the probability, and the two that have most of it are
# the two readings. Upright arrows are roots.

alone = omegamax.sparsemax(scores)
marginals, found = sparsemap(scores, DependencyTree(projective=True, single_root=True), return_structures=True)
print("probabilities of the trees:", [round(p, 2) for p in found.probabilities.tolist()])
with viz.style():
    figure = plt.figure(figsize=(10.8, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
    ax = viz.arcs(alone, words, below=marginals, title="sparsemax, word by word", ax=left.subplots())
    ax.set_ylim(ax.get_ylim()[0] - 1)
    ax.text(0, 0, f"marginals of {int(found.count)} trees", fontweight="bold", fontsize=9.5, transform=ax.transAxes)
    for ax, tree, p in zip(right.subplots(int(found.count)), found.structures, found.probabilities, strict=True):
        owner = "the man has it" if tree[words.index("with"), words.index("man")] else "she has it"
        viz.arcs(tree, words, title=f"{p:.2f}: {owner}", ax=ax)
plt.show()
