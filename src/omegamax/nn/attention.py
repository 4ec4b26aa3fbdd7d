"""Attention with any map in place of softmax."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from omegamax._arguments import check_interval
from omegamax._checks import check_floating
from omegamax.maps import Omega
from omegamax.nn._cached_attention import attend_to_cache, check_cache_arguments
from omegamax.nn._certified import Certificate
from omegamax.nn._fused_attention import find_fused_call
from omegamax.nn._pairs import Window, broadcast, check_pairs
from omegamax.nn._plain_attention import attend_by_definition
from omegamax.nn._sink_key import add_sink
from omegamax.nn._support import AttentionSupport
from omegamax.nn._torch_attention import attend_by_torch
from omegamax.nn.paged_cache import PagedCache
from omegamax.nn.transforms import resolve


@overload
def attention(
    q: Tensor,
    k: Tensor | None = ...,
    v: Tensor | None = ...,
    transform: str | Omega | torch.nn.Module = ...,
    mask: None = ...,
    is_causal: bool = ...,
    scale: float | None = ...,
    *,
    lengths: Tensor | None = ...,
    offset: int = ...,
    cache: PagedCache,
) -> tuple[Tensor, Certificate]: ...
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
    window: Window = ...,
    alibi: Tensor | None = ...,
    lengths: Tensor | None = ...,
    offset: int = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_weights: Literal[False] = ...,
    return_support: Literal[False] = ...,
    deterministic: bool = ...,
    enable_gqa: bool = ...,
) -> Tensor: ...
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
    window: Window = ...,
    alibi: Tensor | None = ...,
    lengths: Tensor | None = ...,
    offset: int = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_weights: Literal[True],
    return_support: Literal[False] = ...,
    deterministic: bool = ...,
    enable_gqa: bool = ...,
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
    window: Window = ...,
    alibi: Tensor | None = ...,
    lengths: Tensor | None = ...,
    offset: int = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_weights: Literal[False] = ...,
    return_support: Literal[True],
    deterministic: bool = ...,
    enable_gqa: bool = ...,
) -> tuple[Tensor, AttentionSupport]: ...
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
    window: Window = ...,
    alibi: Tensor | None = ...,
    lengths: Tensor | None = ...,
    offset: int = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_weights: Literal[True],
    return_support: Literal[True],
    deterministic: bool = ...,
    enable_gqa: bool = ...,
) -> tuple[Tensor, Tensor, AttentionSupport]: ...
def attention(
    q: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    transform: str | Omega | torch.nn.Module = "entmax15",
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    window: Window = None,
    alibi: Tensor | None = None,
    lengths: Tensor | None = None,
    offset: int = 0,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    return_support: bool = False,
    deterministic: bool = False,
    enable_gqa: bool = False,
    cache: PagedCache | None = None,
) -> Tensor | tuple:
    r"""Dot-product attention, called as :func:`torch.nn.functional.scaled_dot_product_attention` is.

    .. math:: \hat p_\Omega\bigl(\mathit{scale} \cdot Q K^\top + \mathit{mask}\bigr)\, V

    On a GPU entmax with alpha between 1 and 2 never stores a weight, unless they are asked for: memory grows with
    ``L + S``, and keys without weight are skipped. docs/attention.md says when.

    Args:
        q: queries ``[*, L, D]``, usually ``[B, H, L, D]``.
        k: keys ``[*, S, D]``; H may be a multiple of the number of their heads, which then serve neighbouring queries.
        v: values ``[*, S, Dv]``, likewise.
        transform: name of a map, an Omega (also with a parameter for each head, ``Tsallis(alpha)`` with alpha
            ``[H, 1, 1]``), or a module such as :class:`~omegamax.nn.Entmax`.
        mask: broadcastable to ``[*, H, L, S]``; bool, True keeps; float, added to the scores.
        is_causal: query i sees keys 0 to ``i + offset`` only, on top of ``mask``.
        scale: ``1 / sqrt(D)`` by default.
        window: query i sees only keys at most so far from ``i + offset``; ``(before, after)`` if it is not the same on
            both sides, None for no limit.
        alibi: a slope for each head, ``[H]``; times the distance between ``i + offset`` and j it is subtracted.
        lengths: how many keys are there, ``[B]``, or the shape of all axes before the heads.
        offset: place of the first query among the keys; ``S - L`` where queries continue cached keys.
        sinks: a score for each head, ``[H]``, of a key that every query sees and that has no value: it takes its share
            of the weight to nowhere, so that the weights that are left sum to one at most.
        dropout: probability with which a weight is dropped, whenever it is called; torch's generator decides.
        return_weights: also return the weights that met the values, ``[*, H, L, S]``.
        return_support: also return a :class:`~omegamax.nn.AttentionSupport`: shares of entries and blocks that are 0.
        deterministic: gradients that are the same to the last bit in every run; so does
            :func:`torch.use_deterministic_algorithms`.
        enable_gqa: as in torch, for callers that set it: heads of ``k`` and ``v`` are shared where there are fewer of
            them, whether it is set or not. With True every tensor needs an axis of heads.
        cache: a :class:`~omegamax.nn.PagedCache` with the keys and values, to which ``k`` and ``v``, if any are given,
            are appended first. It is read page by page until the rest is proven not to matter, which takes entmax with
            alpha > 1, and may be combined with ``is_causal``, ``offset``, ``lengths`` and ``scale``.

    Returns:
        ``[*, H, L, Dv]``. A query that may see no key gets zeros. With a cache also a
        :class:`~omegamax.nn.Certificate`: how many pages were read, and why that was enough.

        >>> q = k = v = torch.eye(3)[None]
        >>> attention(q, k, v, "sparsemax", scale=1.5)
        tensor([[[1., 0., 0.],
                 [0., 1., 0.],
                 [0., 0., 1.]]])
        >>> attention(q, k, v, "softmax", is_causal=True)[0, 1]
        tensor([0.3595, 0.6405, 0.0000])
        >>> attention(q, k, v, "sparsemax", scale=1.5, return_support=True)[1].entries
        tensor([0.6667])
        >>> attention(q, k, v, "sparsemax", scale=1.5, sinks=torch.tensor([1.0]))[0, 0]
        tensor([0.7500, 0.0000, 0.0000])
    """
    if cache is not None:
        refused = {"mask": mask is not None, "window": window is not None, "alibi": alibi is not None}
        refused["sinks"] = sinks is not None
        check_cache_arguments(
            cache,
            {**refused, "dropout": dropout > 0, "return_weights": return_weights, "return_support": return_support},
        )
        omega = resolve("attention", transform)

        def attend_to_all(keys: Tensor, values: Tensor) -> Tensor:
            return attention(q, keys, values, omega, is_causal=is_causal, scale=scale, lengths=lengths, offset=offset)

        seen = (lengths, offset if is_causal else None)
        return attend_to_cache(q, k, v, cache, omega, scale, *seen, attend_to_all)
    if k is None or v is None:
        raise TypeError("attention: k and v must be tensors where there is no cache, got None")
    shape = _check_shapes(q, k, v)
    if enable_gqa and min(q.dim(), k.dim(), v.dim()) < 3:
        wanted = "q, k and v with an axis of heads, [*, H, L, D]"
        raise ValueError(f"attention: enable_gqa needs {wanted}, {_say_shapes(q, k, v)}")
    pairs = check_pairs(shape, mask, is_causal, window, alibi, lengths, offset)
    if dropout:
        check_interval("attention", "dropout", dropout, "[0, 1]")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    omega = resolve("attention", transform)
    if sinks is not None:
        _check_sinks(sinks, shape)
        call = None if return_weights or return_support else find_fused_call(q, k, v, omega, pairs, scale, shape)
        call = None if call is None else add_sink(call, sinks)
        if call is not None:
            return call(deterministic, False, dropout)[0]
        return attend_by_definition(q, k, v, omega, pairs, scale, sinks, dropout, return_weights, return_support)
    if not return_weights:
        call = find_fused_call(q, k, v, omega, pairs, scale, shape)
        if call is not None:
            out, support = call(deterministic, return_support, dropout)
            return out if support is None else (out, support)
        if not (return_support or deterministic):
            by_torch = attend_by_torch(q, k, v, omega, pairs, scale, dropout)
            if by_torch is not None:
                return by_torch
    return attend_by_definition(q, k, v, omega, pairs, scale, None, dropout, return_weights, return_support)


def _check_sinks(sinks: Tensor, shape: tuple[int, ...]) -> None:
    heads = shape[-3] if len(shape) > 2 else 1
    wanted = f"a float tensor with a score for each head, shape ({heads},)"
    check_floating("attention", "sinks", sinks, wanted)
    if tuple(sinks.shape) != (heads,):
        raise ValueError(f"attention: sinks must be {wanted}, got shape {tuple(sinks.shape)}")


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """Check the shapes and return that of the scores."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        check_floating("attention", name, t, "a floating-point tensor")
    of_q, of_k, of_v = q.shape, k.shape, v.shape
    least, most = min(len(of_q), len(of_k), len(of_v)), max(len(of_q), len(of_k), len(of_v))
    if least < 2 or of_q[-1] != of_k[-1] or of_k[-2] != of_v[-2]:
        wanted = "[*, L, D], [*, S, D] and [*, S, Dv]"
        raise ValueError(f"attention: q, k and v must have shapes {wanted}, {_say_shapes(q, k, v)}")
    pair = (of_q[-2], of_k[-2])
    if most == 2:
        return pair
    queries, of_keys, of_values = [shape[-3] if len(shape) > 2 else 1 for shape in (of_q, of_k, of_v)]
    if queries > 1 and (not of_keys or not of_values or queries % of_keys or queries % of_values):
        wanted = "the heads of q, axis -3, must be a multiple of those of k and of v"
        raise ValueError(f"attention: {wanted}, {_say_shapes(q, k, v)}")
    if max(len(of_q), len(of_k)) == 2:
        return pair
    heads = of_keys if queries == 1 else queries
    if least == most == 4 and of_q[0] == of_k[0]:  # nearly always, and shapes are cut slowly
        return of_q[0], heads, *pair
    return (*broadcast(of_q[:-3], of_k[:-3]), heads, *pair)


def _say_shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
