"""Attention as the layers of Hugging Face models call it. Plain torch: no word of transformers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax.maps import Omega
from omegamax.nn.attention import attention
from omegamax.nn.transforms import apply


def attend(
    layer: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    transform: Omega | torch.nn.Module,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    weights: bool = True,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return what a layer asks for, by :func:`omegamax.attention`.

    Args:
        layer: the attention layer; only its ``is_causal`` is read.
        query, key, value: ``[B, H, L, D]``, ``[B, G, S, D]``, ``[B, G, S, D]`` with H a multiple of G: each key head
            serves H / G neighbouring query heads.
        attention_mask: broadcastable to ``[B, H, L, S]``, bool (True keeps) or float (added). With none, the layer's
            ``is_causal`` decides, as it does for torch's ``scaled_dot_product_attention``.
        transform: what stands in the place of softmax.
        dropout, scaling, is_causal: as in :func:`omegamax.attention`.
        softcap: scores become ``softcap * tanh(scores / softcap)``, before they are masked.
        position_bias: added to the scores, ``[B, H, L, S]``.
        s_aux: a score for each head, ``[H]``, that takes its share of the probability to nowhere: an attention sink.
        weights: whether to return them.

    Returns:
        ``[B, L, H, D]``, and the weights ``[B, H, L, S]`` or None.
    """
    causal = getattr(layer, "is_causal", True) if is_causal is None else is_causal
    # One query without a mask is the newest token of a text: all keys come before it.
    causal = causal and attention_mask is None and query.shape[2] > 1
    mask = _mask(attention_mask, position_bias, key.shape[2])
    if softcap is not None:
        transform = _CappedMap(transform, softcap, s_aux, mask, causal)
        mask, causal, s_aux = None, False, None
    options: dict[str, Any] = {"dropout": dropout, "sinks": s_aux}
    if not weights:
        out = attention(query, key, value, transform, mask, causal, scaling, **options)
        return out.transpose(1, 2).contiguous(), None
    out, p = attention(query, key, value, transform, mask, causal, scaling, **options, return_weights=True)
    return out.transpose(1, 2).contiguous(), p


def _mask(mask: Tensor | None, bias: Tensor | None, keys: int) -> Tensor | None:
    """Mask and bias as one, with -inf for what may not be seen."""
    if mask is not None:
        mask = mask[..., :keys]  # some models make masks as long as the longest text
        if mask.dtype != torch.bool:
            # A float mask of transformers says "the least number there is". Maps with zeros want it said exactly.
            mask = mask.masked_fill(mask <= torch.finfo(mask.dtype).min / 2, -math.inf)
    if mask is None or bias is None:
        return bias if mask is None else mask
    return bias.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else bias + mask


class _CappedMap(torch.nn.Module):
    """A map behind what some models do to the scores first: cap, then mask, then add a sink."""

    transform: Omega | torch.nn.Module
    softcap: float
    sink: Tensor | None
    mask: Tensor | None
    is_causal: bool

    def __init__(
        self,
        transform: Omega | torch.nn.Module,
        softcap: float,
        sink: Tensor | None,
        mask: Tensor | None,
        is_causal: bool,
    ):
        super().__init__()
        # Not registered: this module lives for one call and owns nothing.
        self.__dict__.update(transform=transform, softcap=softcap, sink=sink, mask=mask, is_causal=is_causal)

    def forward(self, z: Tensor) -> Tensor:
        z = self.softcap * torch.tanh(z / self.softcap)
        if self.mask is not None:
            z = z.masked_fill(~self.mask, -math.inf) if self.mask.dtype == torch.bool else z + self.mask
        if self.is_causal:
            seen = torch.ones(z.shape[-2:], dtype=torch.bool, device=z.device).tril()
            z = z.masked_fill(~seen, -math.inf)
        if self.sink is None:
            return apply(self.transform, z)
        sink = self.sink.to(z.dtype).reshape(1, -1, 1, 1).expand(*z.shape[:-1], 1)
        return apply(self.transform, torch.cat([z, sink], -1))[..., :-1]
