"""How far people agree who rated the same things."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_type

LEVELS = ("nominal", "ordinal", "interval")


@torch.no_grad()
def krippendorff_alpha(ratings: Tensor, level: str = "ordinal") -> Tensor:
    r"""Return Krippendorff's alpha: 1 for agreement, 0 for what chance would give, less for disagreement; float64.

    .. math:: \alpha = 1 - (n - 1) \frac{\sum_{c < k} o_{ck} \, \delta^2_{ck}}{\sum_{c < k} n_c n_k \, \delta^2_{ck}}

    Each unit u with :math:`m_u \ge 2` ratings adds :math:`n_{uc} n_{uk} / (m_u - 1)` to the coincidences
    :math:`o_{ck}` of two values :math:`c \ne k`; :math:`n_c` counts a value, and n all, in such units. The difference
    :math:`\delta^2` is 1 (nominal), :math:`(c - k)^2` (interval), or, ordinal, by how many ratings lie between:

    .. math:: \delta_{ck} = \sum_{g = c}^{k} n_g - \tfrac{1}{2} (n_c + n_k)

    Args:
        ratings: ``[R, U]``, of R raters for U units; NaN where somebody has not rated. A unit that fewer than two have
            rated does not count.
        level: ``"ordinal"``, for grades; ``"nominal"`` or ``"interval"``.

    Returns:
        A scalar; NaN if no unit has two ratings, or all of them are the same: then chance agrees as well.

        >>> nan = float("nan")
        >>> krippendorff_alpha(torch.tensor([[1.0, 2.0, 3.0, nan], [1.0, 2.0, 4.0, 2.0], [1.0, 3.0, 4.0, nan]]))
        tensor(0.8741, dtype=torch.float64)

    Reference: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), Secs. C and D.
    """
    name = "krippendorff_alpha"
    check_choice(name, "level", level, LEVELS)
    check_type(name, "ratings", ratings, Tensor, "a torch.Tensor")
    if ratings.dim() != 2:
        raise ValueError(f"{name}: ratings must be [raters, units], got {tuple(ratings.shape)}")
    given = ratings.double()
    if bool(given.isinf().any()):
        raise ValueError(f"{name}: ratings must be finite, or NaN where there is none, got infinity")
    rated = ~given.isnan()
    given, rated = given[:, rated.sum(0) >= 2], rated[:, rated.sum(0) >= 2]
    values = given[rated].unique()  # in their order
    if len(values) < 2:
        return torch.tensor(math.nan, dtype=torch.float64)
    counts = (given[..., None] == values).sum(0).double()  # [U, V]
    n = counts.sum(0)
    coincidences = counts.T @ (counts / (counts.sum(1, keepdim=True) - 1))
    difference = _differences(values, n, level)  # 0 on the diagonal, so that every pair counts twice, above and below
    seen, expected = (coincidences * difference).sum(), (n[:, None] * n * difference).sum()
    return 1 - (n.sum() - 1) * seen / expected


def _differences(values: Tensor, n: Tensor, level: str) -> Tensor:
    """Return the squared difference of each two values, ``[V, V]``."""
    if level == "nominal":
        return 1 - torch.eye(len(values), dtype=torch.float64, device=values.device)
    # Half of its own count beneath each value: the sum from one to the other without half of both ends.
    places = n.cumsum(0) - n / 2 if level == "ordinal" else values
    return (places[:, None] - places) ** 2
