"""
Where does it look?
===================

A question about a picture, and scores that say, roughly, where in the picture its answer is. What becomes of them is up
to the attention: weights of cells, dense, sparse or in patches; an ellipse; or several ellipses.
"""

import matplotlib.pyplot as plt
import torch

import omegamax
from omegamax import viz
from omegamax.basis import GaussianRBF
from omegamax.data import Scenes, pool
from omegamax.metrics import jensen_shannon, on_grid
from omegamax.nn import ContinuousAttention, MultimodalAttention

# %%
# A picture, a question about several things in it, and the pixels that matter for the answer. It was picked, out of
# some ten, because the things in question lie apart and are found; in others the mixture puts an ellipse over two.

sample = Scenes(400, seed=0, split="val", image_size=224)[170]
grid = (14, 14)
print(sample.question, sample.answer)

# %%
# No model is trained here. The scores are made by hand: high in the cells of what matters, with noise, as those of a
# model that has understood the question but does not see very well.

matter = pool(sample.relevance, grid)
noise = torch.randn(grid, generator=torch.Generator().manual_seed(1))
scores = 4.0 * matter / matter.max() + 0.6 * noise
sharp = 0.05 * scores  # sparse maps of many cells take smaller scores

# %%
# Three kinds of weights. Softmax leaves something for every cell, sparsemax picks cells one by one, and tvmax picks
# patches of equal weight.

looks = {
    "softmax": omegamax.softmax(scores.flatten()).reshape(grid),
    "sparsemax": omegamax.sparsemax(sharp.flatten()).reshape(grid),
    "tvmax": omegamax.tvmax(sharp, 0.025),
}

# %%
# Three kinds of densities, made from softmax of the scores. One Gaussian has to cover all that matters, and what lies
# between; a truncated paraboloid as well, but it ends, at the thick line. A mixture of three (a number that
# is given away here) has a Gaussian for each.

basis = GaussianRBF.grid(10, 2, variance=0.01)
layers = {
    "continuous softmax": ContinuousAttention(basis, alpha=1.0, positions=grid),
    "continuous sparsemax": ContinuousAttention(basis, alpha=2.0, positions=grid),
    "multimodal": MultimodalAttention(basis, 3, init="kmeans++", iterations=20, positions=grid),
}
values = torch.zeros(196, 1)  # what would be attended to; the densities do not depend on it
weights = omegamax.softmax(1.6 * scores.flatten())
for name, layer in layers.items():
    looks[name] = layer.eval()(values, weights)[1]

# %%
# How many snakes does each of them see? Someone who only knew where attention is, and not what is there, would count
# the separate regions with more of it than if it were spread evenly.


def regions(density):
    """The number of connected regions ``density: [h, w]`` > 1: each takes the largest number in it."""
    inside = density > 1
    label = torch.arange(1.0, 1 + density.numel()).reshape(density.shape) * inside
    for _ in range(density.numel()):
        label = torch.nn.functional.max_pool2d(label[None], 3, stride=1, padding=1)[0] * inside
    return label[inside].unique().numel()


# %%
# All panels have one colour scale: density per unit area, 1 being attention that is spread evenly. Thin lines are at 1,
# 4 and 16. Cells and places with exactly no attention are hatched. The Jensen-Shannon divergence says how far each is
# from what matters, in bits.

answers, notes = {}, {}
for name, look in looks.items():
    density = 196 * (look if isinstance(look, torch.Tensor) else on_grid(look, grid, samples=4))
    answers[name] = str(regions(density))
    notes[name] = f"JS divergence {jensen_shannon(look, matter, size=grid, samples=4):.2f}"
    print(f"{name}: {answers[name]}, {notes[name]}")

viz.looks(
    sample.image,
    looks,
    question=sample.question.capitalize(),
    answers=answers,
    truth=sample.answer,
    relevance=sample.relevance,
    notes=notes,
    columns=4,
)
plt.show()
