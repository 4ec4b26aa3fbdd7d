"""The fused attention against its definition in float64: on a GPU, or interpreted on a few queries and keys."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

import omegamax
from omegamax import nn
from omegamax.kernels.attention import call
from omegamax.kernels.attention.triton import launcher as kernels
from omegamax.nn import _attention_operation, _fused_attention, attention
from omegamax.nn import _support as plain_support

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
QUERIES, KEYS = 18, 21
# The interpreter multiplies infinities in lanes that are dropped.
pytestmark = [
    pytest.mark.usefixtures("fused"),
    pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning"),
]


@pytest.fixture
def fused(monkeypatch, run_time_loops):
    """Kernels for every tensor but those in double precision, in tiles that few queries fill; the calls' masks."""
    calls = []
    attend = _attention_operation.attend

    def spy(q, k, v, alpha, mask, *options):
        if not torch.compiler.is_compiling():
            calls.append(mask)
        return attend(q, k, v, alpha, mask, *options)

    monkeypatch.setattr(_attention_operation, "attend", spy)
    monkeypatch.setattr(call, "SHORT_KEYS", {})  # or all keys here would be few
    if not GPU:
        tiling = call.AttentionCall.tiling.compute
        small = {"tile": 32, "rows": 16, "block": 16, "wide": 2, "bounds": 16, "marks": 32}
        monkeypatch.setattr(call.AttentionCall, "tiling", property(lambda call: tiling(call)._replace(**small)))
        monkeypatch.setattr(_attention_operation, "usable", lambda q: q.dtype != torch.float64)
        monkeypatch.setattr(kernels, "COUNT_BLOCK", 32)
        monkeypatch.setattr(plain_support, "BLOCK", 32)
    return calls


@pytest.fixture
def short(monkeypatch):
    """One block for all keys."""
    monkeypatch.setattr(call, "SHORT_KEYS", {2: 256, 4: 64})


@pytest.fixture
def listed(monkeypatch):
    """Lists of keys, also where there are few."""
    monkeypatch.setattr(call, "LIST_LENGTH", 32)
    monkeypatch.setattr(kernels, "LIST_LENGTH", 32)
    monkeypatch.setattr(call.AttentionCall, "listed", property(lambda call: not call.deterministic))


def heads(batch=1, heads=2, groups=1, queries=QUERIES, keys=KEYS, depth=8, width=8, dtype=torch.float32):
    q = 2 * torch.randn(batch, heads, queries, depth)
    k, v = torch.randn(batch, groups, keys, depth), torch.randn(batch, groups, keys, width)
    return [x.to(DEVICE, dtype).requires_grad_() for x in (q, k, v)]


def learnt(heads=2):
    return nn.Entmax(torch.linspace(1.2, 1.8, heads), learnable=True, per=heads).to(DEVICE)


OPTIONS = {
    "causal": lambda: {"is_causal": True, "offset": KEYS - QUERIES},
    "sparsemax, window": lambda: {"transform": "sparsemax", "window": (4, 2)},
    "learnt alphas, slopes, lengths": lambda: {
        "transform": learnt(),
        "alibi": torch.tensor([0.1, 0.3], device=DEVICE),
        "lengths": torch.tensor([13], device=DEVICE),
    },
    "mask": lambda: {"mask": torch.rand(1, 1, QUERIES, KEYS, device=DEVICE) > 0.3, "transform": omegamax.Tsallis(1.3)},
    "mask of keys": lambda: {"mask": torch.rand(KEYS, device=DEVICE) > 0.3, "is_causal": True},
    "bias": lambda: {"mask": torch.randn(2, QUERIES, KEYS, device=DEVICE)},
}


def check(tensors, calls, tolerance, **options):
    """Outputs, gradients and statistics against those of the definition."""
    learnt = list(options["transform"].parameters()) if isinstance(options.get("transform"), nn.Entmax) else []
    out, support = attention(*tensors, return_support=True, **options)
    assert len(calls) == 1 and out.dtype == tensors[0].dtype
    g = torch.randn_like(out)
    grads = torch.autograd.grad(out, [*tensors, *learnt], g)
    wide = [x.detach().double().requires_grad_() for x in tensors]
    exact, weights, share = attention(*wide, return_weights=True, return_support=True, **options)
    wanted = torch.autograd.grad(exact, [*wide, *learnt], g.double())
    for got, value in zip((out, *grads), (exact, *wanted), strict=True):
        assert got.shape == value.shape
        torch.testing.assert_close(
            got.double(), value.double(), rtol=0, atol=tolerance * (1 + value.abs().max().item())
        )
    if tensors[0].dtype == torch.float32:
        torch.testing.assert_close(support, share)
        assert support.entries.shape == tensors[0].shape[:-2] and float(support.entries.max()) > 0
    assert (weights == 0).any()


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name, fused):
    check(heads(), fused, 2e-6, **OPTIONS[name]())


