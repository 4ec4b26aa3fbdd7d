"""
How do you attend to a stretch of a long text?
==============================================

Discrete attention weighs each word by itself. Continuous attention makes a signal of the words, and attends to an
interval of it.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.basis import GaussianRBF, RidgeFit, grid_positions
from omegamax.nn import ContinuousAttention

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
# Scores point at the verdict, not without noise. Softmax gives every word some weight; sparsemax, at a temperature of
# 16, picks a few. The density has the mean and the variance of the weights: two numbers for 280. A Gaussian is positive
# from the first word to the last, and what little weight softmax leaves all over the text makes it wide: its context is
# the milder one. The truncated parabola is exactly 0 outside an interval.

scores = 7 * bump(0.6, 0.08).squeeze(-1) + 0.8 * noise(length)
weights = {"softmax": omegamax.softmax(scores), "sparsemax": omegamax.sparsemax(scores / 16)}
basis = GaussianRBF.grid(24, 1, variance=1 / 24**2, dtype=torch.float64)
densities = {}
for name, alpha in (("softmax", 1.0), ("sparsemax", 2.0)):
    attend = ContinuousAttention(basis, alpha=alpha, positions=length)
    context, densities[name] = attend(words, weights[name])
    single = weights[name] @ words
    reached = int((weights[name] > 0).sum()), int(densities[name].support_contains(t).sum())
    print(f"{name}: {reached[0]} words with weight, {reached[1]} under the density;", end=" ")
    print(f"mean of the context, discrete {single.mean():.2f}, continuous {context.mean():.2f}")

# %%
# One feature of the words and its value function, and the weights, as mass per unit of length, with their densities.

with viz.style():
    figure, (above, *below) = viz.panels(3, 3, size=(3.7, 2.7))
    fine, fit = grid_positions(1200, dtype=torch.float64), RidgeFit(basis, length, penalty=0.01)
    above.plot(t, words[:, 0], ".", ms=3, color="#b8c0c9", label="words")
    above.plot(fine, fit.reconstruct(fit(words[:, :1]), fine), color="#1f2933", label="value function")
    above.set(xlim=(0, 1), ylim=(-2.8, 2.7), title="one feature of the text", xlabel="place in the text")
    above.legend(ncols=2, loc="upper center", handlelength=1)
    for ax, (name, p) in zip(below, densities.items(), strict=True):
        ax.stairs(length * weights[name], torch.linspace(0, 1, length + 1), fill=True, color="#c3cad2")
        viz.density(p, colour=viz.colour(name), title=f"{name}: weights and density", ax=ax)
        ax.set(ylim=(0, 36), xlabel="place in the text")
plt.show()
