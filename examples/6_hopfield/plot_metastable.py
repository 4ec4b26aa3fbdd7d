"""
What lies between patterns that resemble each other?
====================================================

A query that cannot tell similar patterns apart ends between them, in a metastable state. How many patterns make it up
is a matter of the map.
"""

import itertools

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.hopfield import Memory, beta_for

# %%
# Sixteen patterns on a sphere, in families of 1, 2, 3, 4 and 6. Members of a family resemble each other.

generator = torch.Generator().manual_seed(4)


def on_sphere(*shape):
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return x / x.norm(dim=-1, keepdim=True)


sizes = [1, 2, 3, 4, 6]
heads = on_sphere(len(sizes), 48).repeat_interleave(torch.tensor(sizes), 0)
patterns = heads + 0.45 * on_sphere(sum(sizes), 48)
patterns = patterns / patterns.norm(dim=-1, keepdim=True)
family = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
queries = patterns + 0.25 * on_sphere(sum(sizes), 48)

# %%
# One query near each pattern, retrieved with a moderate beta. The weights at the end, a row for each query: softmax
# spreads over the family with a little of everything else, which pulled one query away to the largest. Sparse maps keep
# to the family: 1.5-entmax and normmax take it whole, in nearly equal shares, where sparsemax already divides it.
# Three-subsets take three, whatever the family.

beta = 5.0
omegas = {
    "softmax": omegamax.Shannon(),
    "entmax15": omegamax.Tsallis(1.5),
    "sparsemax": omegamax.Tsallis(2.0),
    "normmax": omegamax.NormEntropy(5.0),
    "k_subsets": omegamax.KSubsets(3),
}
titles = ["softmax", "1.5-entmax", "sparsemax", "5-normmax", "3-subsets"]
found = {name: Memory(patterns, omega, beta).retrieve(queries, steps=200) for name, omega in omegas.items()}
for name, result in found.items():
    print(f"{name}: {[int(n) for n in (result.weights > 1e-6).sum(-1)]} patterns in the state")

# %%
# As beta grows states fall apart into patterns: sizes, as 1 / sum of squared weights, for queries near the family of
# six. A state of equal shares counts as many patterns as it has. The lines on the axis say from which beta on every
# pattern is a fixed point; softmax has none.

betas = torch.logspace(-0.3, 2.3, 40, dtype=torch.float64)
large = queries[family == 4]
effective = {}
for name in list(omegas)[:4]:
    ends = Memory(patterns, omegas[name], betas[:, None, None]).retrieve(large.expand(40, -1, -1), 300, record=False)
    effective[name] = 1 / ends.weights.square().sum(-1).mean(-1)

with viz.style():
    figure = plt.figure(figsize=(11.5, 5.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    for ax, title, result in zip(top.subplots(1, 5), titles, found.values(), strict=True):
        viz.heatmap(result.weights, title=title, ax=ax).images[0].set_clim(0, 1)
        edges = torch.tensor([0, *sizes]).cumsum(0) - 0.5
        for low, high in itertools.pairwise(edges):
            ax.add_patch(plt.Rectangle((low, low), high - low, high - low, fill=False, edgecolor="#e09f3e"))
        ax.set(xticks=[], yticks=[], xlabel="weights of the patterns")
    top.axes[0].set_ylabel("queries, by family")
    falling, falls_apart = bottom.subplots(1, 2)
    for name, title in zip(effective, titles[:4], strict=True):
        energies = found[name].energies
        drop = (energies - energies[-1]).mean(-1)
        falling.plot(drop[:12], "o-", ms=3, color=viz.colour(name), label=title)
        falls_apart.plot(betas, effective[name], color=viz.colour(name), linewidth=1.7)
        needed = float(beta_for(patterns, omegas[name]))
        if needed < 1e9:
            falls_apart.axvline(needed, ymax=0.06, color=viz.colour(name), linewidth=2.5)
    falling.set(title="energy above that at rest", xlabel="step", yscale="symlog", ylim=(0, None))
    falling.set_yscale("symlog", linthresh=1e-6)
    falling.legend()
    falls_apart.set(title="patterns in the state, near the family of six", xlabel="beta", xscale="log", ylim=(0, 16.5))
plt.show()