@pytest.mark.parametrize("name", ["causal", "learnt alphas, slopes, lengths", "mask of keys"])
def test_options_with_lists(name, fused, listed):
    check(heads(), fused, 2e-6, **OPTIONS[name]())


def test_tiles_of_queries_that_are_all_beyond_the_last_key(fused, listed, monkeypatch):
    """They read no candidates, for none were marked: what is in new memory would be taken for some."""
    make = torch.Tensor.new_empty

    def fill(*given, **options):
        new = make(*given, **options)
        return new.fill_(math.nan if new.is_floating_point() else -1)

    monkeypatch.setattr(torch.Tensor, "new_empty", fill)
    check(heads(queries=70), fused, 2e-6, window=(7, 2), lengths=torch.tensor([5], device=DEVICE))


@pytest.mark.parametrize("name", OPTIONS)
def test_options_with_few_keys(name, fused, short):
    check(heads(), fused, 2e-6, **OPTIONS[name]())


def test_few_keys_of_shared_heads(fused, short):
    check(heads(2, 4, 2, depth=5, width=12), fused, 2e-6, is_causal=True)


def test_half_precision_with_few_keys(fused, short):
    check(heads(dtype=torch.float16), fused, 2e-3, is_causal=True)


def test_lists_of_some_tiles_at_a_time(fused, listed, monkeypatch):
    monkeypatch.setattr(kernels, "MARK_BYTES", 1)
    check(heads(2), fused, 2e-6, is_causal=True)


@pytest.mark.parametrize(
    ("keys", "options", "wanted"),
    [
        (4096, {}, True),
        (2048, {}, False),
        (2048, {"right": call.UNLIMITED}, True),
        (8192, {"left": 1024}, False),
        (2048, {"alpha": 2.0}, True),
        (4096, {"alpha": 1.3}, False),
        (4096, {"alpha": 0.0, "alphas": torch.tensor([1.3, 1.8])}, True),
        (4096, {"deterministic": True}, False),
    ],
)
def test_lists_are_tried_where_they_are_short_and_keys_many(keys, options, wanted):
    q = torch.empty(1, 2, keys, 64, device="meta")
    numbers = {"alpha": 1.5, "alphas": None, "mask": None, "slopes": None, "lengths": None, "offset": 0, "scale": 1.0}
    assert call.AttentionCall(q, q, q, **{**numbers, "left": call.UNLIMITED, "right": 0, **options}).listed == wanted


def read_kept(transform, rate, seed, **options):
    """Return queries, keys, weights ``p`` and which of them the kernels kept, read off values that are unit vectors."""
    q, k, _ = heads()
    v = torch.eye(KEYS, device=DEVICE).expand(1, 1, KEYS, KEYS)
    p = attention(q, k, v, transform, return_weights=True, **options)[1]
    torch.manual_seed(seed)
    dropped = attention(q, k, v, transform, dropout=rate, **options)
    return q, k, p, dropped


@pytest.mark.parametrize("name", ["causal", "learnt alphas, slopes, lengths", "mask"])
def test_dropout_with_few_keys(name, fused, short):
    check_dropout(fused, **OPTIONS[name]())


@pytest.mark.parametrize("name", ["causal", "learnt alphas, slopes, lengths", "mask"])
def test_dropout_drops_the_same_weights_in_both_passes(name, fused):
    check_dropout(fused, **OPTIONS[name]())


