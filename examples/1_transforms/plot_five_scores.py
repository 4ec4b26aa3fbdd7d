r"""
How sparse is the answer?
=========================

Five scores, and one family of maps: :math:`\Omega` is the Tsallis entropy with its sign turned, and alpha says how soon
it lets an entry go.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# All maps keep the order of the scores. Softmax gives something to everyone; with alpha = 1.5 the lowest score leaves,
# with 2 two others, and with infinity the highest takes all.

z = torch.tensor([1.0716, -1.1221, -0.3288, 0.3368, 0.0425], dtype=torch.float64)
answers = {
    "softmax, alpha = 1": ("softmax", omegamax.softmax(z)),
    "entmax, alpha = 1.5": ("entmax15", omegamax.entmax15(z)),
    "sparsemax, alpha = 2": ("sparsemax", omegamax.sparsemax(z)),
    "argmax, alpha = infinity": ("entmax", omegamax.entmax(z, alpha=float("inf"))),
}
for name, (_, p) in answers.items():
    print(f"{name:25}", " ".join(f"{x:.3f}" for x in p.tolist()), f" {int((p > 0).sum())} of 5")

with viz.style():
    figure, axes = viz.panels(4, 4, size=(2.7, 2.4), share=True)
    for ax, (name, (colour, p)) in zip(axes, answers.items(), strict=True):
        ax.bar(range(1, 6), p.tolist(), width=0.7, color=viz.colour(colour))
        for i, x in enumerate(p.tolist(), start=1):
            ax.text(i, x + 0.02, f"{x:.2f}" if x else "0", ha="center", fontsize=9)
        ax.set(title=name, xticks=range(1, 6), xlabel="entry", ylim=(0, 1.15))
    axes[0].set_ylabel("probability")
plt.show()
