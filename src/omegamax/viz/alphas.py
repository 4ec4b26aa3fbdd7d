"""Where learnt alphas went: those of the heads of a transformer, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from omegamax._arguments import check_number
from omegamax._checks import check_floating
from omegamax.viz.style import MUTED, axes_or_new, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPREAD = 0.5  # of the room of a layer, that its points take
_LINE = "#bbbbbb"


def alphas(
    values: Tensor,
    *,
    start: float | None = None,
    shade: str | None = None,
    title: str = "",
    ax: Axes | None = None,
    names: bool = True,
) -> Axes:
    """Draw the alpha of each head, a point, over its layer; lines are at softmax (1), sparsemax (2) and the start.

    Args:
        values: ``[layers, heads]``, heads side by side in their order; or ``[runs, layers, heads]``, runs side by side,
            for whose heads an order means nothing.
        start: where all began; None: it is not drawn.
        shade: colour of the points, by default that of entmax.
        names: write at the lines what they are.

    Reference: figures 1 and 2 of Correia, Niculae and Martins, "Adaptively sparse transformers" (EMNLP 2019).
    """
    check_floating("alphas", "values", values)
    if values.dim() not in (2, 3) or not values.numel():
        raise ValueError(f"alphas: values must be [layers, heads] or [runs, layers, heads], got {tuple(values.shape)}")
    if start is not None:
        check_number("alphas", "start", start, above=0)
    ax = axes_or_new(ax)
    points = values.detach().double().cpu()
    side = points.transpose(0, 1) if points.dim() == 3 else points.unsqueeze(-1)  # [layers, side by side, in a column]
    layers, count = side.shape[0], side.shape[1]
    low, high = min(1.0, float(points.min())), max(2.0, float(points.max()))
    for height, name in ((1.0, "softmax"), (2.0, "sparsemax"), *([] if start is None else [(start, "start")])):
        ax.axhline(height, color=_LINE, lw=0.8, ls=":" if name == "start" else "-", zorder=0)
        if names:
            ax.annotate(name, (0.52, height), (0, 2), textcoords="offset points", fontsize=7, color=MUTED)
    for layer in range(layers):
        for place in range(count):
            x = layer + 1 + ((place + 0.5) / count - 0.5) * _SPREAD
            column = side[layer, place].tolist()
            ax.plot([x] * len(column), column, "o", ms=5, alpha=0.75, mew=0, color=shade or colour("entmax"))
    ax.set(xlim=(0.5, layers + 0.5), ylim=(low - 0.05, high + 0.08), xlabel="layer", ylabel="alpha of a head")
    ax.set_xticks(range(1, layers + 1))
    ax.set_title(title)
    return ax
