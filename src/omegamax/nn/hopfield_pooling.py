"""Bags of vectors, pooled by what a learnt query finds in them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.maps import Omega
from omegamax.nn.hopfield import Hopfield
from omegamax.structured import Factor


class HopfieldPooling(torch.nn.Module):
    """Patterns of a bag, pooled into one vector by a learnt query, or into several by as many.

    Args:
        omega, beta, steps: as in :class:`Hopfield`.
        embed_dim: features of the queries, and of the patterns unless ``stored_dim`` says otherwise.
        queries: how many; None is one whose axis is left out of the result.
        project: False pools the patterns themselves, unprojected; the queries are all that is learnt.
        options: of :class:`Hopfield`, such as ``num_heads``, ``hidden_dim``, ``stored_dim``, ``out_dim``, ``psi``.

    ``forward(stored [*, N, D], mask [*, N], values=None)`` gives ``[*, out_dim]``, or ``[*, queries, out_dim]``. A bag
    of nothing pools to the bias of its output.

        >>> pool = HopfieldPooling("sparsemax", embed_dim=16, num_heads=4)
        >>> pool(torch.randn(3, 9, 16), mask=torch.rand(3, 9) > 0.1).shape
        torch.Size([3, 16])

    Reference: Ramsauer et al. (ICLR 2021).
    """

    def __init__(
        self,
        omega: str | Omega | Factor | torch.nn.Module = "softmax",
        beta: float | Tensor | None = None,
        steps: int = 1,
        *,
        embed_dim: int,
        queries: int | None = None,
        project: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ):
        super().__init__()
        for name, size in (("embed_dim", embed_dim), ("queries", 1 if queries is None else queries)):
            check_integer("HopfieldPooling", name, size, least=1)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.queries = queries
        self.association = Hopfield(omega, beta, steps, embed_dim=embed_dim if project else None, **options, **made)
        self.query = torch.nn.Parameter(torch.empty(queries or 1, embed_dim, **made))
        torch.nn.init.normal_(self.query, std=1 / math.sqrt(embed_dim))

    def forward(
        self,
        stored: Tensor,
        mask: Tensor | None = None,
        values: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return what the learnt queries retrieve; ``return_weights`` adds the weights, ``[*, H, queries, N]``."""
        batch = stored.shape[:-2] if isinstance(stored, Tensor) else ()
        query = self.query.expand(*batch, *self.query.shape)
        out, weights = self.association(query, stored, values, mask, return_weights=True)
        out = out.squeeze(-2) if self.queries is None else out
        return (out, weights) if return_weights else out

    def extra_repr(self) -> str:
        return f"queries={self.queries}"
