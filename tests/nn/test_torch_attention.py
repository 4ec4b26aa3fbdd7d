"""Softmax attention by torch's kernels: the same as its definition, and only where they compute that."""

from __future__ import annotations

import math

import pytest
import torch

import omegamax
from omegamax import nn
from omegamax.integrations._layer import attend
from omegamax.nn import _torch_attention, attention

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def calls(monkeypatch):
    """Torch's kernels for tensors in single precision on any device; the calls that went there."""
    made = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **options):
        made.append(options)
        return attend(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    if not GPU:
        monkeypatch.setattr(_torch_attention, "_is_usable", lambda q: q.dtype != torch.float64)
    return made


def make_heads(groups=2, queries=7, keys=9):
    shapes = (2, 4, queries, 8), (2, groups, keys, 8), (2, groups, keys, 6)
    return [torch.randn(shape, device=DEVICE).requires_grad_() for shape in shapes]


def make_mask():
    mask = torch.rand(2, 1, 7, 9, device=DEVICE) > 0.4
    mask[1, 0, 3] = False
    return mask


OPTIONS = {
    "nothing": lambda: {},
    "scale": lambda: {"scale": 0.7},
    "mask": lambda: {"mask": make_mask()},
    "bias": lambda: {"mask": torch.randn(4, 7, 9, device=DEVICE)},
    "bias with -inf": lambda: {"mask": torch.zeros(2, 1, 7, 9, device=DEVICE).masked_fill(~make_mask(), -math.inf)},
    "mask of keys": lambda: {"mask": torch.arange(9, device=DEVICE) < 5},
    "module": lambda: {"transform": nn.Softmax()},
    "alpha = 1": lambda: {"transform": omegamax.Tsallis(1.0)},
}


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_outputs_and_gradients_are_those_of_the_definition(name, groups, calls):
    options = {"transform": "softmax"} | OPTIONS[name]()
    tensors = make_heads(groups)
    out = attention(*tensors, **options)
    assert len(calls) == 1
    g = torch.randn_like(out)
    got = (out, *torch.autograd.grad(out, tensors, g))
    wide = [x.detach().double().requires_grad_() for x in tensors]
    exact = attention(*wide, **options)
    wanted = (exact, *torch.autograd.grad(exact, wide, g.double()))
    assert len(calls) == 1
    for ours, value in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.double(), value, rtol=0, atol=2e-6 * (1 + value.abs().max().item()))


def spoil_blind_queries(q, k, v, mask, **options):
    """Attention by a kernel that gives NaN where a query sees no key, and to all keys in the backward pass."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    mask = (
        torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask
    )
    return (q @ k.mT * options["scale"] + mask).softmax(-1) @ v


@pytest.mark.parametrize("name", ["mask", "bias with -inf"])
def test_queries_that_see_nothing_get_zeros_whatever_the_kernel(name, monkeypatch):
    if not GPU:
        monkeypatch.setattr(_torch_attention, "_is_usable", lambda q: q.dtype != torch.float64)
    options = OPTIONS[name]()
    q, k, v = make_heads()
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    exact = attention(*wide, "softmax", **options)
    wanted = torch.autograd.grad(exact.sum(), wide)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spoil_blind_queries)
    out = attention(q, k, v, "softmax", **options)
    assert (out[1, :, 3] == 0).all()
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert (grads[0][1, :, 3] == 0).all()
    for ours, value in zip((out, *grads), (exact, *wanted), strict=True):
        torch.testing.assert_close(ours.double(), value, rtol=0, atol=2e-6 * (1 + value.abs().max().item()))


def test_nan_and_infinity_spoil_their_own_rows(calls):
    q, k, v = (x.detach() for x in make_heads(4))
    q[0, 1, 2, 0], q[1, 3, 4] = math.nan, math.inf
    out = attention(q, k, v, "softmax", mask=make_mask())
    spoilt = torch.zeros(2, 4, 7, dtype=torch.bool, device=DEVICE)
    spoilt[0, 1, 2] = spoilt[1, 3, 4] = True
    assert torch.equal(out.isnan().all(-1), spoilt) and torch.equal(out.isnan().any(-1), spoilt) and len(calls) == 1


def test_causal(calls):
    q, k, v = (x.detach() for x in make_heads(4, 9, 9))
    exact = attention(q.double(), k.double(), v.double(), "softmax", is_causal=True)
    torch.testing.assert_close(attention(q, k, v, "softmax", is_causal=True).double(), exact, rtol=0, atol=2e-6)
    assert calls == [{"dropout_p": 0.0, "is_causal": True, "scale": 1 / math.sqrt(8), "enable_gqa": False}]


def test_dropout(calls):
    q, k, _ = (x.detach() for x in make_heads(4, 64, 64))
    v = torch.eye(64, device=DEVICE).expand(2, 4, 64, 64).contiguous()
    p = attention(q, k, v, "softmax")
    dropped = attention(q, k, v, "softmax", dropout=0.25)
    kept = dropped > 0
    torch.testing.assert_close(dropped, p * kept / 0.75, rtol=0, atol=1e-6)
    assert abs(kept.float().mean().item() - 0.75) < 5 * math.sqrt(0.75 * 0.25 / kept.numel())
    assert len(calls) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"window": 3},
        {"alibi": torch.rand(4, device=DEVICE)},
        {"lengths": torch.tensor([3, 9], device=DEVICE)},
        {"is_causal": True},  # of 7 queries and 9 keys
        {"is_causal": True, "offset": 2},
        {"is_causal": True, "mask": torch.ones(9, dtype=torch.bool, device=DEVICE)},
        {"return_weights": True},
        {"return_support": True},
        {"deterministic": True},
        {"scale": -1.0},
        {"scale": 0.0},
        {"dropout": 1.0},
        {"transform": "entmax15"},
    ],
    ids=lambda options: ", ".join(options),
)
def test_the_plain_way_is_taken(options, calls):
    attention(*make_heads(), **{"transform": "softmax"} | options)
    assert not calls


def test_layers_of_transformers_models_go_there(calls):
    q, k, v = (x.detach() for x in make_heads(2, 9, 9))
    layer, omega = torch.nn.Identity(), omegamax.get("softmax")
    out, weights = attend(layer, q, k, v, None, omega, weights=False)
    assert weights is None and len(calls) == 1 and calls[0]["is_causal"] and calls[0]["enable_gqa"]
    exact = attention(q.double(), k.double(), v.double(), "softmax", is_causal=True)
    torch.testing.assert_close(out.double(), exact.transpose(1, 2), rtol=0, atol=2e-6)
    attend(layer, q, k, v, torch.ones(2, 1, 9, 9, dtype=torch.bool, device=DEVICE).tril(), omega, weights=False)
    assert len(calls) == 2 and not calls[1]["is_causal"]
    attend(layer, q, k, v, None, omega, weights=False, s_aux=torch.zeros(4, device=DEVICE))
    assert len(calls) == 2


def test_deterministic_algorithms_are_plain(calls):
    torch.use_deterministic_algorithms(True)
    try:
        attention(*make_heads(), "softmax")
    finally:
        torch.use_deterministic_algorithms(False)
    assert not calls


def test_no_keys_are_refused(calls):
    with pytest.raises(ValueError, match="needs at least one entry"):
        attention(*make_heads(keys=0), "softmax")
    assert not calls


@pytest.mark.skipif(not GPU, reason="the backend is asked for on a GPU")
def test_reference_backend_is_plain(calls):
    with omegamax.backend("reference"):
        attention(*make_heads(), "softmax")
    assert not calls
