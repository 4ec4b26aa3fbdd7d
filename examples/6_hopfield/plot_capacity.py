"""
How much can be remembered?
===========================

The more patterns a memory holds, the more they get in each other's way. Where that begins differs by orders of
magnitude.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.hopfield import Memory, Power, capacity

generator = torch.Generator().manual_seed(0)
counts = [round(2 ** (k / 2)) for k in range(2, 27)]  # 2 to 8192 patterns
asked = 100  # of which so many are asked for; where there are fewer, several memories make up for it

# %%
# **Patterns of 1 and -1**, in 64 dimensions, asked for with 6 entries flipped. The classic memory holds some 0.14
# patterns per dimension. Polynomials hold a power of the dimension, and the exponential has no limit in sight here.

memories = {
    "classic": lambda x: Memory.classic(x),
    "power 3": lambda x: Memory.dense(x, 3),
    "power 5": lambda x: Memory(x, Power(5), psi="sign"),
    "exponential": lambda x: Memory.exponential(x),
}
binary = {name: [] for name in memories}
for count in counts:
    x = torch.where(torch.rand(max(1, asked // count), count, 64, generator=generator) < 0.5, -1.0, 1.0)
    q = x[:, :asked].clone()
    flipped = torch.rand(q.shape, generator=generator).argsort(-1) < 6
    q[flipped] *= -1
    for name, memory in memories.items():
        state = memory(x).retrieve(q, steps=20, record=False).state
        binary[name].append((state == x[:, :asked]).all(-1).double().mean().item())
for name, rates in binary.items():
    print(f"{name}: all recalled up to {max([n for n, r in zip(counts, rates, strict=True) if r == 1], default=0)}")

# %%
# **Patterns on the sphere**, in 14 dimensions, asked for from a distance of 0.1, in one step. Retrieval counts if it is
# exact, to the last bit: softmax never is, and comes within 0.01 less often than the others are exact. Sparsemax and
# normmax have the same margin, and so the same curve. Dots on the axis are what theory promises: so many patterns are
# retrieved from any direction, all of them, with probability 0.9.

beta, away = 7.0, 0.1
maps = {"entmax15": "1.5-entmax", "sparsemax": "sparsemax", "normmax": "2-normmax"}
exact = {name: [] for name in maps} | {"softmax": []}
for count in counts:
    x = torch.randn(max(1, asked // count), count, 14, generator=generator, dtype=torch.float64)
    x = x / x.norm(dim=-1, keepdim=True)
    aside = torch.randn(x[:, :asked].shape, generator=generator, dtype=torch.float64)
    q = x[:, :asked] + away * aside / aside.norm(dim=-1, keepdim=True)
    for name in maps:
        exact[name].append((Memory(x, name, beta).step(q) == x[:, :asked]).all(-1).double().mean().item())
    near = (Memory(x, "softmax", beta).step(q) - x[:, :asked]).norm(dim=-1) < 0.01
    exact["softmax"].append(near.double().mean().item())
promised = {name: capacity(14, name, beta, 0.1, radius=away) for name in maps}
print("promised:", {name: int(n) for name, n in promised.items()})

# %%
# What theory promises grows exponentially with the dimension: by how much depends on the margin over beta.

dimensions = list(range(4, 65))
with viz.style():
    figure, (first, second, third) = viz.panels(3, 3, size=(3.7, 3.3))
    for name, rates in binary.items():
        own = {"classic": "softmax", "power 3": "k_subsets", "power 5": "entmax", "exponential": "entmax15"}[name]
        first.plot(counts, rates, color=viz.colour(own), linewidth=1.7, label=name)
    first.axvline(0.138 * 64, color="#d9dee4", zorder=0)
    first.set(title="signs, 6 of 64 flipped", ylabel="recalled exactly")
    for name, rates in exact.items():
        label = maps.get(name, "softmax, within 0.01")
        wide = (
            {"linewidth": 5, "alpha": 0.4, "zorder": 1} if name == "normmax" else {"linewidth": 1.7}
        )  # two lines are one
        second.plot(counts, rates, color=viz.colour(name), label=label, **wide)
    for name, n in promised.items():
        second.plot(
            [n],
            [0],
            "o",
            color=viz.colour(name),
            clip_on=False,
            ms=6 if name == "sparsemax" else 10,
            zorder=4 + (name == "sparsemax"),
        )
    second.set(title="on a sphere, in one step")
    for sharpness, shade in ((2.0, "#a3cbe5"), (5.0, "#5b9fcb"), (10.0, "#2176ae"), (50.0, "#123f5e")):
        held = [capacity(d, "sparsemax", sharpness, 0.1) for d in dimensions]
        third.plot(dimensions, held, color=shade, linewidth=1.7, label=f"beta = {sharpness:g}")
    third.set(title="promised for sparsemax", xlabel="dimension", yscale="log")
    for ax in (first, second):
        ax.set(xscale="log", xlabel="patterns stored", ylim=(0, 1.03))
    for ax in (first, second, third):
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
plt.show()
