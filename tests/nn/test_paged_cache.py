"""Attention to a part of a cache against attention to all of it in float64, on keys made to mislead it."""

import math
from fractions import Fraction

import pytest
import torch

import omegamax
from omegamax import Tsallis, attention
from omegamax.kernels.attention import reference
from omegamax.nn import Entmax, PagedCache

F64 = torch.float64
ALPHAS = [1.05, 1.2, 1.5, 1.8, 2.0, 3.0]


def build(k, v, page=8, pieces=(1, 5, 100)):
    """A cache that got its keys in pieces of uneven sizes."""
    cache, start = PagedCache(page), 0
    while start < k.shape[-2]:
        for piece in pieces:
            cache.append(k[..., start : start + piece, :], v[..., start : start + piece, :])
            start += piece
    return cache


def slow_drift(rows, count, features, step=0.3):
    return step * torch.randn(*rows, count, features, dtype=F64).cumsum(-2)


def needle(rows, count, features):
    """One key stands out, at the very end of a page in the middle."""
    k = 0.01 * torch.randn(*rows, count, features, dtype=F64)
    k[..., (count // 16) * 8 - 1, :] *= 1000
    return k


def decoys(rows, count, features):
    """Pages with the largest bounds have the smallest scores: opposite extremes that no key has at once."""
    k = torch.randn(*rows, count, features, dtype=F64)
    signs = torch.ones(features, dtype=F64)
    signs[::2] = -1
    k[..., ::2, :] = 3 * signs
    k[..., 1::2, :] = -3 * signs
    k[..., -8:, :] = 0.5
    return k


def equal(rows, count, features):
    return torch.ones(*rows, count, features, dtype=F64)


def huge(rows, count, features):
    return 1e4 * slow_drift(rows, count, features)


def outlier_in_each_page(rows, count, features):
    k = 0.1 * torch.randn(*rows, count, features, dtype=F64)
    k[..., ::8, :] *= 40
    return k


KEYS = [slow_drift, needle, decoys, equal, huge, outlier_in_each_page]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("keys", KEYS)
def test_result_is_that_of_all_keys(keys, alpha):
    torch.manual_seed(0)
    k, v = keys((2, 2), 200, 6), torch.randn(2, 2, 200, 3, dtype=F64)
    q = torch.randn(2, 4, 3, 6, dtype=F64)
    wanted, weights = attention(q, k, v, Tsallis(alpha), return_weights=True)
    out, certificate = attention(q, transform=Tsallis(alpha), cache=build(k, v))
    torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-9)
    assert certificate.holds.all() and (certificate.pages == 25).all()
    # No unread key has weight: pages with any were all read.
    with_weight = (weights > 1e-12).unflatten(-1, (25, 8)).any(-1).sum(-1)
    assert (certificate.pages_read >= with_weight).all()


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_most_pages_are_left_alone(alpha):
    torch.manual_seed(0)
    k = 3 * slow_drift((1, 1), 4096, 8)
    q, v = torch.randn(1, 1, 4, 8, dtype=F64), torch.randn(1, 1, 4096, 8, dtype=F64)
    _, certificate = attention(q, transform=Tsallis(alpha), cache=build(k, v, page=16, pieces=(4096,)))
    assert certificate.share.max() < 0.05
    # The promise is kept: neither is an unread score above the bound, nor has a score below the threshold weight.
    scores = (q @ k.mT / math.sqrt(8)).sort(-1, descending=True).values
    weighted = (omegamax.entmax(scores, alpha) > 0).sum(-1)
    assert (scores.gather(-1, weighted[..., None] - 1).squeeze(-1) > certificate.threshold).all()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_keys_that_are_added_only_raise_the_threshold(alpha):
    z = torch.randn(50, 64, dtype=F64)
    z[:10] = z[:10].round()  # ties
    before = torch.full((50,), -math.inf, dtype=F64)
    for n in range(1, 65):
        p = omegamax.entmax(z[:, :n], alpha)
        t = z[:, :n].amax(-1) - p.amax(-1) ** (alpha - 1) / (alpha - 1)
        assert (t >= before - 1e-12).all()
        before = t


def sparsemax_threshold(z):
    """The threshold of rational scores, without rounding."""
    z, total = sorted(z, reverse=True), Fraction(0)
    for count, score in enumerate(z, 1):
        if count * score <= total + score - 1:
            return (total - 1) / (count - 1)
        total += score
    return (total - 1) / len(z)


@pytest.mark.parametrize("size", [1e4, 1e8, 1e12])
def test_scores_that_cancel_do_not_make_a_false_certificate(size):
    # Keys of the page that is read first are large and nearly orthogonal to the query: their scores are lost to
    # rounding, and with them the threshold. A key of the other page has the least weight that there can be.
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        a, b, x = (torch.rand(3, dtype=F64, generator=generator) / 2 + 0.5).tolist()
        large = [[size, x - size * a / b], [size / 2, (x - size * a / b) / 2]]
        edge = sparsemax_threshold([Fraction(a) * Fraction(k) + Fraction(b) * Fraction(m) for k, m in large])
        small = [float(edge + Fraction(size) / 2**56) / a, 0.0]
        k = torch.tensor([*large, small, small], dtype=F64)[None, None]
        z = [Fraction(a) * Fraction(one) + Fraction(b) * Fraction(other) for one, other in k[0, 0].tolist()]
        _, found = attention(torch.tensor([[[[a, b]]]], dtype=F64), k, k, "sparsemax", scale=1.0, cache=PagedCache(2))
        threshold = sparsemax_threshold(z)
        assert found.holds.all() and Fraction(found.threshold.item()) <= threshold
        assert found.pages_read.item() == 2 or z[2] <= threshold


@pytest.mark.parametrize("alpha", [20.0, 101.0, 1001.0, 10000.0])
@pytest.mark.parametrize("top", [0.0, 1e-3])
def test_large_alpha_leaves_out_no_key_with_weight(top, alpha):
    # With alpha this large the weight of the lesser key is no power of e (z - t), which is below all numbers, but what
    # the greater one leaves of one, (e d)^(1/e); and the threshold is at its score to within rounding.
    generator = torch.Generator().manual_seed(0)
    for distance in torch.rand(50, generator=generator, dtype=F64).tolist():
        k = torch.tensor([top, top - distance / (alpha - 1)], dtype=F64)[None, None, :, None]
        v = torch.tensor([0.0, 1.0], dtype=F64)[None, None, :, None]
        cache = PagedCache(1)
        cache.append(k, v)
        out, certificate = attention(torch.ones_like(v[:, :, :1]), transform=Tsallis(alpha), cache=cache, scale=1.0)
        d = float(k[0, 0, 0, 0] - k[0, 0, 1, 0])
        wanted = -math.expm1(math.log((alpha - 1) * d) / (alpha - 1))
        assert abs(out.item() - wanted) < 1e-15 and certificate.holds.all()
        assert certificate.threshold.item() <= k[0, 0, 1, 0].item()


def test_hidden_nan_does_not_spoil_the_certificate_of_its_page():
    torch.manual_seed(0)
    k, v = slow_drift((1, 1), 30, 4), torch.randn(1, 1, 30, 4, dtype=F64)
    q = torch.randn(1, 1, 1, 4, dtype=F64)
    k[0, 0, 20] = torch.nan  # the query sees up to key 18, in the same page of 8
    out, certificate = attention(q, transform="entmax15", is_causal=True, cache=build(k, v), offset=18)
    assert certificate.holds.all()
    torch.testing.assert_close(out, attention(q, k[:, :, :19], v[:, :, :19], "entmax15"), rtol=1e-9, atol=1e-9)


def test_bounds_are_above_all_scores():
    torch.manual_seed(0)
    for keys in KEYS:
        for dtype in (F64, torch.float32):
            k = keys((2,), 43, 5).to(dtype)
            q = torch.randn(2, 7, 5, dtype=dtype)
            bounds = build(k, k, page=4).bound_pages(q)
            scores = torch.nn.functional.pad(q @ k.mT, (0, 1), value=-math.inf).unflatten(-1, (11, 4)).amax(-1)
            assert (bounds.upper >= scores).all() and (bounds.least <= scores).all()


def test_causal_queries_lengths_and_scale():
    torch.manual_seed(0)
    k, v = slow_drift((3, 2), 50, 4), torch.randn(3, 2, 50, 4, dtype=F64)
    q = torch.randn(3, 4, 6, 4, dtype=F64)
    lengths = torch.tensor([50, 20, 0])
    cache = build(k, v, page=7)
    for scale in (None, -2.0, 0.0):
        settings = {"is_causal": True, "offset": 40, "lengths": lengths, "scale": scale}
        wanted = attention(q, k, v, "entmax15", **settings)
        out, certificate = attention(q, None, None, "entmax15", cache=cache, **settings)
        torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-9)
    assert (out[2] == 0).all() and (certificate.pages[2] == 0).all() and certificate.holds.all()
    assert certificate.pages[0, 0].tolist() == [6, 6, 7, 7, 7, 7] and (certificate.pages[1] == 3).all()
    assert (certificate.share[2] == 0).all()


