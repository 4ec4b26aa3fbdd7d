"""Attention that reads a cache page by page, as far as is needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._arguments import check_type, is_number
from omegamax._checks import check_floating
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.maps import Omega, Shannon, Tsallis
from omegamax.nn._certified import Certificate, PageReader, certify_all, take_rows
from omegamax.nn._paged_decoding import decode_on_gpu
from omegamax.nn._pairs import check_lengths, check_offset
from omegamax.nn.alpha import Alpha
from omegamax.nn.paged_cache import PagedCache
from omegamax.nn.transforms import Entmax, Entmax15, Softmax, Sparsemax, apply

_MANY_QUERIES = 32  # that share keys: these are then read at once, for all of them


def attend_to_cache(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    cache: PagedCache,
    transform: Omega | torch.nn.Module,
    scale: float | None,
    lengths: Tensor | None,
    offset: int | None,
    attend_to_all: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Certificate]:
    """Return attention of queries ``[*, H, L, D]`` to all keys of the cache, ``[*, H, L, Dv]``, and its certificate.

    Args:
        k, v: appended to the cache first, once all other arguments are found to be right: a call that is refused
            leaves the cache as it was.
        lengths: how many keys each example has, the shape of the axes before the heads.
        offset: of causal queries: query i sees keys up to ``i + offset``. None: all.
        attend_to_all: the same attention as a function of keys and values. Many queries, such as those of a text that
            is read before it is gone on with, have few pages that none of them needs.
    """
    new = k is not None or v is not None
    if new:
        cache.check(k, v)  # type: ignore[arg-type]
    keys = cache.keys if k is None else k
    lead, heads, groups = _check_queries(q, keys)
    if offset is not None:
        check_offset(offset)
    if lengths is not None:
        check_lengths(lengths, lead)
    count = q.shape[-2]
    dtype = torch.promote_types(working_dtype(q), working_dtype(keys))
    alpha = _find_alpha(transform, torch.empty(*lead, heads, count, 1, dtype=dtype, device=q.device))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if new:
        cache.append(k, v)  # type: ignore[arg-type]
    if not len(cache):
        raise ValueError(f"attention: cache must hold at least one key, got {cache}")
    keys, values = cache.keys, cache.values
    limits = _count_visible(len(cache), count, q.device, lengths, offset)
    if heads // groups * count > _MANY_QUERIES and q.dtype == keys.dtype == values.dtype:
        out = attend_to_all(keys, values)
        return out, certify_all(out, limits, cache.page)
    decoded = decode_on_gpu(q, cache, transform, scale, limits)
    if decoded is not None:
        seen = -(-limits // cache.page)
        pages = seen.expand(decoded.pages_read.shape)
        return decoded.out, Certificate(decoded.pages_read, pages, decoded.bound, decoded.threshold)
    # Bounds hold for scores in the working precision, which autocast would take from products.
    with disable_autocast(q.device):
        scaled = q.to(dtype) * scale
        with torch.no_grad():
            reader = PageReader(scaled.detach(), cache, groups, limits, alpha)
            reader.read()
        # Only what has weight is read a second time, with gradients to the query; most values never are.
        k, v = (take_rows(t.flatten(0, -3), reader.text, reader.index).to(dtype) for t in (keys, values))
        k, v = (t.reshape(*lead, heads, count, *t.shape[1:]) for t in (k, v))
        z = (k @ scaled.unsqueeze(-1)).squeeze(-1)
        there = reader.scores.reshape(z.shape) != -math.inf  # NaN is there
        p = apply(transform, z.masked_fill(~there, -math.inf))
        v = v.masked_fill(~there.unsqueeze(-1), 0.0)  # a zero weight would not stop a NaN
        out = (p.unsqueeze(-2).to(dtype) @ v).squeeze(-2)
    return out.to(values.dtype), reader.certify((*lead, heads, count))


def _find_alpha(transform: Omega | torch.nn.Module, z: Tensor) -> float | Tensor:
    """Return the alpha of entmax for scores shaped like z; refuse maps that have no threshold to stop at."""
    alpha: float | Tensor | Alpha
    if isinstance(transform, Tsallis | Entmax):
        alpha = transform.alpha
    elif isinstance(transform, Entmax15 | Sparsemax):
        alpha = 1.5 if isinstance(transform, Entmax15) else 2.0
    else:
        alpha = 1.0 if isinstance(transform, Shannon | Softmax) else math.nan
    alpha = alpha(z).detach() if isinstance(alpha, Alpha) else alpha
    inside = bool(((alpha > 1) & (alpha < math.inf)).all()) if isinstance(alpha, Tensor) else 1 < alpha < math.inf
    if inside:
        return alpha
    given = getattr(transform, "name", type(transform).__name__)
    dense = "; it has no zeros, so that every key matters" if is_number(alpha) and alpha == 1 else ""
    raise ValueError(
        f"attention: a cache is read with entmax of finite alpha > 1 (sparsemax, entmax15, ...), got {given}{dense}"
    )


def check_cache_arguments(cache: PagedCache, refused: dict[str, bool]) -> None:
    """Refuse what is no cache, and arguments of attention that do not go with one."""
    check_type("attention", "cache", cache, PagedCache)
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise ValueError(f"attention: with a cache there is no {', '.join(given)}")


def _check_queries(q: Tensor, keys: Tensor) -> tuple[tuple[int, ...], int, int]:
    """Return the shape before the heads, and the numbers of heads of queries and keys."""
    check_floating("attention", "q", q, "a floating-point tensor")
    wanted = [*map(str, keys.shape[:-3]), "H", "L", str(keys.shape[-1])]
    fits = q.dim() == keys.dim() and q.shape[:-3] == keys.shape[:-3] and q.shape[-1] == keys.shape[-1]
    if not fits or q.shape[-3] % keys.shape[-3]:
        heads = f"with H a multiple of {keys.shape[-3]}"
        raise ValueError(f"attention: q must be [{', '.join(wanted)}] {heads} for this cache, got {tuple(q.shape)}")
    return tuple(q.shape[:-3]), q.shape[-3], keys.shape[-3]


def _count_visible(total: int, count: int, device: torch.device, lengths: Tensor | None, offset: int | None) -> Tensor:
    """Return how many keys each query sees, broadcastable to ``[*, H, L]``."""
    limits = torch.full((1, 1), total, device=device)
    if offset is not None:
        limits = (torch.arange(count, device=device) + (offset + 1)).clamp(0, total)[None]
    if lengths is not None:
        limits = torch.minimum(limits, lengths.to(device)[..., None, None])
    return limits
