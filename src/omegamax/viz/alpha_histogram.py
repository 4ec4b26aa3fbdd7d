"""How many heads have which alpha, layer upon layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax._checks import check_floating
from omegamax.viz.style import axes_or_new, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FAINTEST = 0.25  # of the first layer's bars


def alpha_histogram(
    values: Tensor, *, bins: int = 20, shade: str | None = None, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw the histogram of the heads' alphas, the layers stacked, the last one darkest.

    Args:
        values: ``[layers, heads]``, or ``[runs, layers, heads]``.
        bins: between 1 and 2, or as far as the values go.
        shade: colour of the bars, by default that of entmax.

    Reference: figure 2 of Correia, Niculae and Martins, "Adaptively sparse transformers" (EMNLP 2019).
    """
    name = "alpha_histogram"
    check_floating(name, "values", values)
    check_integer(name, "bins", bins, least=1)
    if values.dim() not in (2, 3) or not values.numel():
        raise ValueError(f"{name}: values must be [layers, heads] or [runs, layers, heads], got {tuple(values.shape)}")
    ax = axes_or_new(ax)
    points = values.detach().double().cpu()
    layers = points.transpose(0, 1).flatten(1) if points.dim() == 3 else points  # [layers, heads of all runs]
    edges = np.linspace(min(1.0, float(points.min())), max(2.0, float(points.max())), bins + 1)
    below = np.zeros(bins)
    for number, layer in enumerate(layers.numpy(), 1):
        counts, _ = np.histogram(layer, edges)
        opacity = _FAINTEST + (1 - _FAINTEST) * number / len(layers)
        settings: dict[str, Any] = {
            "color": shade or colour("entmax"),
            "alpha": opacity,
            "edgecolor": "white",
            "linewidth": 0.4,
        }
        ax.bar(edges[:-1], counts, np.diff(edges), bottom=below, align="edge", label=f"layer {number}", **settings)
        below = below + counts
    ax.set(xlim=(edges[0], edges[-1]), xlabel="alpha", ylabel="heads", title=title)
    ax.locator_params(axis="y", integer=True)
    if len(layers) > 1:
        ax.set_ylim(0, 1.3 * float(below.max()) + 1)  # room for the names of layers
        ax.legend(fontsize=7, frameon=False, loc="upper left", ncols=4, columnspacing=1.0, handlelength=1.0)
    return ax