def test_many_queries_read_all_keys_at_once():
    torch.manual_seed(0)
    k, v = torch.randn(2, 2, 1, 50, 4, dtype=F64)
    q = torch.randn(2, 2, 20, 4, dtype=F64)
    q[1, 0, 3] = math.nan
    cache = build(k[:, :, :30], v[:, :, :30])
    given = {"is_causal": True, "offset": 30, "lengths": torch.tensor([50, 7]), "scale": 0.7}
    wanted = attention(q, k, v, "entmax15", **given)
    out, certificate = attention(q, k[:, :, 30:], v[:, :, 30:], "entmax15", cache=cache, **given)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert len(cache) == 50 and torch.equal(certificate.pages_read, certificate.pages)
    assert (
        certificate.pages[0, 0].tolist() == [-(-(31 + i) // 8) for i in range(20)] and (certificate.pages[1] == 1).all()
    )
    assert torch.equal(certificate.holds, ~wanted.isnan().any(-1)) and not certificate.holds.all()


def test_new_keys_are_appended_first():
    torch.manual_seed(0)
    k, v = torch.randn(2, 1, 3, 9, 4, dtype=F64)
    q = torch.randn(1, 3, 9, 4, dtype=F64)
    cache = PagedCache(4)
    for i in range(9):
        step = slice(i, i + 1)
        out, _ = attention(q[:, :, step], k[:, :, step], v[:, :, step], "sparsemax", cache=cache)
        wanted = attention(q[:, :, step], k[:, :, : i + 1], v[:, :, : i + 1], "sparsemax")
        torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)
    assert len(cache) == 9 and torch.equal(cache.keys, k) and torch.equal(cache.values, v)


def test_alpha_for_each_head_and_learnt():
    torch.manual_seed(0)
    k, v, q = slow_drift((2, 1), 60, 4), torch.randn(2, 1, 60, 2, dtype=F64), torch.randn(2, 3, 2, 4, dtype=F64)
    cache = build(k, v)
    by_head = Tsallis(torch.tensor([1.2, 1.5, 2.5], dtype=F64).reshape(3, 1, 1))
    learnt = Entmax(alpha=1.5, learnable=True, per=3)
    for transform in (by_head, learnt, Entmax(1.3), "sparsemax"):
        wanted = attention(q, k, v, transform)
        out, _ = attention(q, transform=transform, cache=cache)
        torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-9)
    q.requires_grad_()
    for wanted, found in zip(
        *(
            torch.autograd.grad(o.sin().sum(), (q, learnt.alpha.raw))
            for o in (attention(q, k, v, learnt), attention(q, transform=learnt, cache=cache)[0])
        ),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_is_as_good_as_attention_to_all(dtype):
    torch.manual_seed(0)
    k, v = slow_drift((2,), 300, 8).to(dtype), torch.randn(2, 300, 8).to(dtype)
    q = torch.randn(2, 5, 8).to(dtype)
    out, certificate = attention(q, transform="entmax15", cache=build(k, v))
    assert out.dtype == dtype and certificate.holds.all()
    truth = attention(q.double(), k.double(), v.double(), "entmax15")
    plain = (attention(q, k, v, "entmax15").double() - truth).abs().max()
    assert (out.double() - truth).abs().max() <= plain + torch.finfo(dtype).eps


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("count", [20, 256])
def test_autocast_leaves_bounds_and_scores_as_they_are(count, backend):
    torch.manual_seed(0)
    k, v = slow_drift((2, 1), count, 4).float(), torch.randn(2, 1, count, 4)
    q = torch.randn(2, 1, 1, 4)
    with omegamax.backend(backend):
        wanted = attention(q, transform="entmax15", cache=build(k, v))
        with torch.autocast("cpu", torch.bfloat16):
            cache = build(k, v)
            found = attention(q, transform="entmax15", cache=cache)
            bound = cache.bound(q)
        assert found[0].dtype == torch.float32 and bound.dtype == torch.float32
        assert torch.equal(found[0], wanted[0]) and all(map(torch.equal, found[1], wanted[1]))
        assert torch.equal(bound, cache.bound(q))


def test_nan_stays_with_those_who_see_it():
    torch.manual_seed(0)
    k, v = slow_drift((2, 1), 40, 4), torch.randn(2, 1, 40, 4, dtype=F64)
    q = torch.randn(2, 2, 3, 4, dtype=F64)
    k[0, 0, 33] = torch.nan
    q[1, 1, 2, 0] = torch.nan
    out, certificate = attention(q, transform="entmax15", cache=build(k, v))
    assert out[0].isnan().all() and out[1, 1, 2].isnan().all()
    fine = torch.ones(2, 2, 3, dtype=torch.bool)
    fine[0] = fine[1, 1, 2] = False
    assert torch.equal(certificate.holds, fine)
    torch.testing.assert_close(out[fine], attention(q, k, v, "entmax15")[fine], rtol=1e-9, atol=1e-9)
    # Before it in time, it does not exist.
    early, _ = attention(q, transform="entmax15", cache=build(k, v), is_causal=True, offset=20)
    assert early[0].isfinite().all()
    # A value without weight may be anything.
    v[1, 0, k[1, 0].norm(dim=-1).argmin()] = torch.nan
    weights = attention(q, k, torch.zeros_like(v), "sparsemax", return_weights=True)[1]
    out, _ = attention(q, transform="sparsemax", cache=build(k, v))
    clean = (weights[1, ..., k[1, 0].norm(dim=-1).argmin()] == 0).nonzero()
    assert len(clean) and all(out[1, h, i].isfinite().all() for h, i in clean.tolist())


def test_what_cannot_be_certified_is_refused():
    cache = build(*torch.randn(2, 1, 2, 10, 4))
    q = torch.randn(1, 2, 1, 4)
    for transform in ("softmax", omegamax.nn.Softmax(), Tsallis(1.0)):
        with pytest.raises(ValueError, match=r"finite alpha > 1 .* got .*; it has no zeros, so that every key matters"):
            attention(q, transform=transform, cache=cache)
    for transform in ("normmax", omegamax.KSubsets(2), Tsallis(math.inf), Tsallis(0.5)):
        with pytest.raises(ValueError, match="a cache is read with entmax of finite alpha > 1"):
            attention(q, transform=transform, cache=cache)
    with pytest.raises(ValueError, match="with a cache there is no mask, window"):
        attention(q, mask=torch.ones(1, 10, dtype=torch.bool), window=3, cache=cache)
    with pytest.raises(ValueError, match=r"q must be \[1, H, L, 4\] with H a multiple of 2 for this cache"):
        attention(q[:, :1], cache=cache)
    with pytest.raises(ValueError, match=r"k must be \[1, 2, L, 4\] as before"):
        cache.append(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4))
    with pytest.raises(ValueError, match=r"k must be torch\.float32 on cpu as before, got torch\.float64"):
        cache.append(torch.zeros(1, 2, 1, 4, dtype=F64), torch.zeros(1, 2, 1, 4, dtype=F64))
    with pytest.raises(ValueError, match="there are no keys yet"):
        attention(q, cache=PagedCache())
    with pytest.raises(TypeError, match="cache must be a PagedCache, got list"):
        attention(q, cache=[])
    with pytest.raises(TypeError, match="k and v must be tensors where there is no cache"):
        attention(q)


