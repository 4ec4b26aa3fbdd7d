r"""
What does an integral cost?
===========================

Continuous attention with compact support needs integrals of a Gaussian bump against a truncated paraboloid over an
ellipse. Five ways to compute one, from a library's adaptive rule in a box to a sum over 100 angles, and what they take.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.integrate import dblquad, quad
from scipy.special import erf

from omegamax import viz
from omegamax.basis import GaussianRBF
from omegamax.densities import TruncatedParaboloid

torch.set_num_threads(1)
rng = np.random.default_rng(0)

# %%
# A density over the unit square and a bump, at random. In coordinates u in which the support is the unit disc the
# density is :math:`\tfrac2\pi (1 - |u|^2)`, whatever the ellipse, and the bump another Gaussian.


def draw():
    turn = rng.uniform(-0.3, 0.3, (2, 2))
    covariance = turn @ turn.T / 4 + 0.004 * np.eye(2)
    density = TruncatedParaboloid.from_moments(torch.tensor(rng.uniform(0.3, 0.7, 2)), torch.tensor(covariance))
    return density, torch.tensor(rng.uniform(0.2, 0.8, (1, 2))), float(rng.uniform(0.005, 0.05))


class Disc:
    """The two in the coordinates of the disc: the precision, the centre and the height of the bump there."""

    def __init__(self, density, bump, variance):
        root = density.support_tril.numpy()
        inverse = np.linalg.inv(root)
        self.loc, self.inverse, self.det = density.loc.numpy(), inverse, np.linalg.det(root)
        self.precision = root.T @ root / variance
        self.centre = inverse @ (bump[0].numpy() - self.loc)
        self.height = 1 / (2 * np.pi * variance)

    def at(self, u, v):
        d = np.array([u - self.centre[0], v - self.centre[1]])
        bump = self.height * np.exp(-0.5 * d @ self.precision @ d)
        return 2 / np.pi * max(1 - u * u - v * v, 0.0) * bump

    def in_the_box(self, x, y):
        u, v = self.inverse @ (np.array([x, y]) - self.loc)
        return self.at(u, v) / self.det

    def along(self, angle):
        """Integrate over the radius in closed form: moments of a Gaussian on [0, 1], times 2/pi r (1 - r^2)."""
        w = np.stack([np.cos(angle), np.sin(angle)], -1)
        a = np.einsum("...i,ij,...j", w, self.precision, w)
        b = w @ self.precision @ self.centre
        middle, variance = b / a, 1 / a
        s = np.sqrt(2 * variance)
        start, end = np.exp(-(middle**2) / s**2), np.exp(-((1 - middle) ** 2) / s**2)
        m0 = s * np.sqrt(np.pi) / 2 * (erf((1 - middle) / s) + erf(middle / s))
        m1 = middle * m0 + variance * (start - end)
        m2 = middle * m1 + variance * (m0 - end)
        m3 = middle * m2 + variance * (2 * m1 - end)
        peak = self.height * np.exp(-0.5 * (self.centre @ self.precision @ self.centre - b * b / a))
        return 2 / np.pi * peak * (m1 - m3)


# %%
# The five of the table: over a box; over the square around the disc; in polar coordinates, where no edge cuts through
# the region; over the angle alone, after the radius is done by hand; and a plain sum over 100 angles. Beside them
# ``density.expect``, which takes many bumps at once.

angles = np.arange(100) * (2 * np.pi / 100)
accuracy = {"epsabs": 1e-7, "epsrel": 1e-7}
rules = {
    "2-D, box": lambda d: dblquad(lambda y, x: d.in_the_box(x, y), -0.5, 1.5, -0.5, 1.5, epsabs=1e-4, epsrel=1e-4)[0],
    "2-D, disc": lambda d: dblquad(lambda v, u: d.at(u, v), -1, 1, -1, 1, epsabs=1e-4, epsrel=1e-4)[0],
    "2-D, polar": lambda d: dblquad(
        lambda r, t: r * d.at(r * np.cos(t), r * np.sin(t)), 0, 2 * np.pi, 0, 1, **accuracy
    )[0],
    "1-D, adaptive": lambda d: quad(d.along, 0, 2 * np.pi, **accuracy)[0],
    "1-D, 100 angles": lambda d: d.along(angles).sum() * 2 * np.pi / 100,
}
pairs = [draw() for _ in range(3)]
truth = [quad(Disc(*pair).along, 0, 2 * np.pi, epsabs=1e-14, epsrel=1e-13)[0] for pair in pairs]
spent, error = {}, {}
for name, rule in rules.items():
    start = time.perf_counter()
    values = [rule(Disc(*pair)) for pair in pairs]
    spent[name] = (time.perf_counter() - start) / len(pairs)
    error[name] = max(abs(v / t - 1) for v, t in zip(values, truth, strict=True))

# %%
# One call of ``expect`` for 64 densities and 100 bumps: what one of its 6,400 integrals takes.

many = [draw() for _ in range(64)]
batch = TruncatedParaboloid(
    torch.stack([density.loc for density, *_ in many]), torch.stack([density.scale for density, *_ in many])
)
grid = GaussianRBF.grid(10, 2, variance=0.01, dtype=torch.float64)
batch.expect(grid)
start = time.perf_counter()
batch.expect(grid)
spent["expect, 6,400 at once"] = (time.perf_counter() - start) / 6400
values = [float(density.expect(GaussianRBF(bump, variance))) for density, bump, variance in pairs]
error["expect, 6,400 at once"] = max(abs(v / t - 1) for v, t in zip(values, truth, strict=True))
for name in spent:
    print(f"{name:22} {spent[name] * 1e3:10.4f} ms, relative error {error[name]:.0e}")

with viz.style():
    figure, (ax,) = viz.panels(1, 1, size=(6.6, 2.9))
    names = list(spent)[::-1]
    colours = ["#2a9d8f" if name.startswith("expect") else "#2176ae" for name in names]
    ax.barh(names, [spent[name] * 1e3 for name in names], color=colours, height=0.6)
    for i, name in enumerate(names):
        ax.annotate(f"error {error[name]:.0e}", (spent[name] * 1e3, i), (5, 0), textcoords="offset points", va="center")
    ax.set(xscale="log", xlabel="milliseconds an integral", xlim=(1e-4, 3e5))
plt.show()
