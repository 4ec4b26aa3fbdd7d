"""Entmax attention without its weights, as one operation that torch can differentiate and trace; GPU only."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._custom_op import refuse_forward_mode, refuse_second_derivative
from omegamax._operation import Operation
from omegamax.kernels.attention.call import UNLIMITED as UNLIMITED
from omegamax.kernels.attention.call import AttentionCall, empty_state

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
WIDEST = 256  # features of a query or a value
LOWEST = 1 + 1 / 4096  # alphas below it are taken for it: a higher power would not be exact


def usable(q: Tensor) -> bool:
    """Tell whether tensors like this one may go to the kernels, by their device and the backend that is asked for."""
    return kernels.takes_half("entmax", q)  # which needs what these need


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: float | Tensor,
    mask: Tensor | None,
    slopes: Tensor | None,
    lengths: Tensor | None,
    window: tuple[int, int, int],
    scale: float,
    deterministic: bool,
    support: bool,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Outputs ``[B, H, L, W]`` and, if asked for, the counts of ``omegamax::attention_support``.

    Args:
        q, k, v: ``[B, H, L, D]``, ``[B, G, S, D]`` and ``[B, G, S, W]`` of one dtype, H a multiple of G.
        alpha: in (1, 2], a number or ``[H]``.
        mask: four axes that broadcast to ``[B, H, L, S]``; bool, True keeps, or float, added.
        slopes: ``[H]``; scores lose that much for each key that lies between.
        lengths: ``[B]``, keys that are there.
        window: offset of the queries, and how many keys before and after its own position a query sees.
        dropout: share of the weights that are dropped, the same ones in both passes; torch's generator decides.
    """
    by_head, number = (alpha.float(), 0.0) if isinstance(alpha, Tensor) else (None, float(alpha))
    slopes = None if slopes is None else slopes.float()
    lengths = None if lengths is None else lengths.to(torch.int32)
    # Drawn on the device: nothing waits, and a captured graph draws anew each time it is replayed.
    seed = torch.randint(1 << 62, (1,), device=q.device) if dropout > 0 else None
    # Broadcast inside: a compiler need not keep the strides of what it passes.
    options = (by_head, mask, slopes, lengths, seed, number, *window, float(scale), deterministic, float(dropout))
    out, t, *_ = _attention(q, k, v, *options)
    return out, _support(q, k, v, t.detach(), *options) if support else None


def _call(
    q, k, v, alphas, mask, slopes, lengths, seed, alpha, offset, left, right, scale, deterministic, dropout
) -> AttentionCall:
    q, k, v = [x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v)]
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[-2])
    if not (alphas is slopes is lengths is None):
        alphas, slopes, lengths = [None if x is None else x.contiguous() for x in (alphas, slopes, lengths)]
    return AttentionCall(
        *(q, k, v, alpha, alphas, mask, slopes, lengths, offset, left, right, scale, deterministic, dropout, seed)
    )


OPTIONS = (
    "Tensor? alphas, Tensor? mask, Tensor? slopes, Tensor? lengths, Tensor? seed, float alpha, SymInt offset, "
    "SymInt left, SymInt right, float scale, bool deterministic, float dropout"
)


TENSORS = 8  # among the inputs
STATE = 6  # tensors besides the outputs: those of empty_state where not one block holds all keys


@cache
def _launcher() -> Any:
    """Return the launcher, which imports Triton: when the first call needs it."""
    from omegamax.kernels.attention.triton import launcher

    return launcher


def _forward(q, k, v, *options, learnt=False):
    if kernels.current_backend() not in ("auto", "triton"):  # which a graph traced before does not know
        raise RuntimeError(
            "attention: compiled for its fused kernels, but called where "
            f"omegamax.backend({kernels.current_backend()!r}) holds; compile it there"
        )
    return tuple(_launcher().forward(_call(q, k, v, *options), learnt))


def _traced_forward(*inputs):
    """Return as many results as the operator's schema has, whichever kernels run."""
    return _fill_up(_forward(*inputs), 1 + STATE)


def _fake_forward(q, k, v, *options):
    return _fill_up(empty_state(_call(q, k, v, *options)), 1 + STATE)


def _fill_up(results, count):
    return (*results, *(results[0].new_empty(0, dtype=torch.float32) for _ in range(count - len(results))))


def _gradients(g, t, blocks, dense, lists, p, count, q, k, v, *options):
    state = (t,) if blocks is t else (t, blocks, dense, lists, p, count)  # see _backward
    return tuple(_launcher().backward(_call(q, k, v, *options), g, *state))


def _traced_gradients(*inputs):
    return _fill_up(_gradients(*inputs), 4)


def _fake_gradients(g, t, blocks, dense, lists, p, count, q, k, v, alphas, *rest):
    grads = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return (*grads, q.new_empty(0 if alphas is None else q.shape[1], dtype=torch.float32))


def _counts(q, k, v, t, *options):
    """Pairs seen, those of them without weight, blocks seen, those without weight: ``[4, B, H]``."""
    return _launcher().count_zeros(_call(q, k, v, *options), t)


def _save(ctx, inputs, results):
    *tensors, ctx.alpha, ctx.offset, ctx.left, ctx.right, ctx.scale, ctx.deterministic, ctx.dropout = inputs
    ctx.mark_non_differentiable(*results[1:])
    return [*results[1:], *tensors]


def _backward(ctx, g, *_):
    numbers = (ctx.alpha, ctx.offset, ctx.left, ctx.right, ctx.scale, ctx.deterministic, ctx.dropout)
    state, tensors = ctx.saved_tensors[:-TENSORS], ctx.saved_tensors[-TENSORS:]
    stand_ins = state[:1] * (STATE - len(state))  # of what is not kept where one block holds all keys
    dq, dk, dv, *dalphas = _attention_backward(g, *state, *stand_ins, *tensors, *numbers)
    return dq, dk, dv, dalphas[0] if ctx.needs_input_grad[3] else None, *(None,) * 11


_jvp = refuse_forward_mode("attention", 'call it inside omegamax.backend("reference")')
_attention = Operation(
    "attention",
    f"(Tensor q, Tensor k, Tensor v, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _fake_forward,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    recorded=partial(_forward, learnt=True),
    traced=_traced_forward,
    vmap="loop",
)
_attention_backward = Operation(
    "attention_backward",
    "(Tensor g, Tensor t, Tensor blocks, Tensor dense, Tensor lists, Tensor p, Tensor count, "
    f"Tensor q, Tensor k, Tensor v, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
    _gradients,
    _fake_gradients,
    save=lambda ctx, inputs, results: (),
    backward=refuse_second_derivative("attention", "its fused kernels can be differentiated once"),
    jvp=_jvp,
    traced=_traced_gradients,
    vmap="loop",
)
_support = Operation(
    "attention_support",
    f"(Tensor q, Tensor k, Tensor v, Tensor t, {OPTIONS}) -> Tensor",
    _counts,
    lambda q, k, v, t, *options: q.new_empty(4, *q.shape[:2], dtype=torch.int64),
)