def check_dropout(fused, **options):
    """Outputs and gradients against those of the definition, with the weights dropped that the kernels dropped."""
    transform, rate = options.pop("transform", "entmax15"), 0.4
    q, k, p, dropped = read_kept(transform, rate, 3, **options)
    kept = (dropped > 0).double()
    torch.testing.assert_close(dropped, (p * kept / (1 - rate)).float(), rtol=0, atol=3e-6)
    assert 0 < kept.sum() < (p > 0).sum()
    v = heads()[2]
    torch.manual_seed(3)
    out = attention(q, k, v, transform, dropout=rate, **options)
    g = torch.randn_like(out)
    learnt = list(transform.parameters()) if isinstance(transform, nn.Entmax) else []
    got = torch.autograd.grad(out, [q, k, v, *learnt], g)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    p = attention(*wide, transform, return_weights=True, **options)[1]
    wanted = torch.autograd.grad(p * kept / (1 - rate) @ wide[2], [*wide, *learnt], g.double())
    for ours, exact in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.double(), exact.double(), rtol=0, atol=2e-6 * (1 + exact.abs().max().item()))
    assert len(fused) == 2


def test_dropout_follows_the_seed_and_its_rate(fused):
    torch.manual_seed(5)
    q = torch.zeros(2, 2, 32, 8, device=DEVICE)
    v = torch.eye(128, device=DEVICE).expand(2, 2, 128, 128)
    k = torch.zeros(2, 2, 128, 8, device=DEVICE)

    def kept(seed, rate):
        torch.manual_seed(seed)
        return attention(q, k, v, "sparsemax", dropout=rate) > 0

    first = kept(1, 0.25)
    assert first.equal(kept(1, 0.25)) and not first.equal(kept(2, 0.25))
    # Shares of 16,384 independent draws, over all, over a key, over a query: within five standard deviations.
    for share, draws in ((first.float().mean(), first.numel()), (first.float().mean((0, 1, 2)), 128)):
        assert ((share - 0.75).abs() < 5 * math.sqrt(0.75 * 0.25 / draws)).all()
    # Neighbours in any direction, and the draws of another seed, are independent.
    x = (first.float() - 0.75) / math.sqrt(0.75 * 0.25)
    other = (kept(2, 0.25).float() - 0.75) / math.sqrt(0.75 * 0.25)
    products = [x * other, x[:, :1] * x[:, 1:], x[:1] * x[1:]]
    products += [x[..., :-n, :] * x[..., n:, :] for n in (1, 2)] + [x[..., :-n] * x[..., n:] for n in (1, 2, 16, 64)]
    for product in products:
        assert abs(product.mean().item()) < 5 / math.sqrt(product.numel())
    assert not kept(1, 1.0).any()


def test_whole_powers(fused):
    check(heads(), fused, 2e-6, transform=omegamax.Tsallis(1.25))


def test_half_precision(fused):
    check(heads(dtype=torch.float16), fused, 2e-3, is_causal=True)


def test_half_precision_with_lists_and_alphas(fused, listed):
    check(heads(dtype=torch.float16), fused, 2e-3, is_causal=True, transform=learnt())


@pytest.mark.parametrize("alpha", [1.25, 1.3, 1.5])
def test_many_keys_just_above_the_threshold(alpha, fused):
    # One step from the largest scores of some keys leaves more of the mass than half precision may miss. For the last
    # alpha one key has all the weight, and no rounding of it may be left in the gradient of the queries.
    q, k, v = heads(heads=1, keys=240, dtype=torch.float16)
    with torch.no_grad():
        q.zero_()[..., 0] = 1.0
        k.zero_()[:, :, :, 0] = torch.linspace(0.0, 0.2, 240)
        k[:, :, 7, 0] += 6.0
        k[:, :, 9, 0] -= 20.0
    check((q, k, v), fused, 2e-3, transform=omegamax.Tsallis(alpha))


def test_shapes_and_strides(fused):
    # Values wider than keys, neither a power of two; heads beside features in memory; keys and values as they come.
    q, k, v = heads(2, depth=5, width=12)
    q = q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    k = k.detach().mT.contiguous().mT.requires_grad_()
    check((q, k, v), fused, 2e-6)
    q, k, v = (x.detach() for x in (q, k, v))
    whole = attention(q, k, v)
    torch.testing.assert_close(attention(q[1], k[1], v[1]), whole[1])
    torch.testing.assert_close(attention(q[1, 0], k[1, 0], v[1, 0]), whole[1, 0])
    torch.testing.assert_close(attention(q[1, None], k[None, 1:], v[1])[0, 0], whole[1])
    assert len(fused) == 5


