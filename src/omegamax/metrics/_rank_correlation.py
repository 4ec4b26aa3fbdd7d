"""Whether two maps put the cells in the same order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.metrics._map_cells import Dim, Map, MapCells, Size, common_dtype


@torch.no_grad()
def rank_correlation(
    p: Map,
    q: Map,
    *,
    dim: Dim | None = None,
    size: Size | None = None,
    samples: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return Spearman's rank correlation of two maps, in [-1, 1]; ``[*]``.

    .. math:: \rho(p, q) = \frac{\sum_c (r_c - \bar r)(s_c - \bar s)}
              {\sqrt{\sum_c (r_c - \bar r)^2 \sum_c (s_c - \bar s)^2}}

    Here r and s are the ranks of the cells in either map; cells of equal value share the average of their ranks, as
    exact zeros do. Only the order counts, so maps may be scores too, and negative. In a dense map the order of the many
    cells with next to no attention weighs as much as that of the few that matter:
    :func:`~omegamax.metrics.jensen_shannon` does not share this trait.

    Ranks are constant between ties, so there is no gradient. A map whose cells are all equal has no order: NaN. So has
    a map with a NaN, or with fewer than two cells left.

    Args:
        p, q, dim, size, samples, mask: as for :func:`~omegamax.metrics.jensen_shannon`, of any sign. Float16, bfloat16
            and integers are ranked as they are; the result has float32.

        >>> rank_correlation(torch.tensor([0.1, 0.6, 0.3]), torch.tensor([[1.0, 3.0, 2.0], [3.0, 1.0, 2.0]]))
        tensor([ 1., -1.])
        >>> rank_correlation(torch.tensor([0.0, 0.0, 0.3, 0.7]), torch.tensor([0, 1, 1, 5]))
        tensor(0.8333)

    Reference, with human attention: Das et al., "Human attention in visual question answering" (EMNLP 2016).
    """
    name = "rank_correlation"
    cells = MapCells(name, (p, q), dim, size, samples)
    p, q, keep = cells.rows("p", p), cells.rows("q", q), cells.kept(mask)
    a, b = centre_ranks(p, keep), centre_ranks(q, keep)
    spread = a.square().sum(-1) * b.square().sum(-1)
    value = torch.where(spread == 0, math.nan, (a * b).sum(-1) / spread.sqrt())
    return value.to(common_dtype(p, q))


def centre_ranks(rows: Tensor, keep: Tensor | None) -> Tensor:
    """Return the ranks of the cells that are kept less their mean, 0 for the others; NaN in a row with a NaN."""
    x = rows if rows.is_floating_point() else rows.double()
    spoilt = x.isnan()
    count = torch.full(x.shape[:-1], x.shape[-1], dtype=torch.float64, device=x.device)
    if keep is not None:
        spoilt = spoilt & keep
        count = keep.sum(-1, dtype=torch.float64)
        x = torch.where(keep, x, math.nan)  # sorted behind everything, infinity too, and equal to nothing
    values, order = x.sort(-1)
    position = torch.arange(x.shape[-1], dtype=torch.float64, device=x.device).expand(x.shape)
    step = values[..., 1:] != values[..., :-1]
    end = torch.ones_like(values[..., :1], dtype=torch.bool)
    first = torch.where(torch.cat([end, step], -1), position, 0.0).cummax(-1).values
    last = torch.where(torch.cat([step, end], -1), position, math.inf).flip(-1).cummin(-1).values.flip(-1)
    ranks = torch.zeros_like(first).scatter(-1, order, (first + last) / 2 + 1)
    # Ties or not, the mean rank of k cells is (k + 1) / 2: all of this is exact in double precision.
    ranks = ranks - (count.unsqueeze(-1) + 1) / 2
    if keep is not None:
        ranks = torch.where(keep, ranks, 0.0)
    return torch.where(spoilt.any(-1, keepdim=True), math.nan, ranks)
