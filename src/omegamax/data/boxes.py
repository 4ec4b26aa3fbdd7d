"""Boxes of objects in the unit square: what a map has in each, and weights of boxes as a map."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import check_shape


def pool_boxes(relevance: Tensor, boxes: Tensor) -> Tensor:
    r"""Return relevance ``[H, W]`` as probabilities of boxes ``[L]``: means over boxes, made to sum to one.

    .. math:: m_l = \frac{1}{|b_l|} \int_{b_l} r(t)\, dt, \qquad p_l = m_l / \textstyle\sum_k m_k

    Boxes may overlap. All zeros stay zeros: nothing to compare with.

    Args:
        relevance: rows from top to bottom over the whole picture.
        boxes: corners x1, y1, x2, y2 in [0, 1], ``[L, 4]``, x to the right and y down.

    >>> pool_boxes(torch.tensor([[0.0, 3.0], [0.0, 1.0]]), torch.tensor([[0.5, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0.5, 1]]))
    tensor([0.6667, 0.3333, 0.0000])
    """
    check_shape("pool_boxes", "relevance", relevance, "H", "W")
    rows, columns = _shares(check_shape("pool_boxes", "boxes", boxes, "L", 4), relevance.shape[0], relevance.shape[1])
    means = torch.einsum("lh,hw,lw->l", rows, relevance.double(), columns)
    total = means.sum()
    return (means / total if total > 0 else means).float()


def spread_boxes(weights: Tensor, boxes: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the map ``[h, w]`` of weights ``[L]``, each spread evenly over its box; it sums to what they do.

    Args:
        weights: of the boxes.
        boxes: as for :func:`pool_boxes`.
        grid: rows and columns of cells; a cell has the share of each box that lies in it.

    >>> boxes = torch.tensor([[0.0, 0.0, 0.5, 1.0], [0.25, 0.0, 0.75, 0.5]])
    >>> spread_boxes(torch.tensor([0.5, 0.5]), boxes, (2, 2))
    tensor([[0.5000, 0.2500],
            [0.2500, 0.0000]])
    """
    check_shape("spread_boxes", "boxes", boxes, "L", 4)
    check_shape("spread_boxes", "weights", weights, len(boxes), meaning="one for each box")
    rows, columns = _shares(boxes, *grid)
    return torch.einsum("l,lh,lw->hw", weights.double(), rows, columns).to(weights.dtype)


def _shares(boxes: Tensor, h: int, w: int) -> tuple[Tensor, Tensor]:
    """Return the share of each box's height in each of h rows, ``[L, h]``, and of its width in each of w columns."""
    x1, y1, x2, y2 = boxes.double().unsqueeze(-1).unbind(-2)
    return _share(y1, y2, h), _share(x1, x2, w)


def _share(low: Tensor, high: Tensor, count: int) -> Tensor:
    ends = torch.arange(count + 1, dtype=low.dtype, device=low.device) / count
    both = torch.minimum(high, ends[1:]) - torch.maximum(low, ends[:-1])
    return both.clamp(min=0) / (high - low)
