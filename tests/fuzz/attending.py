"""Draw calls of attention that stores no weights: in tiles, by lists, in one block, in pages; dropout; sinks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from omegamax import Tsallis, attention
from omegamax.kernels.attention import call
from omegamax.nn import PagedCache

from .operations import Operation, Place

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
SCALES = {"normal": 1.0, "flat": 0.05, "peaked": 6.0, "heavy-tailed": 1.0}
SMALL = {"tile": 32, "rows": 16, "block": 16, "wide": 2, "bounds": 16, "marks": 32}


@contextmanager
def tiled(ways: str, on_gpu: bool) -> Iterator[None]:
    """Let attention take one of its ways, in tiles that few queries fill where they are interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call, "SHORT_KEYS", {2: 256, 4: 64} if ways == "short" else {})
        if not on_gpu:
            tiling = call.AttentionCall.tiling.compute
            patch.setattr(call.AttentionCall, "tiling", property(lambda c: tiling(c)._replace(**SMALL)))
        if ways == "lists":
            from omegamax.kernels.attention.triton import launcher

            patch.setattr(call, "LIST_LENGTH", 32)
            patch.setattr(launcher, "LIST_LENGTH", 32)
            may = lambda c: not (c.deterministic or c.seed is not None) and (c.mask is None or not c.mask.stride(-2))  # noqa: E731
            patch.setattr(call.AttentionCall, "listed", property(may))
        yield


def draw_heads(rng: random.Random, g: torch.Generator, queries: int, keys: int) -> tuple[list[Tensor], str]:
    """Return queries, keys and values, of which heads may be shared, and the distribution of their scores."""
    batch, groups = rng.choice((1, 2)), rng.choice((1, 2))
    heads, depth, width = groups * rng.choice((1, 2, 3)), rng.choice((1, 5, 8, 32)), rng.choice((1, 3, 16))
    distribution = rng.choice(tuple(SCALES))
    q, k, v = (
        torch.randn(batch, h, length, size, generator=g, dtype=F64)
        for h, length, size in ((heads, queries, depth), (groups, keys, depth), (groups, keys, width))
    )
    if distribution == "heavy-tailed":
        k = k / torch.rand(batch, groups, keys, 1, generator=g, dtype=F64).clamp(min=0.05)
    return [SCALES[distribution] * q, k, v], f"{distribution} {tuple(q.shape)} x {tuple(k.shape)} x {width}"


