r"""
How often may a word be looked at?
==================================

A translator that looks at one source word again and again repeats itself, and one that never looks drops words. With a
fertility each word has a budget of attention, and constrained sparsemax spends it:
:math:`p_t = \mathrm{csparsemax}(z_t, u - \sum_{s < t} p_s)`.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# Scores of a translation of eight words, one row for each: mostly right, but *Haus* draws attention at every step.

source = "das alte Haus steht am Fluss .".split()
target = "the old house stands by the river .".split()
right = {"the": ("das", "am"), "old": ("alte",), "house": ("Haus",), "stands": ("steht",), "by": ("am",)}
right |= {"river": ("Fluss",), ".": (".",)}
scores = 0.15 * torch.randn(8, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
seen = 0
for row, word in enumerate(target):
    choices = right[word]
    wanted = choices[min(seen, len(choices) - 1)]
    seen += word == "the"
    scores[row, source.index(wanted)] += 1.2
scores[:, source.index("Haus")] += 1.0

# %%
# Row by row: what a word has been given is taken from what it may still get. *am* is translated by two words, and has a
# budget of two; all others have one. What *Haus* has spent it cannot spend again, and at the end every word has been
# looked at as often as it should be. Only *house* comes too late: most of its word was spent on the two before it.

fertility = torch.tensor([1.0, 1, 1, 1, 2, 1, 1], dtype=torch.float64)
left, rows = fertility.clone(), []
for z in scores:
    p = omegamax.constrained_sparsemax(z, upper=left.clamp(0, 1))
    left = left - p
    rows.append(p)
attention = {
    "softmax": omegamax.softmax(scores),
    "sparsemax": omegamax.sparsemax(scores),
    "constrained sparsemax": torch.stack(rows),
}
for name, p in attention.items():
    print(f"{name:22}", "  ".join(f"{word} {x:.2f}" for word, x in zip(source, p.sum(0), strict=True)))

with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.6, 3.9))
    for ax, (name, p) in zip(axes, attention.items(), strict=True):
        viz.alignment(p, target, source, title=name, ax=ax)
        ax.text(-0.7, 7.9, "sum", ha="right", va="center", color="#7b8794")
        for j, total in enumerate(p.sum(0).tolist()):
            ax.text(j, 7.9, f"{total:.1f}", ha="center", va="center", color="#7b8794", fontsize=8)
plt.show()
