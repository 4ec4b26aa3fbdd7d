"""
How many basis functions does a text need?
==========================================

Continuous attention makes a function of the words, by ridge regression on a few bumps. Too few cannot follow, and too
many follow every word's own whim.
"""

import matplotlib.pyplot as plt
import torch

from omegamax import viz
from omegamax.basis import GaussianRBF, RidgeFit, grid_positions

# %%
# A text of 280 words over the unit interval: 16 features that follow a common course, with some praise early on and a
# harsh verdict later. Each word is off by something of its own.

length, features = 280, 16
generator = torch.Generator().manual_seed(0)
t = grid_positions(length, dtype=torch.float64)  # [280, 1], the middle of each word's cell


def noise(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def bump(centre, width):
    return (-(t - centre).square() / (2 * width**2)).exp()


course = 1.1 * bump(0.2, 0.035) - 1.7 * bump(0.6, 0.06) + 0.9 * bump(0.76, 0.025) + 0.25 * (9 * t).sin()
words = course + 0.4 * noise(length, features)

# %%
# The value function is a ridge regression of the words on J bumps. How many? If bumps narrow as they become more, too
# many of them follow each single word. If they keep their width, it is the width that limits the detail, and more of
# them change little.


def bumps(count, width):
    return GaussianRBF.grid(count, 1, variance=width**2, dtype=torch.float64)


counts = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]
errors = {}
for count in counts:
    for setting, width in (("width 1/J", 1 / count), ("width 0.1", 0.1)):
        fit = RidgeFit(bumps(count, width), length, penalty=0.01)
        value = fit.reconstruct(fit(words))
        for target, signal in (("words", words), ("their course", course)):
            errors.setdefault((setting, target), []).append((value - signal).square().mean().sqrt().item())
best = errors["width 1/J", "their course"]
print(f"nearest to the course: {counts[best.index(min(best))]} bumps of width 1/J")

# %%
# One feature of the words with three value functions, and how far all of them are off.

with viz.style():
    figure, (above, error) = viz.panels(2, 2, size=(5.2, 2.9))
    above.plot(t, words[:, 0], ".", ms=3, color="#b8c0c9", label="words")
    fine = grid_positions(1200, dtype=torch.float64)
    for count, shade in zip((6, 24, 192), plt.get_cmap("viridis")([0.85, 0.5, 0.1]), strict=True):
        fit = RidgeFit(bumps(count, 1 / count), length, penalty=0.01)
        value = fit.reconstruct(fit(words[:, :1]), fine)
        above.plot(fine, value, color=shade, linewidth=0.8 if count == 192 else 1.8, label=f"J = {count}")
    above.set(
        xlim=(0, 1), ylim=(-2.8, 2.7), title="value functions with bumps of width 1/J", xlabel="place in the text"
    )
    above.legend(ncols=4, loc="upper center", handlelength=1, columnspacing=1.2)
    for (setting, target), row in errors.items():
        shade = viz.colour("entmax15" if setting == "width 1/J" else "k_subsets")
        error.plot(counts, row, "-" if target == "their course" else ":", color=shade, label=f"{setting}, to {target}")
    error.set(xscale="log", ylim=(0, 0.9), title="root mean square distance of the value function", xlabel="J")
    error.set_xticks(counts[::2], counts[::2])
    error.minorticks_off()
    error.legend(ncols=2)
plt.show()