def draw_options(rng: random.Random, g: torch.Generator, q: Tensor, keys: int) -> dict[str, Any]:
    """Return what hides keys, or changes scores; tensors float64, and of the host."""
    batch, heads, queries = q.shape[:3]
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options |= {"is_causal": True, "offset": rng.choice((0, keys - queries, keys // 2))}
    if rng.random() < 0.3:
        options["window"] = rng.choice((3, (7, 2), (keys, 0), (None, 4)))
    if rng.random() < 0.3:
        options["alibi"] = torch.rand(heads, generator=g, dtype=F64)
    if rng.random() < 0.3:
        options["lengths"] = torch.randint(keys + 1, (batch,), generator=g)
    if rng.random() < 0.4:
        shape = rng.choice(((queries, keys), (keys,), (1, keys), (heads, queries, keys), (batch, 1, 1, keys)))
        mask = torch.rand(shape, generator=g, dtype=F64)
        options["mask"] = mask < 0.7 if rng.random() < 0.5 else 3 * mask
    return options


def draw_fused(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw attention; gradients where the support decides little of them."""
    queries, keys = rng.choice((17, 18, 32, 45, 70)), rng.choice((1, 2, 15, 16, 21, 33, 64, 100))
    given, distribution = draw_heads(rng, g, queries, keys)
    options, alpha = draw_options(rng, g, given[0], keys), rng.choice((1.05, 1.2, 1.25, 4 / 3, 1.4, 1.5, 1.5, 1.8, 2.0))
    dtype, ways = rng.choice((F32, F32, F16, BF16)), rng.choice(("short", "dense", "lists"))
    by_head, sinks = rng.random() < 0.2, rng.random() < 0.2
    heads = given[0].shape[1]
    alphas = (1.1 + 0.4 * torch.rand(heads, 1, 1, generator=g, dtype=F64)) if by_head else None
    if sinks:
        options["sinks"] = torch.randn(heads, generator=g, dtype=F64)
    smooth = dtype is F32 and (by_head or alpha <= 1.5)
    slope = torch.randn(*given[0].shape[:3], given[2].shape[-1], generator=g, dtype=F64)

    def run(place: Place, plain: bool) -> list[Tensor]:
        q, k, v = (place(t).requires_grad_(smooth) for t in given)
        more = {name: place(t) if isinstance(t, Tensor) else t for name, t in options.items()}
        own = None if alphas is None else place(alphas).requires_grad_(smooth)
        with nullcontext() if plain else tiled(ways, q.is_cuda):
            out = attention(q, k, v, Tsallis(alpha if own is None else own), **more)
            if not smooth:
                return [out]
            return [out, *torch.autograd.grad(out, [q, k, v, *([] if own is None else [own])], place(slope))]

    text = f"{ways}, alpha {'by head' if by_head else f'{alpha:.3g}'}, {sorted(options)}, {distribution}"
    return Operation(seed, "attention", text, dtype, 0.0, run)


def draw_dropout(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw attention with dropout: what is kept is read off values that are unit vectors."""
    queries, keys = rng.choice((17, 33, 50)), rng.choice((2, 16, 21, 40))
    (q, k, v), distribution = draw_heads(rng, g, queries, keys)
    alpha, rate = rng.choice((1.2, 1.5, 2.0)), rng.choice((0.1, 0.5, 0.9))
    ways = rng.choice(("short", "dense"))
    options = {"is_causal": rng.random() < 0.5, "alibi": torch.rand(q.shape[1], generator=g, dtype=F64)}
    unit = torch.eye(keys, dtype=F64).expand(*k.shape[:2], keys, keys)
    kept: list[Tensor] = []

    def run(place: Place, plain: bool) -> list[Tensor]:
        more = {**options, "alibi": place(options["alibi"])}
        mapped = [place(t) for t in (q, k, v, unit)]
        if plain:  # the weights, dropped where the kernels dropped them, and the values they meet
            p = attention(*mapped[:3], Tsallis(alpha), return_weights=True, **more)[1]
            p = p * kept[0].to(p) / (1 - rate)
            return [p, p @ mapped[2].repeat_interleave(p.shape[1] // mapped[2].shape[1], 1)]
        found = []
        with tiled(ways, mapped[0].is_cuda):
            for values in (mapped[3], mapped[2]):
                torch.manual_seed(seed)
                found.append(attention(*mapped[:2], values, Tsallis(alpha), dropout=rate, **more))
        kept.append(found[0].cpu() > 0)
        return found

    return Operation(seed, "dropout", f"{ways}, alpha {alpha:.3g}, rate {rate}, {distribution}", F32, 0.0, run)


def draw_paged(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw attention to a cache in pages, against attention to all of it."""
    queries, keys, page = rng.choice((1, 1, 2, 5)), rng.choice((1, 7, 40, 90)), rng.choice((1, 2, 7, 16))
    (q, k, v), distribution = draw_heads(rng, g, queries, keys)
    if rng.random() < 0.5:
        k = k.cumsum(-2) / 3
    alpha, options = rng.choice((1.05, 1.25, 1.5, 1.8, 2.0)), {}
    if rng.random() < 0.5:
        options = {"is_causal": True, "offset": max(keys - queries, 0)}
    if rng.random() < 0.3:
        options["lengths"] = torch.randint(keys + 1, q.shape[:1], generator=g)
    dtype, pieces = rng.choice((F32, F32, F16)), sorted(rng.sample(range(keys), min(2, keys - 1)))

    def run(place: Place, plain: bool) -> list[Tensor]:
        more = {name: place(t) if isinstance(t, Tensor) else t for name, t in options.items()}
        a, b, c = (place(t) for t in (q, k, v))
        if plain:
            return [attention(a, b, c, Tsallis(alpha), **more), torch.ones(q.shape[:-1])]
        cache = PagedCache(page)
        for start, end in zip([0, *pieces], [*pieces, keys], strict=True):
            if end > start:
                cache.append(b[..., start:end, :], c[..., start:end, :])
        out, certificate = attention(a, None, None, Tsallis(alpha), cache=cache, **more)
        return [out, certificate.holds.float()]

    return Operation(
        seed, "paged", f"alpha {alpha:.3g}, pages of {page}, {sorted(options)}, {distribution}", dtype, 0.0, run
    )
