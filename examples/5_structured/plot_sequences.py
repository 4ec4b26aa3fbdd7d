"""
Can neighbours in time help each other?
=======================================

A night of sleep in 32 quarters of an hour, and a model that scores the stages of each of them by itself. What it says
flickers; sleep does not. Three maps make use of that: one for weights over time, one for a choice of quarters, one for
a stage in each.
"""

import math

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.structured import Sequence, sparsemap

# %%
# The night: awake, dreaming, light and deep sleep. A stage resembles its neighbours, and the scores are noisy.

stages = ["awake", "dream", "light", "deep"]
night = "a l l l d d d d d l l r r l l d d d d l l r r r l l l r r r r a".split()
truth = torch.tensor(["arld".index(stage) for stage in night])
alike = torch.tensor([[1, 0.35, 0.3, 0], [0.35, 1, 0.45, 0], [0.3, 0.45, 1, 0.45], [0, 0.05, 0.45, 1]]).double()
noise = torch.randn(len(night), 4, generator=torch.Generator().manual_seed(89), dtype=torch.float64)
scores = 4 * (alike[truth] + 0.45 * noise)  # [32, 4]

# %%
# **When is sleep deep?** Attention over time, with the scores of one stage. Sparsemax picks quarters one by one.
# Fusedmax gives equal weights to whole runs.

deep = scores[:, 3] / 12
weights = {"sparsemax": omegamax.sparsemax(deep), "fusedmax": omegamax.fusedmax(deep, 0.2)}
for name, p in weights.items():
    print(f"{name}: {int((p > 0).sum())} quarters, {p[p > 0].unique().numel()} weights")

# %%
# **Which nine quarters are deep?** A budget: probabilities are at most 1 and sum to nine. If neighbours score together
# as well, the choice holds together.

k, together = 9, 2.0
choices = {
    "no transition score": omegamax.sequential_k_subsets(scores[:, 3], k),
    f"transition {together}": omegamax.sequential_k_subsets(scores[:, 3], k, transition=together),
}
for name, p in choices.items():
    print(f"{name}: {p[truth == 3].sum():.1f} of {k} where sleep is deep, {int((p.diff().abs() > 0).sum())} changes")

# %%
# **Which stage is it, at all times?** SparseMAP over sequences: staying in a stage earns something, and deep sleep is
# entered and left through light sleep only. Of all :math:`4^{32}` sequences a handful has any probability, and they
# differ in a few places.

transition = 1.6 * torch.eye(4, dtype=torch.float64)
for other in (0, 1):
    transition[3, other] = transition[other, 3] = -math.inf
alone = omegamax.sparsemax(scores)
marginals, found = sparsemap(scores, Sequence(transition=transition), return_structures=True)
paths = found.structures.argmax(-1)[: found.count]  # [A, 32]
right = [int((p.argmax(-1) == truth).sum()) for p in (alone, marginals)]
print(f"likeliest stage right: {right[0]} of {len(truth)} by themselves, {right[1]} in sequences")
print("probabilities of the sequences:", [round(p, 3) for p in found.probabilities[: found.count].tolist()])

# %%
# This night was picked to be told by one picture. A hundred others, in one call, say what is to be expected.

noise = torch.randn(100, *scores.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
nights = 4 * (alike[truth] + 0.45 * noise)
for name, p in (("alone", nights), ("sequences", sparsemap(nights, Sequence(transition=transition)))):
    print(f"{name}: {(p.argmax(-1) == truth).sum(-1).double().mean():.1f} of {len(truth)} right on average")

# %%
# Grey bands on the left are deep sleep, the line on the right is the night as it was. Below it, the sequences that
# share the probability, as thick as they are probable.

with viz.style():
    figure, axes = viz.panels(6, 2, size=(5.4, 2.0))
    quarters = range(len(night))
    edges = torch.arange(len(night) + 1) - 0.5
    evidence, fused, chosen = axes[::2]
    single, joint, several = axes[1::2]
    evidence.plot(scores[:, 3], "o-", ms=3, linewidth=1.2, color="#1f2933")
    evidence.set(title="deep sleep: its scores")
    for ax, rows in ((fused, weights), (chosen, choices)):
        for (name, p), own in zip(rows.items(), ("sparsemax", "fusedmax"), strict=True):
            ax.stairs(p, edges, color=viz.colour(own), linewidth=1.6, label=name)
        ax.stairs(p, edges, color=viz.colour("fusedmax"), fill=True, alpha=0.14)
        ax.legend(loc="upper right")
    fused.set(title="deep sleep: weights over time")
    chosen.set(title="deep sleep: nine quarters", ylim=(0, 1.05))
    for ax in (evidence, fused, chosen):
        for quarter in (truth == 3).nonzero().flatten().tolist():
            ax.axvspan(quarter - 0.5, quarter + 0.5, color="#eef1f4", linewidth=0, zorder=0)
    titles = f"each quarter by itself: {right[0]} of 32 right", f"marginals of sequences: {right[1]} of 32 right"
    for ax, p, title in ((single, alone, titles[0]), (joint, marginals, titles[1])):
        viz.heatmap(p.T, title=title, ax=ax)
        ax.step(quarters, truth, where="mid", color="#e09f3e", linewidth=1.6)
    shades = plt.get_cmap("viridis")(torch.linspace(0.05, 0.9, len(paths)).numpy())
    for i, (path, p, shade) in enumerate(zip(paths, found.probabilities.tolist(), shades, strict=False)):
        aside = 0.11 * (i - (len(paths) - 1) / 2)
        several.step(quarters, path + aside, where="mid", color=shade, linewidth=0.7 + 4 * p, label=f"{p:.2f}")
    several.set(ylim=(3.5, -0.5), title=f"the {len(paths)} sequences, by their probabilities")
    several.legend(ncols=len(paths), loc="upper center", handlelength=1.2, columnspacing=1.2)
    for ax in (single, joint, several):
        ax.set_yticks(range(4), stages)
        ax.set_aspect("auto")
    for ax in axes:
        ax.set_xlim(-0.5, len(night) - 0.5)
        ax.set_xticks(range(0, 32, 4), ["23 h", *range(6), "6 h"])
    for ax in axes[:4]:
        ax.tick_params(labelbottom=False)
plt.show()
