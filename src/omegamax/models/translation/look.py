"""One look at the source for the next word: weights, a density beside them, and what attention words have left."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import functional, nn
from omegamax._numerics import working_dtype
from omegamax.densities import Density
from omegamax.maps import Omega, get
from omegamax.models.text_basis import make_basis
from omegamax.models.translation.config import DENSITIES, FertilityConfig, TranslatorConfig
from omegamax.nn.transforms import apply

Kept = dict[str, Tensor]  # what is made once of a source, and what is left of it


class LookResult(NamedTuple):
    """What was seen: context ``[N, D]``, weights ``[N, S]``, the density, if there is one, and what is kept now."""

    context: Tensor
    weights: Tensor
    density: Density | None
    kept: Kept


class SourceLook(torch.nn.Module):
    r"""Additive attention to the states of a source, of one query after the other.

    .. math:: z_i = v^\top \tanh(W q + U h_i), \qquad c = \sum_i p_i h_i + E_\rho[V(t)]

    The second term is there with a ``density``: :math:`\rho` has the moments of the weights p over the unit interval
    that the source fills, and V is a ridge regression through the states h, made once. With ``fertility`` p is bounded
    by what each word has left, see :class:`~omegamax.models.translation.FertilityConfig`.

    Args:
        query_dim, dim: features of a query and of a state.
        config: the map, the density, the fertility.

    References: Bahdanau, Cho & Bengio (ICLR 2015); densities, Martins et al. (NeurIPS 2020), Sec. 4; fertility,
    Malaviya, Ferreira & Martins (ACL 2018).
    """

    def __init__(self, query_dim: int, dim: int, config: TranslatorConfig) -> None:
        super().__init__()
        self.query = torch.nn.Linear(query_dim, config.dim)
        self.key = torch.nn.Linear(dim, config.dim, bias=False)
        self.score = torch.nn.Linear(config.dim, 1, bias=False)
        self.fertility = None if config.fertility is None else Fertility(dim, config.source, config.fertility)
        self.name = config.attention
        self.transform: Omega | torch.nn.Module | None = None
        if config.learn_alpha:
            self.transform = nn.Entmax(config.attention_options.get("alpha", 1.5), learnable=True)
        elif self.fertility is None:
            self.transform = get(config.attention, **config.attention_options)
        self.density: nn.ContinuousAttention | None = None
        if config.density is not None:
            basis = make_basis(config.functions, config.widths)
            self.density = nn.ContinuousAttention(basis, DENSITIES[config.density], penalty=config.penalty)

    def keep(self, h: Tensor, mask: Tensor, source: Tensor) -> Kept:
        """Return what later looks need of the states ``[B, S, dim]`` of a source; the mask is True where words are."""
        kept = {"values": h, "keys": self.key(h), "mask": mask}
        if self.density is not None:
            lengths = mask.sum(-1).cpu()  # by which the matrices of the regression are found
            kept |= {"lengths": lengths, "coefficients": self.density.fit(h, lengths=lengths)}
        if self.fertility is not None:
            kept["left"] = self.fertility(h, mask, source)
        return kept

    def forward(self, query: Tensor, kept: Kept) -> LookResult:
        """Look once: ``query [N, query_dim]``."""
        z = self.score(torch.tanh(self.query(query).unsqueeze(1) + kept["keys"])).squeeze(-1)
        z = z.to(working_dtype(z)).masked_fill(~kept["mask"], -torch.inf)
        if self.fertility is not None:
            p = self.fertility.weigh(z, kept["left"], self.name)
            kept = {**kept, "left": (kept["left"] - p).clamp(min=0)}
        else:
            assert self.transform is not None
            p = apply(self.transform, z)
        h = kept["values"]
        context = torch.einsum("ns,nsd->nd", p.to(h.dtype), h)
        density = None
        if self.density is not None:
            density = self.density.match(p, lengths=kept["lengths"])
            context = context + self.density.attend(kept["coefficients"], density).to(context.dtype)
        return LookResult(context, p, density, kept)


class Fertility(torch.nn.Module):
    """How much attention the words of a source can have: a number for all, a table, or learnt.

    Args:
        dim: features of a state.
        size: number of source tokens.
        config: which kind.
    """

    table: Tensor

    def __init__(self, dim: int, size: int, config: FertilityConfig) -> None:
        super().__init__()
        self.config = config
        self.predict = torch.nn.Linear(dim, 1) if config.kind == "predicted" else None
        if config.kind == "table":
            self.register_buffer("table", torch.full((size,), float(config.value)))

    def forward(self, h: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """Return the bounds of words, ``[B, S]``; 0 at padding. At the end token they count for nothing."""
        if self.predict is not None:
            f = 2 * self.config.value * self.predict(h).squeeze(-1).sigmoid()
        elif self.config.kind == "table":
            f = self.table[source]
        else:
            f = torch.full(mask.shape, float(self.config.value), device=mask.device)
        return torch.where(mask, f.to(working_dtype(h)), 0.0)

    def weigh(self, z: Tensor, left: Tensor, name: str) -> Tensor:
        """Return weights of scores ``[N, S]``, none above what is left, but for the last word's, the sink's."""
        there = z != -torch.inf
        last = there.sum(-1, keepdim=True) - 1
        sink = torch.arange(z.shape[-1], device=z.device) == last
        z = z + self.config.exhaustion * torch.where(sink | ~there, 0.0, left.to(z.dtype))
        upper = torch.where(sink, 1.0, left.to(z.dtype).clamp(max=1.0))
        return getattr(functional, name)(z, upper)