def test_refused_calls_leave_the_cache_as_it_was():
    k = torch.randn(1, 2, 5, 4)
    q, cache = torch.randn(1, 2, 1, 4), PagedCache(4)
    cache.append(k, k)
    calls = [
        (q, {"transform": "softmax"}, ValueError, "a cache is read with entmax"),
        (q[..., :3], {}, ValueError, "q must be"),
        (
            q,
            {"lengths": torch.tensor([1.5])},
            ValueError,
            r"lengths must be integers .* got torch.float32",
        ),
        (q, {"lengths": [5]}, TypeError, "lengths must be a tensor of integers, got list"),
        (q, {"is_causal": True, "offset": 1.5}, TypeError, "offset must be an integer, got 1.5"),
        (None, {}, TypeError, "q must be a floating-point tensor, got NoneType"),
    ]
    for given, settings, error, words in calls:
        with pytest.raises(error, match=words):
            attention(given, k, k, cache=cache, **settings)
    with pytest.raises(TypeError, match=r"v must be a torch\.Tensor, got NoneType"):
        attention(q, k, cache=cache)
    assert len(cache) == 5


def test_no_queries_no_examples_and_no_keys():
    k = torch.randn(2, 3, 5, 4)
    out, certificate = attention(k[:, :, :0], k, k, cache=PagedCache(2))
    assert out.shape == (2, 3, 0, 4) and certificate.holds.shape == (2, 3, 0)
    out, certificate = attention(k[:0], k[:0], k[:0], cache=PagedCache(2))
    assert out.shape == (0, 3, 5, 4) and certificate.share.shape == (0, 3, 5)
    with pytest.raises(ValueError, match="cache must hold at least one key"):
        attention(k, k[:, :, :0], k[:, :, :0], cache=PagedCache(2))


