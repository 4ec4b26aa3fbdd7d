"""
Are there two of them in the bag?
=================================

Only the bag has a label: positive if at least two of its instances are of a certain kind. A network pools the
instances and has to find out which kind that is. One winner is not enough to tell one from two; a pooling that takes
two is made for it.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from omegamax import viz
from omegamax.models.bag_classifier import BagClassifier, VectorEncoder

torch.set_num_threads(1)  # small networks do not gain by more

# %%
# Instances are vectors of one of six kinds, with noise; bags have 6 to 14 of them. A bag for which the answer is no has
# one instance of the kind or none.

generator = torch.Generator().manual_seed(0)
kinds = torch.randn(6, 8, generator=generator)


def draw(count):
    """Return bags ``[B, 14, 8]``, a mask of those that are there, and which are of the kind."""
    mask = torch.arange(14) < torch.randint(6, 15, (count, 1), generator=generator)
    kind = torch.randint(1, 6, (count, 14), generator=generator)
    wanted = torch.randint(0, 2, (count, 1), generator=generator)  # half of the bags have two or three
    number = torch.randint(0, 2, (count, 1), generator=generator) + 2 * wanted
    place = torch.rand(count, 6, generator=generator).argsort(-1)  # among the first six, which every bag has
    kind[:, :6] = kind[:, :6].where(place >= number, torch.tensor(0))
    return kinds[kind] + 0.5 * torch.randn(count, 14, 8, generator=generator), mask, (kind == 0) & mask


def train(name, **options):
    """Return a network whose pooling has a certain map, trained, and its share of right answers on other bags."""
    torch.manual_seed(0)
    model = BagClassifier(VectorEncoder(8, dim=16), name, options, beta=5.0)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(400):
        bags, mask, special = draw(64)
        loss = F.binary_cross_entropy_with_logits(model(bags, mask).logits, (special.sum(-1) >= 2).float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    bags, mask, special = draw(2000)
    right = (model.eval()(bags, mask).logits > 0) == (special.sum(-1) >= 2)
    return model, right.float().mean().item()


# %%
# The same network with three poolings, and what they look at in two bags: one instance of the kind (shaded), and two.
# Rings are weights of exactly 0.

trained = {
    "softmax": ("softmax", *train("softmax")),
    "sparsemax": ("sparsemax", *train("sparsemax")),
    "2-subsets": ("k_subsets", *train("k_subsets", k=2)),
}
bags, mask, special = draw(200)
found = [int((special.sum(-1) == k).nonzero()[0]) for k in (1, 2)]

with viz.style(), torch.no_grad():
    figure, axes = viz.panels(6, 3, size=(3.4, 2.0), share=True)
    for column, (name, (colour, model, right)) in enumerate(trained.items()):
        print(f"{name}: {right:.1%} of the bags right")
        answer = model(bags, mask)
        for row, bag in enumerate(found):
            ax, there = axes[3 * row + column], mask[bag]
            weights = answer.weights[bag].mean(0)[there]
            for i in special[bag].nonzero()[:, 0].tolist():
                ax.axvspan(i - 0.5, i + 0.5, color="#e4e8ec", linewidth=0)
            ax.bar(range(len(weights)), weights.tolist(), width=0.7, color=viz.colour(colour))
            zeros = (weights == 0).nonzero()[:, 0] if name != "softmax" else torch.zeros(0)  # its are only small
            ax.plot(zeros, 0.03 + torch.zeros(len(zeros)), "o", ms=4, mfc="white", mec="#52606d")
            chance = answer.logits[bag].sigmoid().item()
            title = f"{name}, {right:.0%} right" if row == 0 else ""
            ax.set(
                title=title,
                ylim=(0, 1.05),
                xlim=(-0.6, 13.6),
                xticks=[],
                xlabel=f"{row + 1} of them: positive with {chance:.2f}",
            )
    for ax in axes[::3]:
        ax.set_ylabel("weight")
plt.show()
