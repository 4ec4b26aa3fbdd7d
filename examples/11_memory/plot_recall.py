"""
What is left of a long past?
============================

64 vectors have to stand for thousands. Which of them can still be told, and how well, depends on how old they are.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from omegamax import viz
from omegamax.densities import Gaussian
from omegamax.nn import LongTermMemory

# %%
# A past of 4,096 vectors that comes in segments of 128: features that wander at three speeds, a third of them each.

torch.manual_seed(0)
segments, size, slots, features = 32, 128, 64, 48
time = segments * size
speeds = [time // period for period in (1024, 256, 64)]
signal = torch.cat(
    [F.interpolate(torch.randn(16, 1, k + 1), size=time, mode="linear").squeeze(1) for k in speeds]
).T.contiguous()  # [4096, 48]
signal = signal / signal.std(0)

# %%
# Four memories of 64 vectors. A **cache** has the last 64, and nothing else. An **average** presses its 64 vectors into
# 48 when a segment comes, by averaging neighbours, and puts averages of the new ones behind them. The **signal** of
# `LongTermMemory` does the same with a continuous function: 64 coefficients of bumps. With **sticky** memories it is
# told that attention was at one place in the past, and gives it more room; here, at the segment that came tenth.

contraction = 0.75
memory = LongTermMemory(features, slots, contraction=contraction)
sticky = LongTermMemory(features, slots, contraction=contraction, sticky=0.7)


def pool(x, count):
    return F.adaptive_avg_pool1d(x.T, count).T


def stretch(t, histogram):
    """Where the old time t lies, by the distribution function of attention: what was attended to is wider."""
    share = 0.7 * histogram / histogram.sum() + 0.3 / len(histogram)
    k = min(int(t * len(histogram)), len(histogram) - 1)
    return float(share[:k].sum() + share[k] * (t * len(histogram) - k))


tenth = 9
states = {"signal": memory.initial_state(1), "sticky": sticky.initial_state(1)}
averages = signal[:size].new_zeros(0, features)
edges = []  # of each segment, where it begins and ends by now
warped = []  # the same for the sticky memory, where time is not even
for i, segment in enumerate(signal.split(size)):
    kept = round(contraction * slots)
    averages = pool(segment, slots) if i == 0 else torch.cat([pool(averages, kept), pool(segment, slots - kept)])
    states["signal"] = memory.update(states["signal"], segment[None])
    state = states["sticky"]
    if i > tenth:
        low, high = warped[tenth]
        middle = torch.full((1, 1, 1, 1), (low + high) / 2)
        state = sticky.observe(state, Gaussian(middle, max(high - low, 0.02) ** 2 / 4))
        warped = [(stretch(a, state.histogram[0]), stretch(b, state.histogram[0])) for a, b in warped]
    states["sticky"] = sticky.update(state, segment[None])
    start = contraction if i else 0.0
    edges = [(contraction * a, contraction * b) for a, b in edges] + [(start, 1.0)]
    warped = [(contraction * a, contraction * b) for a, b in warped] + [(start, 1.0)]

# %%
# Each memory is asked for every vector of the past where it should be. What counts is the share of it that is told, as
# one of squares, by age: 1 is perfect, 0 is no better than saying nothing.


def recall(name, i):
    low, high = (warped if name == "sticky" else edges)[i]
    t = low + (high - low) * (torch.arange(size) + 0.5) / size
    if name == "cache":
        return torch.where((torch.arange(size) >= time - slots - i * size)[:, None], signal[i * size :][:size], 0.0)
    if name == "average":
        return averages[(t * slots).long().clamp(max=slots - 1)]
    return (sticky if name == "sticky" else memory).recall(states[name], t)[0]


told = {}
with torch.no_grad():
    for name in ("cache", "average", "signal", "sticky"):
        past = torch.stack([recall(name, i) for i in range(segments)])
        wanted = signal.reshape(past.shape)
        wrong, all_of_it = (x.square().unflatten(-1, (3, -1)).mean((1, 3)) for x in (past - wanted, wanted))
        told[name] = (1 - wrong / all_of_it).clamp(min=0)  # [segments, 3]
for name, share in told.items():
    print(f"{name}: {share.mean():.3f} of all, {share[tenth].mean():.3f} of the tenth segment")

# %%
# The cache is perfect and short. The others forget what is fast first, and what is slow much later: bumps keep some
# more of it than averages do. What was attended to stays, at the expense of the rest.

ages = (segments - torch.arange(segments)) * size - size / 2
colours = {"cache": "softmax", "average": "k_subsets", "signal": "sparsemax", "sticky": "entmax15"}
with viz.style():
    figure, axes = viz.panels(3, 3, size=(3.4, 2.9), share=True)
    for k, (ax, period) in enumerate(zip(axes, (1024, 256, 64), strict=True)):
        for name, share in told.items():
            ax.plot(ages, share[:, k], color=viz.colour(colours[name]), linewidth=1.7, label=name)
        ax.axvline(ages[tenth], color="#d9dee4", zorder=0)
        ax.set(title=f"changes every {period} vectors", xlabel="age, in vectors", ylim=(0, 1.03))
    axes[0].set_ylabel("share told")
    axes[1].legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2))
plt.show()
