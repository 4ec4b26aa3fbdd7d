"""Which instances of a bag a network looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax.tasks.mil.data import NamedBag
from omegamax.tasks.mil.task import MILTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DIGITS = 3  # dimensions of an instance that is a picture


@dataclass(frozen=True)
class BagLook:
    """What one network makes of a bag.

    Args:
        name: of the network.
        omega: the map of it.
        probability: of the bag's being positive.
        weights: of the instances, mean over the heads, ``[n]``.
    """

    name: str
    omega: str
    probability: float
    weights: Tensor

    def line(self) -> str:
        """Write the weights in a line; a dot is exactly zero in every head.

        >>> BagLook("sparsemax", "sparsemax", 0.9, torch.tensor([0.25, 0.0, 0.75])).line()
        '.25 . .75'
        """
        return " ".join("." if w == 0 else f"{w:.2f}".removeprefix("0") for w in self.weights.tolist())


@dataclass(frozen=True)
class ExplainedBag:
    """A bag, its label, and what networks make of it."""

    id: str
    label: int
    instances: Tensor
    positive: Tensor | None
    looks: tuple[BagLook, ...]


def explain(tasks: Mapping[str, MILTask], named: NamedBag) -> ExplainedBag:
    """Show a bag to networks, by name.

    >>> from omegamax.data import Bag
    >>> shown = explain({"mine": MILTask("sparsemax", features=4).eval()}, NamedBag("a", Bag(torch.randn(5, 4), 1)))
    >>> shown.looks[0].name, shown.looks[0].weights.shape
    ('mine', torch.Size([5]))
    """
    bag = named.bag
    looks = []
    for name, task in tasks.items():
        with torch.no_grad():
            logits, weights = task.eval().model(bag.instances[None].to(task.device))
        looks.append(BagLook(name, task.network["omega"], float(logits.sigmoid()), weights[0].mean(0).cpu()))
    return ExplainedBag(named.id, bag.label, bag.instances.cpu(), bag.positive, tuple(looks))


def draw(shown: Sequence[ExplainedBag]) -> Figure:
    """Draw a row of instances for each bag, and below it a row of weights for each network.

    Instances that make a bag positive are framed, where they are known; a hollow dot is a weight of exactly zero in
    every head. The number over a row of weights is the probability that the network gives the bag of being positive.
    A key beneath says so.
    """
    from omegamax import viz
    from omegamax.viz.key import draw_key
    from omegamax.viz.style import pyplot

    size = max(len(bag.instances) for bag in shown)
    first = 1.0 if shown[0].instances.dim() == 1 + _DIGITS else 0.5
    heights = [height for bag in shown for height in (first, *[0.9] * len(bag.looks))]
    with viz.style():
        figure, axes = pyplot().subplots(
            len(heights),
            1,
            figsize=(max(5.0, 0.72 * size + 0.8), 0.95 * sum(heights)),
            height_ratios=heights,
            layout="constrained",
            sharex=True,
            squeeze=False,
        )
        row = iter(axes[:, 0])
        for bag in shown:
            _instances(next(row), bag)
            top = max(float(look.weights.max()) for look in bag.looks)
            for look in bag.looks:
                ax = viz.bars(look.weights, colour=viz.colour(look.omega), ax=next(row), key=False)
                ax.set_title(look.name, color=viz.colour(look.omega))
                ax.set_title(f"p(positive) {look.probability:.2f}", loc="right", fontweight="normal")
                ax.set_xlim(-0.6, size - 0.4)
                ax.set_ylim(0, 1.05 * top)
                ax.set_ylabel("weight")
        draw_key(figure, grow=True)
    return figure


def _instances(ax: Axes, bag: ExplainedBag) -> None:
    from omegamax.viz import Mark
    from omegamax.viz.key import note
    from omegamax.viz.style import INK, MUTED, families, legible

    pictures = bag.instances.dim() == 1 + _DIGITS
    positive = [False] * len(bag.instances) if bag.positive is None else bag.positive.tolist()
    for place, (instance, counts) in enumerate(zip(bag.instances, positive, strict=True)):
        if pictures:
            around: Any = (place - 0.42, place + 0.42, 0.84, 0.0)
            ax.imshow(1 - instance[0].numpy(), cmap="gray", vmin=0, vmax=1, extent=around)
            if counts:
                edges = [place - 0.44, place + 0.44, place + 0.44, place - 0.44, place - 0.44]
                ax.plot(edges, [-0.02, -0.02, 0.86, 0.86, -0.02], color=INK, linewidth=1.6, clip_on=False)
        else:
            ax.text(place, 0.42, str(place), ha="center", va="center", color=INK, fontweight="bold" if counts else None)
    if any(positive):
        note(ax, [Mark("cells" if pictures else "number", "instance that makes the bag positive")])
    ax.set_ylim(0.9, -0.06, auto=True)
    if pictures:
        ax.set_aspect("equal", adjustable="datalim")  # along x each is over its bars, and stays there
    ax.tick_params(length=0)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    name = f"{bag.id}: {'positive' if bag.label else 'negative'}"
    ax.set_title(legible(name), color=INK if bag.label else MUTED, fontfamily=families(name))