def test_one_alpha_for_all_heads_learns(fused):
    alpha = torch.tensor(1.4, device=DEVICE, requires_grad=True)
    tensors = heads()
    (got,) = torch.autograd.grad(attention(*tensors, omegamax.Tsallis(alpha)).square().sum(), alpha)
    wide = [x.detach().double() for x in tensors]
    (wanted,) = torch.autograd.grad(attention(*wide, omegamax.Tsallis(alpha)).square().sum(), alpha)
    assert len(fused) == 1
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_edge_case_rows(fused):
    q, k, v = (x.detach() for x in heads())
    q[0, 0, 2, 0], q[0, 1, 3], k[0, 0, 4] = math.nan, math.inf, 0.0
    q.requires_grad_()
    seen = torch.ones(QUERIES, KEYS, dtype=torch.bool, device=DEVICE)
    seen[5] = False
    out, support = attention(q, k, v, mask=seen, return_support=True)
    exact = attention(q, k, v, mask=seen, return_weights=True)[0]
    torch.testing.assert_close(out, exact, rtol=0, atol=3e-6, equal_nan=True)
    assert (out[:, :, 5] == 0).all() and out.isnan().all(-1).sum() == 2
    assert support.entries.isfinite().all()
    (dq,) = torch.autograd.grad(out[:, :, 4:].sum(), q)
    assert (dq[:, :, 5] == 0).all() and dq[:, :, 4:].isfinite().all()
    none = attention(q.detach(), k, v, is_causal=True, offset=-QUERIES)
    assert (none == 0).all()
    assert len(fused) == 2


@pytest.mark.parametrize("shape", [{"batch": 0}, {"keys": 1}])
def test_smallest_shapes(shape, fused):
    tensors = heads(**shape)
    out = attention(*tensors)
    assert len(fused) == 1
    torch.testing.assert_close(out, attention(*tensors, return_weights=True)[0])
    assert [g.shape for g in torch.autograd.grad(out.sum(), tensors)] == [x.shape for x in tensors]


def test_few_queries_go_through_the_maps_of_rows(fused):
    tensors = heads(heads=4, groups=2, queries=1)
    out = attention(*tensors, lengths=torch.tensor([9], device=DEVICE))
    assert not fused
    short = [tensors[0], *(x[:, :, :9] for x in tensors[1:])]
    torch.testing.assert_close(out, attention(*short))


def test_second_derivative_is_refused_with_the_way_out(fused):
    tensors = heads()
    (dq,) = torch.autograd.grad(attention(*tensors).sum(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match=r'attention: .*omegamax\.backend\("reference"\)'):
        torch.autograd.grad(dq.sum(), tensors[0])


def test_compiles_to_one_graph(fused):
    torch.compiler.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    def step(q, k, v):
        return attention(q, k, v, transform, mask=keys, window=6)

    transform, keys = learnt(), torch.rand(1, 1, 1, KEYS, device=DEVICE) > 0.3
    tensors = heads()
    out = torch.compile(step, fullgraph=True, backend=backend)(*tensors)
    assert len(graphs) == 1 and "omegamax.attention" in graphs[0].code
    exact = step(*tensors)
    inputs = [*tensors, transform.alpha.raw]
    torch.testing.assert_close(out, exact)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), inputs), torch.autograd.grad(exact.sum(), inputs))


def test_operations_keep_the_rules_of_torch(fused):
    q, k, v = heads(queries=2, keys=3)
    alphas = torch.tensor([1.3, 1.7], device=DEVICE, requires_grad=True)
    seed = torch.tensor([7], device=DEVICE)
    arguments = (q, k, v, alphas, None, None, None, seed, 0.0, 0, call.UNLIMITED, 0, 0.5, False, 0.2)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.omegamax.attention.default, arguments, test_utils=tests)
    state = torch.ops.omegamax.attention(*arguments)
    incoming = torch.randn_like(state[0])
    backward = (incoming, *(x.detach() for x in state[1:]), *arguments)
    torch.library.opcheck(torch.ops.omegamax.attention_backward.default, backward, test_utils=tests[::2])
    support = (q, k, v, state[1].detach(), *arguments[3:])
    torch.library.opcheck(torch.ops.omegamax.attention_support.default, support, test_utils=tests[::2])


def test_layer_without_weights(fused):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=True, transform=learnt()).to(DEVICE)
    x = 3 * torch.randn(1, QUERIES, 8, device=DEVICE)
    padding = torch.arange(QUERIES, device=DEVICE)[None] >= 12
    out, weights = layer(x, x, x, padding, need_weights=False, is_causal=True)
    assert weights is None and len(fused) == 1
    assert fused[0].shape == (1, 1, 1, QUERIES)  # the mask is that of the keys
    torch.testing.assert_close(out, layer(x, x, x, padding, is_causal=True)[0], rtol=0, atol=2e-6)


