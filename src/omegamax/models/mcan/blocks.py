"""What encoder and decoder are made of: attention with any map, its feed-forward network, and their sums."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.maps import Omega, Shannon
from omegamax.nn.attention import attention
from omegamax.nn.transforms import resolve

Transform = str | Omega | torch.nn.Module


class Attention(torch.nn.Module):
    r"""Attention of L things to S others, in several heads, with any map in place of softmax.

    .. math:: \mathrm{merge}(h_1, ..., h_H), \qquad h_i = \hat p_\Omega\bigl(Q_i K_i^\top / \sqrt{D / H}\bigr) V_i

    Args:
        dim: features, a multiple of ``heads``.
        dropout: of the weights, while training.
        transform: name of a map, an Omega, or a module along the last axis.

    ``forward(x [B, L, D], source [B, S, D], mask=None)``: ``mask [B, S]`` is True where there is something to see;
    where there is nothing at all, heads are 0. Softmax is computed by torch's fused kernel, which keeps no weights.

        >>> look = Attention(8, heads=2, transform="sparsemax")
        >>> look(torch.randn(3, 5, 8), torch.randn(3, 7, 8)).shape
        torch.Size([3, 5, 8])

    Reference: Vaswani et al. (NeurIPS 2017), Sec. 3.2.
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.0, transform: Transform = "softmax"):
        super().__init__()
        if heads < 1 or dim % heads:
            raise ValueError(f"Attention: dim must be a multiple of heads, got {dim} and {heads}")
        self.heads = heads
        self.dropout = dropout
        self.transform = resolve("Attention", transform)
        self.query = torch.nn.Linear(dim, dim)
        self.key = torch.nn.Linear(dim, dim)
        self.value = torch.nn.Linear(dim, dim)
        self.merge = torch.nn.Linear(dim, dim)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self._split(self.query(x)), self._split(self.key(source)), self._split(self.value(source))
        keep = None if mask is None else mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        if isinstance(self.transform, Shannon):
            out = _softmax_attention(q, k, v, keep, dropout)
        else:
            out = attention(q, k, v, self.transform, keep, dropout=dropout)
        return self.merge(out.transpose(1, 2).flatten(-2))

    def _split(self, x: Tensor) -> Tensor:  # [B, L, D] -> [B, H, L, D / H]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        shown = "" if isinstance(self.transform, torch.nn.Module) else f", transform={self.transform!r}"
        return f"heads={self.heads}, dropout={self.dropout}{shown}"


class FeedForward(torch.nn.Sequential):
    """Two linear maps with a rectifier and dropout between, ``[*, D] -> [*, out]``; ``out`` is D unless given."""

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0, out: int | None = None):
        super().__init__(
            torch.nn.Linear(dim, hidden),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(hidden, dim if out is None else out),
        )


class AddNorm(torch.nn.Module):
    """A part of a unit, and the sum with what it was given: ``LayerNorm(x + dropout(part(x, ...)))``."""

    def __init__(self, part: torch.nn.Module, dim: int, dropout: float):
        super().__init__()
        self.part = part
        self.dropout = torch.nn.Dropout(dropout)
        self.norm = torch.nn.LayerNorm(dim)

    def forward(self, x: Tensor, *more: Tensor | None) -> Tensor:
        return self.norm(x + self.dropout(self.part(x, *more)))


class SelfAttention(torch.nn.Module):
    """The unit SA: things attend to each other, ``forward(x [B, L, D], mask [B, L] | None)``.

    Args:
        dim, heads, transform: as for :class:`Attention`.
        hidden: units of the feed-forward network.
        dropout: of what is added to x; ``attention_dropout`` of the weights.

        >>> SelfAttention(8, 2, 16)(torch.randn(3, 5, 8)).shape
        torch.Size([3, 5, 8])

    Reference: Yu et al., "Deep modular co-attention networks for visual question answering" (CVPR 2019), Fig. 2.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        transform: Transform = "softmax",
    ):
        super().__init__()
        self.own = AddNorm(Attention(dim, heads, attention_dropout, transform), dim, dropout)
        self.feed = AddNorm(FeedForward(dim, hidden, dropout), dim, dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.feed(self.own(x, x, mask))


class GuidedAttention(torch.nn.Module):
    """The unit SGA: cells attend to each other, then to the words that guide them.

    ``forward(x [B, L, D], guide [B, T, D], mask [B, L] | None, guide_mask [B, T] | None)``; arguments as for
    :class:`SelfAttention`.

        >>> GuidedAttention(8, 2, 16)(torch.randn(3, 5, 8), torch.randn(3, 4, 8)).shape
        torch.Size([3, 5, 8])

    Reference: Yu et al. (CVPR 2019), Fig. 2.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        transform: Transform = "softmax",
    ):
        super().__init__()
        self.own = AddNorm(Attention(dim, heads, attention_dropout, transform), dim, dropout)
        self.guided = AddNorm(Attention(dim, heads, attention_dropout, transform), dim, dropout)
        self.feed = AddNorm(FeedForward(dim, hidden, dropout), dim, dropout)

    def forward(self, x: Tensor, guide: Tensor, mask: Tensor | None = None, guide_mask: Tensor | None = None) -> Tensor:
        return self.feed(self.guided(self.own(x, x, mask), guide, guide_mask))


def _softmax_attention(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, dropout: float) -> Tensor:
    if keep is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    # With no key to see, torch's kernels differ in what they return: NaN, zeros, or the mean of all values.
    some = keep.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(q, k, v, keep | ~some, dropout)
    return out.masked_fill(~some, 0.0)
