"""Attention against torch's, and against itself written out."""

import math

import pytest
import torch
import torch.nn.functional as F

import omegamax
from omegamax import nn
from omegamax.nn import attention


def heads(*batch, queries=4, keys=6, features=5, dtype=torch.float64):
    q = torch.randn(*batch, queries, features, dtype=dtype)
    k = torch.randn(*batch, keys, features, dtype=dtype)
    v = torch.randn(*batch, keys, 3, dtype=dtype)
    return q, k, v


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "causal"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_softmax_attention_is_torch_attention(batch, kind, scale):
    q, k, v = heads(*batch)
    mask = {"bool": torch.rand(4, 6) > 0.4, "float": torch.randn(4, 6, dtype=torch.float64)}.get(kind)
    if kind == "bool":
        mask[:, 0] = True
    causal = kind == "causal"
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
    torch.testing.assert_close(attention(q, k, v, "softmax", mask, causal, scale), wanted)


@pytest.mark.parametrize(
    "transform", ["entmax15", "sparsemax", omegamax.Tsallis(1.2), omegamax.KSubsets(2), nn.Normmax(3.0)]
)
def test_weights_are_the_map_of_the_scores(transform):
    q, k, v = heads(2, 3)
    mask = torch.rand(2, 1, 4, 6) > 0.3
    mask[..., :2] = True
    out, weights = attention(q, k, v, transform, mask, return_weights=True)
    z = torch.einsum("bhld,bhsd->bhls", q, k) / math.sqrt(5)
    function = {
        "entmax15": omegamax.entmax15,
        "sparsemax": omegamax.sparsemax,
    }.get(transform if isinstance(transform, str) else "")
    if function is None:
        function = transform.forward if isinstance(transform, torch.nn.Module) else transform.argmax
    wanted = function(z, mask=mask)
    torch.testing.assert_close(weights, wanted)
    torch.testing.assert_close(out, torch.einsum("bhls,bhsd->bhld", wanted, v))


def test_each_head_may_have_its_own_alpha():
    q, k, v = heads(2, 3)
    alpha = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
    out = attention(q, k, v, omegamax.Tsallis(alpha[:, None, None]))
    for head, name in enumerate(["softmax", "entmax15", "sparsemax"]):
        torch.testing.assert_close(out[:, head], attention(q[:, head], k[:, head], v[:, head], name))


@pytest.mark.parametrize("transform", ["softmax", "entmax15", "normmax", omegamax.KSubsets(2)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_query_without_keys_gets_zeros_and_no_gradient(transform, dtype):
    q, k, v = (x.requires_grad_() for x in heads(2))
    keep = torch.ones(4, 6, dtype=torch.bool)
    keep[1] = False
    mask = keep if dtype == torch.bool else torch.zeros(4, 6, dtype=dtype).masked_fill(~keep, -math.inf)
    out, weights = attention(q, k, v, transform, mask, return_weights=True)
    assert (out[:, 1] == 0).all() and (weights[:, 1] == 0).all()
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][:, 1] == 0).all()


def test_causal_mask_and_mask_act_together():
    q, k, v = heads(2, keys=4)
    mask = torch.rand(4, 4) > 0.3
    both = attention(q, k, v, "sparsemax", mask & torch.ones(4, 4, dtype=torch.bool).tril())
    torch.testing.assert_close(attention(q, k, v, "sparsemax", mask, is_causal=True), both)


def test_dropout_zeroes_weights_and_scales_the_others():
    q, k, v = heads(8, 8)
    _, clean = attention(q, k, v, "softmax", return_weights=True)
    out, dropped = attention(q, k, v, "softmax", dropout=0.25, return_weights=True)
    kept = dropped != 0
    assert 0.15 < 1 - kept.double().mean() < 0.35
    torch.testing.assert_close(dropped[kept], clean[kept] / 0.75)
    torch.testing.assert_close(out, dropped @ v)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_half(dtype):
    q, k, v = heads(2, dtype=dtype)
    mask = torch.zeros(4, 6)
    assert attention(q, k, v, mask=mask).dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attention(q.float(), k.float(), v.float()).dtype == torch.bfloat16


def test_attention_maps_and_compiles():
    q, k, v = heads(2, 3)
    mapped = torch.func.vmap(lambda q, k, v: attention(q, k, v, is_causal=True))(q, k, v)
    torch.testing.assert_close(mapped, attention(q, k, v, is_causal=True))
    torch.compiler.reset()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v, "sparsemax"), attention(q, k, v, "sparsemax"))


def test_bad_arguments_are_refused_by_name():
    q, k, v = heads(2)
    with pytest.raises(ValueError, match=r"attention: q, k and v must have shapes .* got \(2, 4, 5\)"):
        attention(q, k[..., 1:], v)
    with pytest.raises(TypeError, match=r"attention: v must be a floating-point tensor, got torch\.int64"):
        attention(q, k, v.long())
    with pytest.raises(TypeError, match="attention: mask must be bool"):
        attention(q, k, v, mask=torch.ones(4, 6, dtype=torch.long))
    with pytest.raises(ValueError, match=r"attention: mask of shape \(6, 4\) does not broadcast"):
        attention(q, k, v, mask=torch.ones(6, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="no map is called 'hardmax'"):
        attention(q, k, v, "hardmax")
    with pytest.raises(ValueError, match="attention: a module given as transform must have dim=-1"):
        attention(q, k, v, nn.Sparsemax(dim=1))