def test_maps_over_calls_and_batches_of_gradients(fused):
    q, k, v = heads(queries=17, keys=3)
    (rows,) = torch.autograd.grad(
        attention(q, k, v)[0, 0, 0, :2], q, torch.eye(2, device=DEVICE), is_grads_batched=True
    )
    (row,) = torch.autograd.grad(attention(q, k, v)[0, 0, 0, 1], q)
    torch.testing.assert_close(rows[1], row)
    count = len(fused)
    double = torch.stack([q, 2 * q])
    mapped = torch.func.vmap(attention, (0, None, None))(double, k, v)
    assert len(fused) == count  # the plain way
    torch.testing.assert_close(mapped[0], attention(q, k, v), rtol=0, atol=2e-6)


@pytest.mark.parametrize("reason", ["softmax", "alpha", "rows", "slope", "scale", "forward", "hook", "wide"])
def test_the_plain_way_is_taken(reason, fused):
    q, k, v = heads(queries=17, keys=3, width=300 if reason == "wide" else 8)
    options, transform = {}, "entmax15"
    if reason in ("softmax", "alpha"):
        transform = "softmax" if reason == "softmax" else omegamax.Tsallis(torch.tensor(2.5, device=DEVICE))
    elif reason == "rows":
        transform = omegamax.Tsallis(torch.full((17, 1), 1.5, device=DEVICE))
    elif reason == "slope":
        options["alibi"] = torch.rand(2, device=DEVICE, requires_grad=True)
    elif reason == "scale":
        options["scale"] = -1.0
    elif reason == "hook":
        transform = nn.Entmax15()
        transform.register_forward_hook(lambda *_: None)
    if reason == "forward":
        torch.func.jvp(lambda q: attention(q, k, v), (q,), (torch.ones_like(q),))
    else:
        attention(q, k, v, transform, **options)
    assert not fused


def test_autocast_settles_the_precision(fused):
    q, k, v = heads()
    with torch.autocast(DEVICE, dtype=torch.float16 if GPU else torch.bfloat16):
        cast = _fused_attention._cast(q, k, v.double())
    assert [x.dtype for x in cast] == [torch.float16 if GPU else torch.bfloat16] * 2 + [torch.float64]


def test_mask_that_is_the_same_for_every_query_stays_small(fused):
    q, k, v = heads()
    keys = torch.rand(KEYS, device=DEVICE) > 0.3
    out = attention(q, k, v, mask=keys.expand(1, 1, QUERIES, KEYS))
    assert fused[0].shape == (1, 1, 1, KEYS)
    torch.testing.assert_close(out, attention(q, k, v, mask=keys, return_weights=True)[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "depth", "causal"), [(torch.float32, 2e-6, 8, True), (torch.bfloat16, 1e-2, 6, False)]
)
def test_sinks_are_one_more_key(fused, dtype, tolerance, depth, causal):
    q, k, v = heads(dtype=dtype, depth=depth)
    sinks = torch.tensor([0.7, -math.inf], device=DEVICE, requires_grad=True)
    options = {"transform": "entmax15", "is_causal": causal, "offset": KEYS - QUERIES if causal else 0}
    out = attention(q, k, v, sinks=sinks, **options)
    assert len(fused) == 1 and out.shape == q.shape[:-1] + v.shape[-1:] and out.dtype == dtype
    g = torch.randn_like(out)
    found = (out, *torch.autograd.grad(out, (q, k, v, sinks), g))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v, sinks)]
    exact = attention(*wide[:3], sinks=wide[3], **options)
    for got, value in zip(found, (exact, *torch.autograd.grad(exact, wide, g.double())), strict=True):
        value = value.nan_to_num()  # a sink without weight has no gradient
        limit = tolerance * (1 + value.abs().max().item())
        torch.testing.assert_close(got.double(), value, rtol=0, atol=limit)


def test_sinks_beside_masks_by_position_are_computed_plainly(fused):
    q, k, v = heads()
    sinks = torch.zeros(2, device=DEVICE)
    for options in ({"window": 3}, {"lengths": torch.tensor([9], device=DEVICE)}, {"return_weights": True}):
        attention(q, k, v, "sparsemax", sinks=sinks, **options)
    assert not fused
