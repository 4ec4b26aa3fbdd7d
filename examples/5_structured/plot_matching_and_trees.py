"""
Words in pairs, words in trees
==============================

Which word translates which, and which word depends on which? Softmax answers for each word alone, and its answers need
not fit together: one word is translated twice and another not at all, heads go round in circles. The marginals of
matchings and of trees answer for all words at once, and give probability to a few structures only.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.tri import Triangulation

import omegamax
from omegamax import viz
from omegamax.structured import DependencyTree, Matching, SpanningTree, sparsemap


# The seeds were picked for examples that show what they are to show; other seeds give duller ones.
def noise(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# %%
# **An alignment.** Scores are high for translations, and for words that often stand together: *das* is drawn to *house*
# too, and *haben* to *find*.

german = "wir haben das Haus gestern nicht gefunden".split()
english = "we did not find the house yesterday".split()
scores = 0.35 * noise(7, 7, seed=15)
for i, translation in enumerate("we did the house yesterday not find".split()):
    scores[i, english.index(translation)] += 1.3
for word, other in (("das", "house"), ("haben", "find")):
    scores[german.index(word), english.index(other)] += 1.2

# %%
# Softmax and sparsemax see to it that rows sum to one; columns do not. The marginals of matchings sum to one both ways:
# *haben* leaves *find* to *gefunden*, and *gestern*, of which the scores say little, gets *yesterday*, which is left
# over. They are a mixture of a few of the 5040 matchings.

matched, found = sparsemap(scores, Matching(), return_structures=True)
print("probabilities of the matchings:", [round(p, 2) for p in found.probabilities.tolist()])
alignments = {
    "softmax, word by word": omegamax.softmax(scores),
    "sparsemax, word by word": omegamax.sparsemax(scores),
    f"marginals of {int(found.count)} matchings": matched,
}
with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.6, 3.6))
    for ax, (name, p) in zip(axes, alignments.items(), strict=True):
        viz.alignment(p, german, english, title=name, ax=ax)
        ax.text(-0.7, 6.9, "sum", ha="right", va="center", color="#7b8794")
        for j, total in enumerate(p.sum(0).tolist()):
            ax.text(j, 6.9, f"{total:.2f}", ha="center", va="center", color="#7b8794", fontsize=8)

# %%
# **A sentence with two readings.** A row of scores for each word, over its possible heads; on the diagonal stands the
# score of the root, who has no head. Did she see with a telescope, or the man with one?

words = "she saw the man with a telescope".split()
scores = 0.4 * noise(7, 7, seed=58)
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

# %%
# **Trees of a graph.** Towns on a plain and the roads that could be built, with scores that fall with their length. A
# road is drawn as thick as it is probable, and grey if not at all. The larger the scores, the fewer trees share the
# probability; at last it is the shortest one alone.

grid = torch.cartesian_prod(torch.arange(7.0), torch.arange(4.0))
towns = grid.double() + 0.28 * noise(28, 2, seed=4)
roads = torch.from_numpy(Triangulation(*towns.T.numpy()).edges).T.long()  # [2, E]
length = (towns[roads[0]] - towns[roads[1]]).norm(dim=-1)
with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.6, 2.5))
    for ax, scale in zip(axes, (0.5, 2, 100), strict=True):
        marginals, found = sparsemap(-scale * length, SpanningTree(roads), return_structures=True)
        for (a, b), p in zip(roads.T.tolist(), marginals.tolist(), strict=True):
            if p > 0:
                ax.plot(*towns[[a, b]].T, color="#2176ae", linewidth=0.4 + 3 * p, alpha=0.25 + 0.75 * p)
            else:
                ax.plot(*towns[[a, b]].T, color="#d9dee4", linewidth=0.6, zorder=0)
        ax.plot(*towns.T, "o", ms=5, mfc="white", mec="#1f2933")
        ax.set_aspect(1)
        ax.set_axis_off()
        trees, used = int(found.count), int((marginals > 0).sum())
        ax.set_title(f"scores x {scale}: {trees} tree{'s' * (trees > 1)}, {used} of {len(length)} roads")
plt.show()
