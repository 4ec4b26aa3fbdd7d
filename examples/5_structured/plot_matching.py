"""
Which word translates which?
============================

Softmax answers for each word alone, and its answers need not fit together: one word is translated twice and another not
at all. The marginals of matchings answer for all words at once, and give probability to a few matchings only.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.structured import Matching, sparsemap

# %%
# Scores are high for translations, and for words that often stand together: *das* is drawn to *house* too, and *haben*
# to *find*.

german = "wir haben das Haus gestern nicht gefunden".split()
english = "we did not find the house yesterday".split()
noise = torch.randn(7, 7, generator=torch.Generator().manual_seed(15), dtype=torch.float64)
scores = 0.35 * noise
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
            ax.text(j, 6.9, f"{total:.1f}", ha="center", va="center", color="#7b8794", fontsize=8)
plt.show()
