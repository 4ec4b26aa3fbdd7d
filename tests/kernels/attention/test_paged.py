"""The kernels that read a cache in pages against attention to all of it in float64, on a GPU or interpreted."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

from nn.test_paged_cache import KEYS, build, slow_drift

import omegamax
from omegamax import Tsallis, attention
from omegamax.kernels.attention import paged
from omegamax.kernels.attention.triton import decode
from omegamax.nn import Entmax, _attention_operation

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
# The interpreter computes in lanes that are dropped, too.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(invalid value|overflow|divide by zero|All-NaN slice) encountered:RuntimeWarning"
)


@pytest.fixture(autouse=True)
def calls(monkeypatch, run_time_loops):
    """Kernels for every tensor but those in double precision, on any device; the calls that went there."""
    made = []
    run = decode.decode

    def spy(call):
        made.append(call)
        return run(call)

    monkeypatch.setattr(decode, "decode", spy)
    if not GPU:
        monkeypatch.setattr(_attention_operation, "usable", lambda q: q.dtype != torch.float64)
    return made


@pytest.fixture
def many_small_steps(monkeypatch):
    """Long loops everywhere: few chunks, few scores and values at a time, several tiles of queries."""
    monkeypatch.setattr(paged, "MOST_CHUNKS", 1)
    monkeypatch.setattr(paged, "MOST_ROWS", dict.fromkeys((2, 4), 16))
    monkeypatch.setattr(paged, "MOST_SPLITS", 4)
    monkeypatch.setattr(decode, "SIDE_BY_SIDE", 16)
    monkeypatch.setattr(decode, "VALUES", 2)


def make(keys=slow_drift, texts=(1, 2), heads=4, queries=1, count=90, depth=6, width=3, dtype=torch.float32):
    torch.manual_seed(0)
    k, v = keys(texts, count, depth), torch.randn(*texts, count, width)
    q = torch.randn(*texts[:-1], heads, queries, depth)
    return [x.to(DEVICE, dtype) for x in (q, k, v)]


def check(q, k, v, transform, page=8, **options):
    """Compare with all keys in float64, at twice the error of attention to all in this precision; read the proof."""
    cache = build(k, v, page)
    out, certificate = attention(q, None, None, transform, cache=cache, **options)
    wide = [x.double() for x in (q, k, v)]
    exact, weights = attention(*wide, transform, return_weights=True, **options)
    plain = attention(q, k, v, transform, return_weights=True, **options)[0]
    error, limit = ((x.double() - exact).abs().max().item() for x in (out, plain))
    assert out.dtype == v.dtype
    assert error <= 2 * limit + 4 * torch.finfo(torch.float32).eps * (1 + exact.abs().max().item())
    assert certificate.holds.all()
    padded = torch.nn.functional.pad(weights, (0, -weights.shape[-1] % page)).unflatten(-1, (-1, page))
    with_weight = (padded.amax(-1) > 1e-6).sum(-1)
    assert (certificate.pages_read >= with_weight).all() and (certificate.pages_read <= certificate.pages).all()
    return out, certificate


@pytest.mark.parametrize(
    "keys, alpha",
    [(keys, alpha) for i, keys in enumerate(KEYS) for alpha in ([1.05, 1.5], [1.25, 2.0], [1.5, 1.8])[i % 3]],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_result_is_that_of_all_keys(keys, alpha, calls):
    check(*make(keys, count=60), Tsallis(alpha))
    assert len(calls) == 1


def test_most_pages_are_left_alone(calls):
    q, k, v = make(count=1024, texts=(1,), heads=1, depth=8)
    _, certificate = check(q, 3 * k, v, "sparsemax", page=16)
    assert calls[0].splits > 1 and calls[0].chunks > 1
    assert certificate.share.max() < 0.2
    # The proof is true: where the others begin, no score is above the bound, and none below the threshold has weight.
    scores = (q.double() @ (3 * k).double().mT / math.sqrt(8)).unflatten(-1, (-1, 16)).amax(-1)
    matter = (scores > certificate.threshold.unsqueeze(-1)).sum(-1)
    assert (matter <= certificate.pages_read).all()
    ranked = scores.sort(-1, descending=True).values
    assert (ranked.gather(-1, certificate.pages_read.unsqueeze(-1)) <= certificate.bound.unsqueeze(-1)).all()


def test_long_loops(many_small_steps, calls):
    check(*make(count=90, texts=(1, 1), heads=17, depth=4), "entmax15", page=2)
    (call,) = calls
    assert call.tiles == 2 and call.chunk > paged.PAGES and call.splits == 4


def test_causal_queries_lengths_and_scale(calls):
    q, k, v = make(texts=(3, 1), heads=2, queries=4, count=40, depth=4)
    lengths = torch.tensor([40, 20, 0], device=DEVICE)
    for scale in (-2.0, 0.0):
        options = {"is_causal": True, "offset": 34, "lengths": lengths, "scale": scale}
        out, certificate = check(q, k, v, "entmax15", page=7, **options)
    assert (out[2] == 0).all() and (certificate.pages[2] == 0).all() and (certificate.pages_read[2] == 0).all()
    assert certificate.pages[0, 0].tolist() == [5, 6, 6, 6] and len(calls) == 2


def test_alpha_for_each_head(calls):
    q, k, v = make()
    by_head = Tsallis(torch.tensor([1.2, 1.5, 1.9, 2.0], device=DEVICE).reshape(4, 1, 1))
    learnt = Entmax(alpha=torch.tensor([1.1, 1.4, 1.6, 1.8]), learnable=True, per=4).to(DEVICE)
    for transform in (by_head, learnt):
        with torch.no_grad():
            check(q, k, v, transform)
    assert len(calls) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, calls):
    check(*make(depth=16, width=16, dtype=dtype), "entmax15")
    assert len(calls) == 1


@pytest.mark.parametrize(
    "shape, page",
    [
        ({"count": 1}, 8),
        ({"count": 70, "queries": 2}, 200),  # one page, of which a part is there
        ({"count": 130, "width": 12, "depth": 3}, 100),  # in two blocks each, not powers of two
        ({"count": 5, "heads": 2}, 1),
        ({"texts": (0, 2)}, 8),
    ],
)
def test_sizes(shape, page, calls):
    q, k, v = make(**shape)
    if not q.numel():
        cache = omegamax.nn.PagedCache(page)
        cache.append(k, v)
        out, certificate = attention(q, cache=cache)
        assert out.shape == (*q.shape[:-1], v.shape[-1]) and certificate.holds.shape == q.shape[:-1]
    else:
        check(q, k, v, "entmax15", page)
    assert len(calls) == 1


def test_ties_across_pages(calls):
    q, k, v = make(count=64)
    out, _ = check(q, k[..., :1, :].expand_as(k).contiguous(), v, "sparsemax")
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).repeat_interleave(2, -3), rtol=0, atol=1e-6)


def test_nan_and_infinity_stay_with_those_who_see_them(calls):
    q, k, v = make(texts=(3, 1), heads=2, queries=3, count=40, depth=4)
    k[0, 0, 33], q[1, 1, 2, 0], k[2, 0, 30, 1] = math.nan, math.nan, -math.inf
    q[2] = q[2].abs()  # the infinite key has score -inf for all
    out, certificate = attention(q, transform="entmax15", cache=build(k, v))
    spoilt = torch.zeros(3, 2, 3, dtype=torch.bool, device=DEVICE)
    spoilt[0] = spoilt[1, 1, 2] = True
    assert out[spoilt].isnan().all() and torch.equal(certificate.holds, ~spoilt)
    exact = attention(q.double(), k.double(), v.double(), "entmax15")
    torch.testing.assert_close(out[~spoilt].double(), exact[~spoilt], rtol=0, atol=4e-6)
    # Before it in time, it does not exist.
    early, _ = attention(q, transform="entmax15", cache=build(k, v), is_causal=True, offset=20)
    exact = attention(q[:1].double(), k[:1].double(), v[:1].double(), "entmax15", is_causal=True, offset=20)
    torch.testing.assert_close(early[:1].double(), exact, rtol=0, atol=4e-6)
    # Plus infinity spoils its row, as it does in attention to all keys.
    k[2, 0, 30, 1] = math.inf
    out, certificate = attention(q, transform="entmax15", cache=build(k, v))
    assert out[2].isnan().all() and not certificate.holds[2].any()


def test_value_without_weight_may_be_anything(calls):
    q, k, v = make(heads=2, count=40)
    weights = attention(q.double(), k.double(), v.double(), "sparsemax", return_weights=True)[1]
    v[weights.sum(-2) == 0] = math.nan
    out, _ = attention(q, transform="sparsemax", cache=build(k, v))
    assert out.isfinite().all() and v.isnan().any()


@pytest.mark.parametrize("reason", ["alpha", "precision", "gradient", "learnt", "types", "hook"])
def test_the_plain_way_is_taken(reason, calls):
    q, k, v = make(count=20)
    transform = Tsallis(2.5) if reason == "alpha" else Tsallis(1.5)
    if reason == "precision":
        q, k, v = (x.double() for x in (q, k, v))
    if reason == "gradient":
        q.requires_grad_()
    if reason == "types":
        k = k.bfloat16()
    if reason == "learnt":
        transform = Entmax(alpha=1.5, learnable=True, per=4).to(DEVICE)
    if reason == "hook":
        transform = omegamax.nn.Entmax15()
        transform.register_forward_hook(lambda *_: None)
    out, _ = attention(q, transform=transform, cache=build(k, v))
    assert not calls and out.requires_grad == (reason in ("gradient", "learnt"))


def test_maps_without_a_threshold_are_refused_as_ever(calls):
    q, k, v = make(count=20)
    with pytest.raises(ValueError, match=r"finite alpha > 1 .* so that every key matters"):
        attention(q, transform="softmax", cache=build(k, v))
    assert not calls


@pytest.mark.skipif(not GPU, reason="torch tells what waits for a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_nothing_waits_for_the_device(calls):
    q, k, v = make(count=500)
    cache = build(k, v)
    attention(q, cache=cache)
    try:
        torch.cuda.set_sync_debug_mode("error")
        attention(q, cache=cache)
    finally:
        torch.cuda.set_sync_debug_mode("default")
