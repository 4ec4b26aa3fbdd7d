"""The fused attention at its edges: queries that see nothing, other strides, bfloat16, everything dropped."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

from kernels.attention.test_triton import DEVICE, KEYS, QUERIES, heads
from kernels.attention.test_triton import fused as fused
from kernels.attention.test_triton import short as short
from omegamax.kernels.attention import call
from omegamax.kernels.attention.triton import launcher
from omegamax.nn import attention

pytestmark = [
    pytest.mark.usefixtures("fused"),
    pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning"),
]
GRID = 65535  # programs, at most, along any but the first axis


@pytest.fixture(params=["dense", "short"])
def kernel(request):
    """Either of the kernels that have dropout."""
    if request.param == "short":
        request.getfixturevalue("short")


def see_some():
    """A mask in which one query sees nothing."""
    seen = torch.rand(QUERIES, KEYS, device=DEVICE) > 0.3
    seen[5] = False
    return seen


def every_second_row():
    return [x.detach()[..., ::2, :].requires_grad_() for x in heads(queries=2 * QUERIES, keys=2 * KEYS)]


def features_first():
    return [x.detach().mT.contiguous().mT.requires_grad_() for x in heads()]


CASES = {
    "a query that sees nothing": lambda: (heads(), {"mask": see_some()}),
    "nothing is seen": lambda: (heads(), {"mask": torch.zeros(QUERIES, KEYS, dtype=torch.bool, device=DEVICE)}),
    "nothing is seen, in floats": lambda: (heads(), {"mask": torch.full((QUERIES, KEYS), -math.inf, device=DEVICE)}),
    "-inf and causal": lambda: (
        heads(),
        {"mask": torch.zeros(QUERIES, KEYS, device=DEVICE).masked_fill(~see_some(), -math.inf), "is_causal": True},
    ),
    "more queries than keys": lambda: (heads(queries=30, keys=9), {"is_causal": True, "offset": -20}),
    "texts without keys": lambda: (heads(2), {"lengths": torch.tensor([0, 4], device=DEVICE)}),
    "rows apart": lambda: (every_second_row(), {}),
    "features first": lambda: (features_first(), {"mask": see_some().mT.contiguous().mT}),
    "bias of heads": lambda: (heads(), {"mask": torch.randn(2, 1, KEYS, device=DEVICE)}),
    "queries kept": lambda: (heads(), {"mask": torch.rand(QUERIES, 1, device=DEVICE) > 0.4}),
    "bias in half precision": lambda: (heads(), {"mask": torch.randn(QUERIES, KEYS, device=DEVICE).bfloat16()}),
}


@pytest.mark.parametrize("name", CASES)
def test_edges(name, kernel, fused):
    tensors, options = CASES[name]()
    out = attention(*tensors, **options)
    g = torch.randn_like(out)
    got = (out, *torch.autograd.grad(out, tensors, g))
    wide = [x.detach().double().requires_grad_() for x in tensors]
    exact = attention(*wide, **options)
    wanted = (exact, *torch.autograd.grad(exact, wide, g.double()))
    for ours, value in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.double(), value, rtol=0, atol=2e-6 * (1 + value.abs().max().item()))
    assert len(fused) == 1


def test_bfloat16_is_as_exact_as_plain_attention(kernel, fused):
    tensors = heads(heads=4, groups=2, depth=5, width=12, dtype=torch.bfloat16)
    options = {"mask": see_some(), "is_causal": True}
    exact = attention(*(x.double() for x in tensors), **options)
    out, plain = attention(*tensors, **options), attention(*tensors, **options, return_weights=True)[0]
    error, limit = ((x.double() - exact).abs().max().item() for x in (out, plain))
    assert out.dtype == torch.bfloat16 and error <= 2 * limit
    assert (out[:, :, 5] == 0).all() and len(fused) == 1


def test_everything_dropped(kernel, fused):
    tensors = heads()
    out = attention(*tensors, dropout=1.0)
    assert (out == 0).all()
    assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), tensors))


def test_dropout_and_queries_that_see_nothing(kernel, fused):
    tensors = heads(queries=30, keys=9)
    out = attention(*tensors, dropout=0.3, is_causal=True, offset=-20)
    assert (out[:, :, :20] == 0).all() and (out[:, :, 20:] != 0).any()
    grads = torch.autograd.grad(out.sum(), tensors)
    assert (grads[0][:, :, :20] == 0).all() and all(g.isfinite().all() for g in grads)


def test_no_keys_are_refused_as_by_the_definition(fused):
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(ValueError, match="needs at least one entry"):
            attention(*heads(keys=0, dtype=dtype))
    assert not fused


@pytest.mark.parametrize("keys, dtype", [(8, torch.bfloat16), (300, torch.bfloat16), (600, torch.float32)])
def test_batch_and_heads_may_be_many(keys, dtype, monkeypatch):
    """A GPU has two billion programs along the first axis of a grid, and 65535 along the others."""
    monkeypatch.setattr(call, "SHORT_KEYS", {2: 256})
    monkeypatch.setattr(call, "MIN_SEEN_KEYS", 512)
    q, k, v = (torch.empty(9000, 8, n, 8, dtype=dtype, device="meta") for n in (20, keys, keys))
    far = call.UNLIMITED
    made = call.AttentionCall(q, k, v, 1.5, None, None, None, None, 0, far, far, 0.5)
    state = call.empty_state(made)
    incoming = call.with_strides(state[0])
    launches = launcher._plan_forward(made, *state)
    scratch = launcher._empty_scratch(made, *state[1:])
    launches += launcher._plan_backward(made, incoming, q, k, v, None, scratch, *state[1:])
    assert bool(made.short) == (keys == 8) and made.listed == (keys == 600)
    for planned in launches:
        assert max(planned.grid[1:], default=1) <= GRID


def test_calls_differ_where_their_launches_do():
    """What is kept for a call is found by its layout."""
    far = call.UNLIMITED
    q, k, v = (torch.empty(2, 4, n, 8, dtype=torch.bfloat16) for n in (20, 30, 30))
    tensors = dict.fromkeys(("alphas", "mask", "slopes", "lengths", "seed"))
    window = {"offset": 0, "left": far, "right": far}
    made = call.AttentionCall(q, k, v, alpha=1.5, scale=0.5, **tensors, **window)
    mask = torch.empty(2, 1, 1, 30, dtype=torch.bool)
    others = [
        {"q": q[:, :2]},
        {"q": q.transpose(1, 2).contiguous().transpose(1, 2)},
        {"q": q.half()},
        {"q": q.to("meta")},
        {"k": k[:, :2]},
        {"k": k.expand(2, 4, 30, 8)[:, :1].expand(2, 4, 30, 8)},
        {"v": v.float()},
        {"v": torch.empty(2, 4, 30, 16)},
        *({"mask": m.expand(2, 4, 20, 30)} for m in (mask, mask.float(), mask.expand(2, 4, 20, 30).contiguous())),
        *({name: torch.empty(4)} for name in ("alphas", "slopes", "lengths", "seed")),
        *({name: 5} for name in window),
        {"alpha": 1.25},
        {"scale": 0.25},
        {"dropout": 0.5},
        {"deterministic": True},
    ]
    layouts = [replace(made, **other).layout for other in [{}, *others]]
    assert len({*layouts}) == len(layouts)
    assert replace(made, q=q.clone(), v=v.clone()).layout == made.layout
