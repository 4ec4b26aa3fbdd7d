"""Attention with any map in place of softmax."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.nn.transforms import apply, resolve
from omegamax.omegas import Omega


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: str | Omega | torch.nn.Module = ...,
    mask: Tensor | None = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    *,
    dropout: float = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: str | Omega | torch.nn.Module = ...,
    mask: Tensor | None = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    *,
    dropout: float = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: str | Omega | torch.nn.Module = "entmax15",
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Dot-product attention, called as :func:`torch.nn.functional.scaled_dot_product_attention` is.

    .. math:: \hat p_\Omega\bigl(\mathit{scale} \cdot Q K^\top + \mathit{mask}\bigr)\, V

    Args:
        q: queries ``[*, L, D]``, usually ``[B, H, L, D]``.
        k: keys ``[*, S, D]``.
        v: values ``[*, S, Dv]``.
        transform: name of a map, an Omega (also with a parameter for each head, ``Tsallis(alpha)`` with alpha
            ``[H, 1, 1]``), or a module such as :class:`~omegamax.nn.Entmax`.
        mask: broadcastable to ``[*, L, S]``; bool, True keeps; float, added to the scores.
        is_causal: query i sees keys 0 to i only, on top of ``mask``.
        scale: ``1 / sqrt(D)`` by default.
        dropout: probability with which a weight is dropped, whenever it is called.
        return_weights: also return the weights that met the values, ``[*, L, S]``.

    Returns:
        ``[*, L, Dv]``. A query that may see no key gets zeros.

        >>> q = k = v = torch.eye(3)[None]
        >>> attention(q, k, v, "sparsemax", scale=1.5)
        tensor([[[1., 0., 0.],
                 [0., 1., 0.],
                 [0., 0., 1.]]])
        >>> attention(q, k, v, "softmax", is_causal=True)[0, 1]
        tensor([0.3595, 0.6405, 0.0000])
    """
    _check_heads(q, k, v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    z = (q * scale) @ k.transpose(-2, -1)
    if mask is not None:
        z = _masked(z, mask)
    if is_causal:
        z = z.masked_fill(~_causal(z.shape[-2], z.shape[-1], z.device), -math.inf)
    p = apply(resolve("attention", transform), z)
    if dropout > 0:
        p = F.dropout(p, dropout)
    # Under autocast p is float32, and the product settles the dtype; outside it is what v is.
    out = p @ v
    return (out, p) if return_weights else out


def _causal(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where query i may see key j, j <= i. ``[L, S]``"""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()


def _masked(z: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"attention: mask must be bool (True keeps) or float (added to the scores), got {mask.dtype}")
    if mask.dim() > z.dim() or any(a not in (1, b) for a, b in zip(mask.shape[::-1], z.shape[::-1], strict=False)):
        raise ValueError(
            f"attention: mask of shape {tuple(mask.shape)} does not broadcast to scores of shape {tuple(z.shape)}"
        )
    if mask.dtype == torch.bool:
        return z.masked_fill(~mask, -math.inf)
    return z + mask.to(z.dtype)


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, t in (("q", q), ("k", k), ("v", v)):
        if not isinstance(t, Tensor) or not t.is_floating_point():
            given = t.dtype if isinstance(t, Tensor) else type(t).__name__
            raise TypeError(f"attention: {name} must be a floating-point tensor, got {given}")
    if min(q.dim(), k.dim(), v.dim()) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            "attention: q, k and v must have shapes [*, L, D], [*, S, D] and [*, S, Dv], "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
