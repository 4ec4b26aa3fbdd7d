"""From a query to the location and the scale of a density, or of the components of a mixture."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._numerics import working_dtype


class DensityHead(torch.nn.Linear):
    r"""An affine map to a location in the unit cube, ``[*, n]``, and a triangular root of a scale, ``[*, n, n]``.

    .. math:: \mu = \operatorname{sigmoid}(a), \qquad \Sigma_{ij} = \sigma_i R_{ij} \sigma_j, \qquad
              \sigma_i^2 = \operatorname{softplus}(s_i)

    with correlations :math:`R = C C^\top`: row i of the lower triangular C is :math:`(u_{i1}, ..., u_{i,i-1}, 1)`, made
    to have length 1. At least in single precision.
    """

    def __init__(
        self,
        query_dim: int,
        n: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(query_dim, count_outputs(n), device=device, dtype=dtype)
        self.dimension = n

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        out = super().forward(query)
        return locate(out.to(working_dtype(out)), self.dimension)

    def extra_repr(self) -> str:
        return f"query_dim={self.in_features}, n={self.dimension}"


class MixtureHead(torch.nn.Linear):
    r"""An affine map to K mixing weights, ``[*, K]``, through softmax, and to location and root of each component.

    These are as in :class:`DensityHead`, ``[*, K, n]`` and ``[*, K, n, n]``. At least in single precision.
    """

    def __init__(self, query_dim: int, n: int, components: int):
        super().__init__(query_dim, components * (1 + count_outputs(n)))
        self.dimension, self.components = n, components

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        out = super().forward(query)
        out = out.to(working_dtype(out)).unflatten(-1, (self.components, -1))
        loc, root = locate(out[..., 1:], self.dimension)
        return out[..., 0].softmax(-1), loc, root

    def extra_repr(self) -> str:
        return f"query_dim={self.in_features}, n={self.dimension}, components={self.components}"


def count_outputs(n: int) -> int:
    """Return how many numbers a location and a root are made from."""
    return 2 * n + n * (n - 1) // 2


def locate(out: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return location and root from as many numbers."""
    a, s, u = out.split([n, n, out.shape[-1] - 2 * n], -1)
    # Below the rounding of the location a variance means nothing; at zero there would be no density.
    deviations = (F.softplus(s) + torch.finfo(s.dtype).eps ** 2).sqrt()
    if n == 1:
        return a.sigmoid(), deviations.unsqueeze(-1)
    rows = torch.diag_embed(torch.ones_like(a))
    i, j = torch.tril_indices(n, n, -1, device=out.device)
    rows[..., i, j] = u
    rows = F.normalize(rows, dim=-1)
    return a.sigmoid(), rows * deviations.unsqueeze(-1)
