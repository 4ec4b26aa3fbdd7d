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


@pytest.mark.parametrize("transform", ["softmax", "sparsemax", "entmax15", "normmax"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_of_half_precision_are_not_rounded(dtype, transform):
    q, k, v = (x.to(dtype) for x in heads(2, 3, queries=16, keys=16, features=64))
    slopes = torch.tensor([0.5, 2.0, 4.0])
    options = {"transform": transform, "alibi": slopes, "return_weights": True}
    out, weights = attention(8 * q, k, v, **options)
    wanted, exact = attention(8 * q.double(), k.double(), v.double(), **options)
    assert out.dtype == weights.dtype == dtype
    rounding = torch.finfo(dtype).eps  # of weights and values, at most 1 and 4
    torch.testing.assert_close(weights.double(), exact, rtol=rounding, atol=1e-4)
    torch.testing.assert_close(out.double(), wanted, rtol=rounding, atol=4 * rounding)


def test_scores_of_half_precision_are_finite():
    q = torch.full((1, 3, 4), 300.0, dtype=torch.float16)  # scores of 180000 would be inf
    out = attention(q, q, torch.arange(3.0).half()[None, :, None], "softmax")
    torch.testing.assert_close(out, torch.ones(1, 3, 1, dtype=torch.float16))


def test_scores_under_autocast_are_not_rounded():
    q, k, v = heads(2, 3, queries=16, keys=16, features=64, dtype=torch.float32)
    wanted = attention(8 * q, k, v, return_weights=True)[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weights = attention(8 * q, k, v, return_weights=True)[1]
    torch.testing.assert_close(weights, wanted)


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


def written_out(q, k, v, function, keep, bias=0.0):
    """The definition: heads repeated, scores for all pairs, -inf where a query does not see a key."""
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    z = torch.einsum("...ld,...sd->...ls", q, k) / math.sqrt(q.shape[-1]) + bias
    p = function(z.masked_fill(~keep, -math.inf))
    return p @ v, p


def places(queries=4, keys=6, offset=0):
    """How far ahead of each query each key is."""
    return torch.arange(keys) - torch.arange(queries)[:, None] - offset


EVERY = torch.ones(4, 6, dtype=torch.bool)


@pytest.mark.parametrize(
    "options, keep",
    [
        ({"is_causal": True}, places() <= 0),
        ({"is_causal": True, "offset": 2}, places(offset=2) <= 0),
        ({"is_causal": True, "offset": -2}, places(offset=-2) <= 0),
        ({"window": 1}, places().abs() <= 1),
        ({"window": (2, 0), "offset": 1}, (places(offset=1) <= 0) & (places(offset=1) >= -2)),
        ({"window": (None, 1)}, places() <= 1),
        ({"window": (1, 3), "is_causal": True}, (places() <= 0) & (places() >= -1)),
        ({"lengths": torch.tensor([4, 0])}, torch.arange(6) < torch.tensor([4, 0])[:, None, None, None]),
        ({"mask": EVERY[0] & (torch.arange(6) != 2), "window": 2}, (places().abs() <= 2) & (torch.arange(6) != 2)),
    ],
)
@pytest.mark.parametrize("name", ["softmax", "entmax15", "sparsemax"])
def test_what_a_query_sees(options, keep, name):
    q, k, v = heads(2, 4)
    k, v = k[:, :2], v[:, :2]
    wanted, p = written_out(q, k, v, getattr(omegamax, name), keep)
    out, weights = attention(q, k, v, name, **options, return_weights=True)
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(weights, p)
    assert (weights.masked_select(~keep) == 0).all()
    torch.testing.assert_close(attention(q, k, v, name, **options), wanted)


def test_slopes_fall_with_the_distance_and_learn():
    q, k, v = heads(2, 4)
    slopes = torch.rand(4, dtype=torch.float64, requires_grad=True)
    bias = -slopes[:, None, None] * places(offset=1).abs()
    wanted, _ = written_out(q, k, v, omegamax.entmax15, EVERY, bias)
    out = attention(q, k, v, alibi=slopes, offset=1)
    torch.testing.assert_close(out, wanted)
    gradients = (torch.autograd.grad(x.square().sum(), slopes) for x in (out, wanted))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("groups", [(1, 1), (2, 2), (1, 4), (2, 4)])
def test_heads_may_share_keys_and_values(groups):
    q, k, v = (x.requires_grad_() for x in heads(2, 4))
    few = [x[:, :g].detach().requires_grad_() for x, g in zip((k, v), groups, strict=True)]
    wanted, _ = written_out(q, *few, omegamax.sparsemax, EVERY)
    out = attention(q, *few, "sparsemax")
    torch.testing.assert_close(out, wanted)
    inputs = (q, *few)
    gradients = (torch.autograd.grad(x.square().sum(), inputs) for x in (out, wanted))
    torch.testing.assert_close(*gradients)


def test_decoding_step_by_step_gives_what_one_call_gives():
    q, k, v = heads(2, 4, queries=6)
    k, v = k[:, :2], v[:, :2]
    whole = attention(q, k, v, is_causal=True, window=3)
    for i in range(6):
        step = attention(q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1], offset=i, is_causal=True, window=3)
        torch.testing.assert_close(step, whole[:, :, i : i + 1])


def test_support_counts_what_may_be_seen_and_has_no_weight():
    q, k, v = heads(2, 3, queries=70, keys=130)
    q[0, 0] *= 50
    lengths = torch.tensor([130, 0])
    out, weights, support = attention(
        q, k, v, "sparsemax", is_causal=True, lengths=lengths, return_weights=True, return_support=True
    )
    assert isinstance(support, nn.AttentionSupport)
    seen = (places(70, 130) <= 0) & (torch.arange(130) < lengths[:, None, None, None])
    wanted = ((weights == 0) & seen).sum((-2, -1)) / seen.sum((-2, -1)).clamp(min=1)
    torch.testing.assert_close(support.entries, wanted.expand(2, 3).float())
    assert (support.entries[1] == 0).all() and (support.blocks[1] == 0).all()
    assert support.entries[0, 0] > 0.95
    # Of three blocks that are seen, the last has six rows only; an empty one is found by hand.
    blocks = [weights[0, 0, a : a + 64, b : b + 64] for a, b in ((0, 0), (64, 0), (64, 64))]
    empty = sum(bool((block == 0).all()) for block in blocks) / 3
    torch.testing.assert_close(support.blocks[0, 0], torch.tensor(empty))
    again = attention(q, k, v, "sparsemax", is_causal=True, lengths=lengths, return_support=True)
    torch.testing.assert_close(again, (out, support))


def test_bad_options_are_refused_by_name():
    q, k, v = heads(2, 4)
    with pytest.raises(ValueError, match=r"attention: the heads of q, axis -3, must be a multiple"):
        attention(q, k[:, :3], v[:, :3])
    with pytest.raises(ValueError, match=r"attention: window must be an integer, a count of keys, .* got \(1, -1\)"):
        attention(q, k, v, window=(1, -1))
    with pytest.raises(ValueError, match=r"attention: alibi must be .* shape \(4,\), got .* of shape \(3,\)"):
        attention(q, k, v, alibi=torch.rand(3))
    with pytest.raises(ValueError, match=r"attention: lengths must be integers of shape \(2,\), got"):
        attention(q, k, v, lengths=torch.ones(2))
    with pytest.raises(TypeError, match=r"attention: offset must be an integer, got 0\.5"):
        attention(q, k, v, offset=0.5)


@pytest.mark.parametrize("heads, groups", [(6, 6), (6, 3), (6, 1)])
def test_enable_gqa_is_that_of_torch(heads: int, groups: int):
    q = torch.randn(2, heads, 5, 4, dtype=torch.float64)
    k, v = torch.randn(2, 2, groups, 7, 4, dtype=torch.float64)
    torchs = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for given in ({"enable_gqa": True}, {"enable_gqa": False}, {}):
        assert (attention(q, k, v, "softmax", **given) - torchs).abs().max() <= 1e-14


def test_enable_gqa_wants_heads_that_divide():
    q, k = torch.randn(2, 6, 5, 4), torch.randn(2, 4, 7, 4)
    with pytest.raises(ValueError, match=r"attention: the heads of q, axis -3, must be a multiple of those of k"):
        attention(q, k, k, enable_gqa=True)
    with pytest.raises(ValueError, match=r"attention: enable_gqa needs q, k and v with an axis of heads"):
        attention(q[0, 0], k[0, 0], k[0, 0], enable_gqa=True)


@pytest.mark.parametrize("name", ["softmax", "entmax15", "sparsemax"])
def test_sinks_take_weight_to_nowhere_and_learn(name):
    q, k, v = heads(2, 4)
    sinks = torch.linspace(-1, 2, 4, dtype=torch.float64).requires_grad_()
    keep = places() <= 0
    z = torch.einsum("bhld,bhsd->bhls", q, k) / math.sqrt(5)
    z = torch.cat([z.masked_fill(~keep, -math.inf), sinks[:, None, None].expand(2, 4, 4, 1)], -1)
    p = getattr(omegamax, name)(z)[..., :-1]
    out, weights = attention(q, k, v, name, is_causal=True, sinks=sinks, return_weights=True)
    torch.testing.assert_close((out, weights), (p @ v, p))
    assert (weights.sum(-1) < 1).any() and (weights.sum(-1) <= 1 + 1e-12).all()
    gradients = (torch.autograd.grad(x.square().sum(), sinks) for x in (out, p @ v))
    torch.testing.assert_close(*gradients)
    # A sink that nobody looks at changes nothing; without a key to see, it takes all.
    torch.testing.assert_close(attention(q, k, v, name, sinks=torch.full((4,), -math.inf)), attention(q, k, v, name))
    blind = torch.zeros(4, 6, dtype=torch.bool)
    assert (attention(q, k, v, name, blind, sinks=sinks) == 0).all()


def test_sinks_are_checked_by_name():
    q, k, v = heads(2, 4)
    with pytest.raises(ValueError, match=r"attention: sinks must be .* for each head, shape \(4,\), got .*\(3,\)"):
        attention(q, k, v, sinks=torch.zeros(3))
    with pytest.raises(TypeError, match=r"attention: sinks must be .* for each head, shape \(4,\), got torch.int64"):
        attention(q, k, v, sinks=torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match="with a cache there is no sinks"):
        attention(q, sinks=torch.zeros(4), cache=nn.PagedCache())
    one = attention(q[0, 0], k[0, 0], v[0, 0], "sparsemax", sinks=torch.zeros(1))
    torch.testing.assert_close(one, attention(q[:1, :1], k[:1, :1], v[:1, :1], "sparsemax", sinks=torch.zeros(1))[0, 0])
