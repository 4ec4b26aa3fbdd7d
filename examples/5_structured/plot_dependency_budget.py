"""
How many modifiers may a word have?
===================================

A parser that scores every arc by itself is drawn to the verb: whatever could depend on it, does. A limit on the number
of a word's modifiers is no property of single arcs, and the search for the best tree knows nothing of it. In a factor
graph it is one more line: the tree is a factor, the limit of each word is another, and all of them agree on the
marginals of the arcs.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.structured import Budget, DependencyTree, FactorGraph

# %%
# A sentence, and scores for the head of each word: a little for being near, more for likely heads. Some words could
# hang elsewhere. He may have a boat *to* somewhere, though it was sold *to* someone; and what was *in* town, the sale,
# the friend or the boat?

words = "yesterday the old captain quietly sold his boat to a friend in town".split()
n = len(words)
at = {word: i for i, word in enumerate(words)}
place = torch.arange(n, dtype=torch.float64)
arc_scores = -0.06 * (place[:, None] - place).abs()  # [modifier, head], the diagonal is for the root
likely = {
    "yesterday": {"sold": 2.1, "captain": 1.1},
    "the": {"captain": 1.6},
    "old": {"captain": 1.8},
    "captain": {"sold": 2.2},
    "quietly": {"sold": 2.0, "captain": 1.0},
    "sold": {"sold": 2.0},
    "his": {"boat": 1.8},
    "boat": {"sold": 2.2},
    "to": {"sold": 2.2, "boat": 1.4},
    "a": {"friend": 1.8},
    "friend": {"to": 1.8},
    "in": {"sold": 2.4, "friend": 1.5, "boat": 1.1},
    "town": {"in": 1.8},
}
for modifier, heads in likely.items():
    for head, score in heads.items():
        arc_scores[at[modifier], at[head]] += score

# %%
# The graph. Variables are sliced like arrays: ``u[others, k]`` are all arcs from word k, but for the one to itself, by
# which the root attaches it. Solving gives each variable its value, which is differentiable in the scores.


def parse(scores, budget):
    fg = FactorGraph()
    u = fg.variable_from(scores)
    fg.add(DependencyTree(u, projective=True, single_root=True))
    for k in range(n):
        others = [i for i in range(n) if i != k]
        fg.add(Budget(u[others, k], budget=budget))
    report = fg.solve()
    return u.value, report


def modifiers(marginals):
    """How many each word has, on average over the trees."""
    return marginals.sum(0) - marginals.diagonal()


scores = arc_scores.clone().requires_grad_()
free, _ = parse(scores, budget=n)
held, report = parse(scores, budget=5)
for name, p in (("no limit", free), ("at most five", held)):
    print(f"{name}: {modifiers(p)[at['sold']].item():.2f} modifiers of 'sold' on average")
print(f"{int(report.iterations)} rounds, factors agree to {report.infeasibility.item():.0e}")

# %%
# Without a limit the verb has nearly six modifiers. With one of five, its modifiers have to make room, and those do
# most that lose least by it: *in* turns to the friend, *to* to the boat and *yesterday* to the captain, while *captain*
# and *boat*, who have nowhere to go, stay. Arcs between other words do not change at all.
#
# Below left, the modifiers of the verb under lower and lower limits. To its right, how the probability that *friend* is
# the head of *in* moves with each score (rows are modifiers, columns heads). Without the limit it depends on the scores
# of *in* alone; with it, on those of all who compete for a place with the verb: a reason for *to* to leave the verb is
# one for *in* to stay.


def credit(p):
    return torch.autograd.grad(p[at["in"], at["friend"]], scores)[0]


with viz.style():
    figure = plt.figure(figsize=(10.8, 8.6), layout="constrained")
    axes = figure.subplot_mosaic("AAA;BCD", height_ratios=(1.15, 1), width_ratios=(1.1, 1, 1))
    viz.arcs(free, words, below=held, title="no limit", ax=axes["A"])
    axes["A"].text(0, 0.06, "at most five", fontweight="bold", fontsize=9.5, transform=axes["A"].transAxes)

    bars = axes["B"]
    limits = {"none": n, "5": 5, "4": 4, "3": 3, "2": 2}
    shares = torch.stack([parse(arc_scores, limit)[0][:, at["sold"]] for limit in limits.values()])
    base = torch.zeros(len(limits), dtype=torch.float64)
    names = "captain boat quietly yesterday to in".split()
    for name, shade in zip(names, plt.get_cmap("viridis")(torch.linspace(0.1, 0.75, 6).numpy()), strict=True):
        height = shares[:, at[name]]
        bars.bar(list(limits), height.numpy(), bottom=base.numpy(), color=shade, width=0.88, edgecolor="white")
        bars.text(0, base[0] + height[0] / 2, name, ha="center", va="center", color="white", fontsize=7.5)
        base = base + height
    bars.set(title="modifiers of sold, on average", xlabel="limit")
    for ax, p, title in zip((axes["C"], axes["D"]), (free, held), ("no limit", "at most five"), strict=True):
        gradient = credit(p)
        ax.imshow(gradient.numpy(), cmap="RdBu", vmin=-0.6, vmax=0.6)
        for i, j in (gradient.abs() > 1e-9).nonzero().tolist():
            g = gradient[i, j].item()
            ax.text(j, i, f"{g:+.1f}", ha="center", va="center", fontsize=6, color="white" if abs(g) > 0.3 else "black")
        ax.set_xticks(range(n), words, rotation=90, fontsize=7)
        ax.set_yticks(range(n), words, fontsize=7)
        ax.spines[:].set_visible(True)
        ax.set_title(f"in under friend, {title}")
plt.show()
