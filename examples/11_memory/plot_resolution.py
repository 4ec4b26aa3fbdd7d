"""
Does attention have to know how finely it samples?
==================================================

A layer that attends between basis functions does not: its cost does not grow with the square of the length, and the
same weights see the same signal at any resolution.
"""

import time

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.basis import grid_positions
from omegamax.nn import ContinuousEncoderLayer

# %%
# Two layers with the same parameters, which have the same names: one of torch, between positions, and one between 64
# functions. Each is given a signal of 32 features at more and more positions.

torch.manual_seed(0)
features, heads = 32, 4
continuous = ContinuousEncoderLayer(features, heads, 64, batch_first=True, functions=64, transform="softmax").eval()
ordinary = torch.nn.TransformerEncoderLayer(features, heads, 64, batch_first=True).eval()
ordinary.load_state_dict(continuous.state_dict())
layers = {"between positions": (ordinary, "softmax"), "between 64 functions": (continuous, "sparsemax")}
phases, speeds = torch.randn(features), 20 * torch.rand(features)


def sample(length):
    return (speeds * grid_positions(length) + phases).sin()[None]


seconds = {name: [] for name in layers}
lengths = [2**k for k in range(7, 13)]
with torch.no_grad():
    for length in lengths:
        for name, (layer, _) in layers.items():
            x = sample(length)
            layer(x)  # the matrix of the fit is kept
            runs = []
            for _ in range(3):
                start = time.perf_counter()
                layer(x)
                runs.append(time.perf_counter() - start)
            seconds[name].append(min(runs))
ratio = seconds["between positions"][-1] / seconds["between 64 functions"][-1]
print(f"at {lengths[-1]} positions: {ratio:.0f} times faster")

# %%
# The cell centres of L positions are among those of 3 L, where both outputs can be compared. The finest sampling counts
# as the truth. With softmax, attention between positions converges too: it is a sum over the signal. It only pays for
# every position.

steps = [3**k for k in range(2, 7)]
off = {name: [] for name in layers}
with torch.no_grad():
    for name, (layer, _) in layers.items():
        finest = layer(sample(3**7))
        for length in steps:
            every = 3**7 // length
            off[name].append((layer(sample(length)) - finest[:, every // 2 :: every]).abs().max().item())
for name, errors in off.items():
    print(name, "differs by", ", ".join(f"{e:.4f} at {n}" for e, n in zip(errors, steps, strict=True)))

with viz.style():
    figure, (first, second) = viz.panels(2, 2, size=(3.7, 3.0))
    for name, (_, colour) in layers.items():
        first.plot(lengths, [1000 * s for s in seconds[name]], color=viz.colour(colour), linewidth=1.7, label=name)
        second.plot(steps, off[name], color=viz.colour(colour), linewidth=1.7, label=name)
    first.set(title="milliseconds", xscale="log", yscale="log", xlabel="positions")
    second.set(title="distance from the finest", xscale="log", yscale="log", xlabel="positions")
    first.set_xticks(lengths, [str(n) for n in lengths], minor=False)
    second.set_xticks(steps, [str(n) for n in steps])
    for ax in (first, second):
        ax.minorticks_off()
    first.legend(fontsize=8)
plt.show()
