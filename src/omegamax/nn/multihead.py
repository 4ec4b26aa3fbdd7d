"""Multi-head attention with any map in place of softmax."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.maps import Omega
from omegamax.nn._torch_masks import count_seen, merge_masks
from omegamax.nn.attention import attention
from omegamax.nn.length_scale import LengthScale
from omegamax.nn.transforms import resolve


class MultiheadAttention(torch.nn.MultiheadAttention):
    r""":class:`torch.nn.MultiheadAttention` with another map: same arguments, same state-dict, same calls.

    With ``transform="softmax"`` it returns what torch's returns, except that a query that may see no key gets zero
    weights instead of NaN. In a :class:`torch.nn.TransformerEncoderLayer` put it in the place of ``self_attn``.

    Args:
        embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype: as in
            torch.
        transform: name of a map, an Omega, or a module such as ``Entmax(learnable=True, per=num_heads)``, whose
            parameters then join the state-dict under ``transform``.
        length_scale: multiply the scores by a learnt function of the number of keys that a query may see, for contexts
            longer than those of training. True is ``LengthScale(num_heads)``; or give a
            :class:`~omegamax.nn.LengthScale`, with ``features=embed_dim`` or without. Its parameters join the
            state-dict under ``length_scale``.

    ``forward`` is torch's too: in ``key_padding_mask`` and ``attn_mask`` True forbids. ``is_causal`` says that
    ``attn_mask`` is causal, and stands in for it where there is none; it had better be true, since without weights the
    mask itself is then not looked at, as in torch. On a GPU ``need_weights=False`` saves time and memory:
    :func:`omegamax.attention` says how much.

        >>> attend = MultiheadAttention(8, 2, batch_first=True, transform="sparsemax")
        >>> x = torch.randn(3, 5, 8)
        >>> out, weights = attend(x, x, x)
        >>> out.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))

    Reference: Vaswani et al. (NeurIPS 2017); Correia, Niculae & Martins (EMNLP 2019) with a learnt alpha in each head;
    Vasylenko et al. (ICLR 2026) with a scale that depends on the length.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        transform: str | Omega | torch.nn.Module = "entmax15",
        length_scale: bool | LengthScale = False,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            dropout=dropout,
            bias=bias,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
        )
        self.transform = resolve("MultiheadAttention", transform)
        if length_scale is True:
            length_scale = LengthScale(num_heads).to(device, dtype)
        self.length_scale = length_scale or None
        if self.length_scale is not None:
            _check_scale(self.length_scale, num_heads, embed_dim)

    def _reset_parameters(self) -> None:
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()
        # In eval mode torch's encoder layer does not call its self_attn: it takes the weights out of it and runs a
        # fused softmax. It asks first whether the projections are stored in one matrix. Ours are, for the sake of
        # the state-dict, but the answer must be no, or the layer would return softmax attention without a word.
        self._qkv_same_embed_dim = False

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if query.is_nested:
            return self._forward_nested(query, key, value, key_padding_mask, need_weights, attn_mask, is_causal)
        batched = query.dim() == 3
        self._check_inputs(query, key, value)
        one_input = query is key and key is value
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        added = (self.bias_k is not None) + self.add_zero_attn
        # That attention is causal is said in a word where it can be: the added keys are open to every query.
        causal = is_causal and not added and (attn_mask is None or not need_weights)
        if is_causal and attn_mask is None and not causal:
            attn_mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool, device=query.device).triu(1)
        mask = merge_masks(query, key, self.num_heads, key_padding_mask, attn_mask, causal)
        q, k, v = self._project(query, key, value, one_input)  # [B, L, E], [B, S, E], [B, S, E]

        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.expand(k.shape[0], 1, -1)], 1)
            v = torch.cat([v, self.bias_v.expand(v.shape[0], 1, -1)], 1)
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        if mask is not None and added:
            mask = F.pad(mask, (0, added), value=True if mask.dtype == torch.bool else 0.0)

        if self.length_scale is not None:
            x = None if self.length_scale.features is None else query
            q = q * self.length_scale(count_seen(mask, q, k, causal), x).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            out, weights = attention(q, k, v, self.transform, mask, causal, dropout=dropout, return_weights=True)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        else:
            out = attention(q, k, v, self.transform, mask, causal, dropout=dropout)
        out = self.out_proj(out.transpose(1, 2).flatten(-2))
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return out, weights

    def extra_repr(self) -> str:
        shown = "" if isinstance(self.transform, torch.nn.Module) else f", transform={self.transform!r}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}{shown}"

    def _project(self, query: Tensor, key: Tensor, value: Tensor, one_input: bool) -> tuple[Tensor, Tensor, Tensor]:
        if self.in_proj_weight is not None and one_input:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return q, k, v
        weights = (
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            if self.in_proj_weight is None
            else self.in_proj_weight.chunk(3)
        )
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v

    def _forward_nested(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        need_weights: bool,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> tuple[Tensor, None]:
        """Rows of different lengths, as a :class:`torch.nn.TransformerEncoder` in eval mode makes of padded ones."""
        plain = query is key and key is value and key_padding_mask is None and attn_mask is None
        if not plain or need_weights:
            raise ValueError(
                "MultiheadAttention: nested tensors are taken for self-attention without masks and with "
                "need_weights=False only"
            )
        x = query.to_padded_tensor(0.0)
        lengths = [row.shape[0] for row in query.unbind()]
        steps = torch.arange(x.shape[1], device=x.device)
        x = x if self.batch_first else x.transpose(0, 1)
        padding = steps >= torch.tensor(lengths, device=x.device)[:, None]
        out, _ = self(x, x, x, padding, need_weights=False, is_causal=is_causal)
        out = out if self.batch_first else out.transpose(0, 1)
        rows = [row[:length] for row, length in zip(out, lengths, strict=True)]
        return torch.nested.as_nested_tensor(rows), None

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        fits = (
            query.dim() in (2, 3)
            and query.dim() == key.dim() == value.dim()
            and key.shape[:-1] == value.shape[:-1]
            and (query.shape[-1], key.shape[-1], value.shape[-1]) == (self.embed_dim, self.kdim, self.vdim)
        )
        if not fits:
            raise ValueError(
                f"MultiheadAttention: query, key and value must all be batched or all not, with {self.embed_dim}, "
                f"{self.kdim} and {self.vdim} features, and as many values as keys; got {tuple(query.shape)}, "
                f"{tuple(key.shape)} and {tuple(value.shape)}"
            )


def _check_scale(scale: LengthScale, heads: int, features: int) -> None:
    if not isinstance(scale, LengthScale):
        raise TypeError(f"MultiheadAttention: length_scale must be a bool or a LengthScale, got {type(scale).__name__}")
    if scale.heads != heads or scale.features not in (None, features):
        raise ValueError(
            f"MultiheadAttention: length_scale must have heads={heads} and features={features} or None, got {scale!r}"
        )
