r"""
How do entries leave as it gets colder?
=======================================

:math:`\mathrm{argmax}_\Omega(z / T)` from warm, where all entries are alike, to cold, where few are left. Which ones,
and whether one at a time, is what each :math:`\Omega` is chosen for.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz

# %%
# Above, maps onto the simplex. Softmax never reaches zero. With entmax the entries go one by one, and with normmax what
# stays has nearly equal shares until the next one goes. Below, structure: 2-subsets end in two entries with 1 each. A
# bonus of 1 for neighbours makes the last two lead while scores are small beside it, and when it is cold the scores
# decide. Fusedmax keeps neighbours equal until they part, and a bound of 0.5 leaves no less than two.

z = torch.tensor([1.0716, -1.1221, -0.3288, 0.3368, 0.0425], dtype=torch.float64)
temperatures = torch.logspace(-1, 1, 201, dtype=torch.float64)
scaled = z / temperatures[:, None]
maps = {
    "softmax": omegamax.softmax(scaled),
    "1.5-entmax": omegamax.entmax15(scaled),
    "sparsemax": omegamax.sparsemax(scaled),
    "5-normmax": omegamax.normmax(scaled, alpha=5.0),
    "2-subsets": omegamax.k_subsets(scaled, 2),
    "2 neighbours": omegamax.sequential_k_subsets(scaled, 2, transition=1.0),
    "fusedmax": omegamax.fusedmax(scaled, strength=0.25),
    "at most 0.5": omegamax.constrained_sparsemax(scaled, upper=0.5),
}
for name, p in maps.items():
    print(f"{name:12} entries left at T = 0.1, 1, 10:", [int((p[i] > 0).sum()) for i in (0, 100, 200)])

with viz.style():
    figure, axes = viz.panels(len(maps), 4, size=(2.7, 2.2))
    names = [f"{score:+.2f}" for score in z.tolist()]
    for ax, (name, p) in zip(axes, maps.items(), strict=True):
        viz.path(temperatures, p, labels=names, title=name, ax=ax, key=False)
        ax.set(ylim=(0, 1.05))
    for ax in axes[4:]:
        ax.set_xlabel("temperature T")
    for ax in axes[::4]:
        ax.set_ylabel("probability")
    key = dict(title="scores, in their order", alignment="left", ncols=5, handlelength=1.4, fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", **key)
plt.show()