@pytest.mark.parametrize("page", [1, 3, 8, 100])
@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 4.0])
def test_any_draw_is_full_attention(alpha, page):
    """Ties, copies, keys from 1e-310 to 1e150, -inf, NaN, negative queries, one key, lengths and causal queries."""
    torch.manual_seed(page)
    for draw in range(16):
        count, features = [1, 2, 9, 33][draw % 4], [1, 2, 5][draw % 3]
        k, v = torch.randn(2, 2, count, features, dtype=F64), torch.randn(2, 2, count, 3, dtype=F64)
        q = torch.randn(2, 4, 2, features, dtype=F64)
        kind = draw % 7
        if kind == 0:
            k, q = k.round(), q.round()
        elif kind == 1:
            k = k[:, :, torch.randint(0, max(1, count // 5), (count,))]
        elif kind == 2:
            k = k * 10.0 ** torch.randint(-150, 150, (count, 1))
        elif kind == 3:
            k = k * 1e-310
        elif kind == 4:
            q, k = q.abs() + 0.1, k.masked_fill(torch.rand(2, 2, count, 1) < 0.3, -math.inf)
        elif kind == 5:
            k[1, 0, draw % count] = math.nan
        else:
            q = -q.abs()
        settings = [{}, {"lengths": torch.randint(0, count + 1, (2,))}, {"is_causal": True, "offset": count - 1}]
        given = settings[draw % 3] | ({"scale": -1.0} if draw % 5 == 0 and kind != 4 else {})
        wanted, weights = attention(q, k, v, Tsallis(alpha), return_weights=True, **given)
        out, certificate = attention(q, transform=Tsallis(alpha), cache=build(k, v, page), **given)
        fine = ~wanted.isnan().any(-1)
        assert torch.equal(fine, ~out.isnan().any(-1)) and certificate.holds[fine].all()
        torch.testing.assert_close(out[fine], wanted[fine], rtol=1e-9, atol=1e-9)
        pages = -(-count // page)
        padded = torch.nn.functional.pad(weights, (0, pages * page - count)).unflatten(-1, (pages, page))
        with_weight = (padded > 1e-12).any(-1).sum(-1)
        assert ((with_weight <= certificate.pages_read) & (certificate.pages_read <= certificate.pages))[fine].all()


@pytest.mark.parametrize("dtype", [F64, torch.float32, torch.bfloat16])
def test_unread_pages_are_not_looked_at(dtype):
    """What is in the pages that the certificate rules out, by their bounds, changes nothing, to the last bit."""
    torch.manual_seed(0)
    k = slow_drift((2, 1), 256, 4).to(dtype)
    v, q = torch.randn(2, 1, 256, 4).to(dtype), torch.randn(2, 1, 1, 4).to(dtype)
    cache = build(k, v)
    out, certificate = attention(q, transform="entmax15", cache=cache)
    scaled = q.to(torch.promote_types(dtype, torch.float32)) / 2  # the scale of 4 features
    bounds = cache.bound_pages(scaled, reach=2.0).upper
    unread = bounds.argsort(dim=-1, descending=True, stable=True).argsort(-1) >= certificate.pages_read.unsqueeze(-1)
    assert unread.any(-1).all() and torch.equal(bounds.masked_fill(~unread, -math.inf).amax(-1), certificate.bound)
    left_out = unread.squeeze(-2).repeat_interleave(8, -1)
    cache.values[left_out] = cache.keys[left_out] = math.nan
    assert torch.equal(attention(q, transform="entmax15", cache=cache)[0], out)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("page, count, features", [(4, 43, 5), (16, 50, 64), (64, 130, 33), (80, 200, 7), (3, 1, 1)])
def test_codes_bound_the_largest_score_of_each_page(page, count, features, dtype, backend, monkeypatch):
    """For keys and queries of all sizes, of which each query sees a part, and with a reach that leaves boxes closed."""
    monkeypatch.setattr(reference, "ROOM", 500)  # several parts
    torch.manual_seed(0)
    for size in (1e-30, 1.0, 1e15):
        k = (size * torch.randn(2, count, features, dtype=F64) * torch.randn(features, dtype=F64).exp()).to(dtype)
        k[:, :, 0] = 3.0  # a coordinate without spread
        q = torch.randn(2, 3, features, dtype=dtype) / size
        limits = torch.randint(0, count + 1, (2, 3))
        cache = build(k, k, page)
        scores = (q.double() @ k.double().mT).masked_fill(torch.arange(count) >= limits[..., None], -math.inf)
        largest = (
            torch.nn.functional.pad(scores, (0, -count % page), value=-math.inf).unflatten(-1, (-1, page)).amax(-1)
        )
        for reach in (math.inf, 0.5):
            with omegamax.backend(backend):
                upper, least, rounding = cache.bound_pages(q, limits, reach)
            assert (upper >= largest).all() and (least <= largest).all() and (rounding >= 0).all()
            assert torch.equal(upper == -math.inf, largest == -math.inf)
        # Codes know the scores of a page nearly: not so its box.
        spread = (k.amax(1) - k.amin(1)).double()
        wide = (1.01 / 255) * (q.double().abs() @ spread.unsqueeze(-1)).amax()
        there = largest > -math.inf
        with omegamax.backend(backend):
            upper, least, rounding = cache.bound_pages(q, limits)
        assert ((upper - largest)[there] <= wide + 13 * rounding[there]).all()
        assert ((largest - least)[there] <= wide + 13 * rounding[there]).all()


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_bounds_where_steps_underflow_or_sums_overflow(backend):
    """Queries in double precision to keys in single, whose spread is too small for codes; and sums beyond float32."""
    q = torch.tensor([[1e33, -1e33], [1e300, -1e300]], dtype=F64)[None]
    k = torch.tensor([[1e-33, 2e-33], [4e-33, 0.0], [0.0, 3e-33]])[None]
    large = torch.tensor([[1e20, 1e20], [2e20, 1e20], [1e20, 3e20]])[None]
    with omegamax.backend(backend):
        for queries, keys in ((q, k), (1e20 * torch.tensor([[[1.0, -1.0]]]), large)):
            upper, least, _ = build(keys, keys, page=2).bound_pages(queries)
            scores = queries.double() @ keys.double().mT
            largest = torch.stack([scores[..., :2].amax(-1), scores[..., 2]], -1)
            assert (upper >= largest).all() and (least <= largest).all() and (least < math.inf).all()


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_few_pages_are_read_of_keys_that_have_nothing_in_common(alpha):
    torch.manual_seed(0)
    k, v, q = torch.randn(2, 4096, 64), torch.randn(2, 4096, 64), 2 * torch.randn(2, 1, 64)
    out, certificate = attention(q, transform=Tsallis(alpha), cache=build(k, v, page=16, pieces=(4096,)))
    assert certificate.holds.all() and certificate.share.max() < {1.5: 0.15, 2.0: 0.05}[alpha]
    wide = [x.double() for x in (q, k, v)]
    torch.testing.assert_close(out.double(), attention(*wide, Tsallis(alpha)), rtol=0, atol=2e-5)
