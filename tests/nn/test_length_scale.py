"""The scale that depends on the number of keys: its formula, what counts as a key, and what it leaves alone."""

import math
import pickle

import pytest
import torch

from omegamax import nn


def scale_of(heads=3, **options):
    """A scale whose heads all differ."""
    scale = nn.LengthScale(heads, **options).double()
    for p in scale.parameters():
        torch.nn.init.normal_(p, std=0.7)
    return scale


@pytest.mark.parametrize("delta, reach", [(1.0, 2.0), (0.0, 1.0)])
def test_scale_is_the_formula(delta, reach):
    scale = scale_of(delta=delta, reach=reach)
    n = [1, 2, 17, 40000]
    for h, (b, g) in enumerate(zip(scale.b.tolist(), scale.g.tolist(), strict=True)):
        beta, gamma = math.log1p(math.exp(b)), reach * math.tanh(g)
        wanted = [delta + beta * math.log(k + 1) ** gamma for k in n]
        got = scale(torch.tensor(n))[h, :, 0]
        torch.testing.assert_close(got, torch.tensor(wanted, dtype=torch.float64), rtol=1e-12, atol=0)


def test_scale_with_inputs_is_the_formula_of_each_query():
    scale = scale_of(features=5)
    x, n = torch.randn(2, 4, 5, dtype=torch.float64), torch.tensor([1, 2, 3, 4])
    w_b, w_g = scale.by_input.weight.chunk(2)
    b, g = (x @ w_b.T + scale.b).transpose(1, 2), (x @ w_g.T + scale.g).transpose(1, 2)
    wanted = 1 + torch.log1p(b.exp()) * (n + 1.0).log() ** (2 * g.tanh())
    torch.testing.assert_close(scale(n, x).squeeze(-1), wanted)


@pytest.mark.parametrize("features", [None, 5])
def test_scale_starts_at_eleven_tenths_for_every_length(features):
    x = None if features is None else torch.randn(4, features)
    start = nn.LengthScale(2, features)(torch.tensor([1, 5, 100, 10**6]), x)
    torch.testing.assert_close(start, torch.full((2, 4, 1), 1.1), rtol=1e-6, atol=0)


def test_gradient_reaches_every_parameter():
    scale, n = scale_of(features=5), torch.tensor([0, 1, 7, 300])
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    parameters = [p.detach().clone().requires_grad_() for p in scale.parameters()]
    names = [name for name, _ in scale.named_parameters()]

    def call(*values):
        return torch.func.functional_call(scale, dict(zip(names, values, strict=True)), (n, x))

    assert torch.autograd.gradcheck(call, parameters)


def test_no_keys_at_all_give_a_finite_scale():
    scale = scale_of()
    torch.nn.init.constant_(scale.g, -3.0)
    assert scale(torch.tensor([0])).isfinite().all()
    assert torch.equal(scale(torch.tensor([0])), scale(torch.tensor([1])))


def test_half_precision_counts_far():
    scale = nn.LengthScale(2).half()
    torch.nn.init.constant_(scale.g, 0.5)
    far = scale(torch.tensor([10**6]))
    assert far.isfinite().all() and far.dtype == torch.float32


def test_inputs_go_with_features():
    with pytest.raises(ValueError, match="no inputs"):
        nn.LengthScale(2)(torch.tensor([3]), torch.randn(1, 5))
    with pytest.raises(ValueError, match="L, 5"):
        nn.LengthScale(2, features=5)(torch.tensor([3]))
    for heads in (0, 2.5):
        with pytest.raises(ValueError, match=f"LengthScale: heads must be an int of at least 1, got {heads}"):
            nn.LengthScale(heads)
    with pytest.raises(ValueError, match="LengthScale: features must be an int of at least 1, got 0"):
        nn.LengthScale(2, features=0)


def layer(**options):
    """Multi-head attention whose heads scale their scores, and the same without."""
    scaled = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=scale_of(2), **options).double()
    plain = nn.MultiheadAttention(8, 2, batch_first=True, **options).double()
    shared = {k: v for k, v in scaled.state_dict().items() if not k.startswith("length_scale")}
    plain.load_state_dict(shared)
    return scaled, plain


def by_hand(scaled, x, n, mask):
    """Weights ``[B, H, L, S]`` of self-attention with scores scaled by s(n)."""
    q, k, _ = (x @ scaled.in_proj_weight.T + scaled.in_proj_bias).chunk(3, -1)
    q, k = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in (q, k))
    z = q @ k.mT / 2 * scaled.length_scale(n)
    return scaled.transform.argmax(z + mask)


CAUSAL = torch.full((5, 5), -torch.inf, dtype=torch.float64).triu(1)


@pytest.mark.parametrize(
    "given, n, mask",
    [
        ({}, torch.tensor([5]), torch.zeros(5, 5)),
        ({"is_causal": True}, torch.arange(1, 6), CAUSAL),
        ({"attn_mask": CAUSAL}, torch.arange(1, 6), CAUSAL),
        ({"attn_mask": CAUSAL.isinf().expand(6, 5, 5)}, torch.arange(1, 6), CAUSAL),
        ({"attn_mask": torch.eye(5, dtype=torch.float64)}, torch.tensor([5]), torch.eye(5, dtype=torch.float64)),
    ],
    ids=["all", "causal", "causal, added", "causal, each head", "bias"],
)
def test_scale_counts_the_keys_a_query_may_see(given, n, mask):
    scaled, _ = layer()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    _, weights = scaled(x, x, x, average_attn_weights=False, **given)
    torch.testing.assert_close(weights, by_hand(scaled, x, n, mask))


def test_padding_does_not_count():
    scaled, _ = layer()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 2:] = True
    for causal in (False, True):
        together, _ = scaled(x, x, x, key_padding_mask=padding, is_causal=causal)
        short = x[1:2, :2]
        alone, _ = scaled(short, short, short, is_causal=causal)
        torch.testing.assert_close(together[1:2, :2], alone)


def test_added_keys_count():
    scaled, _ = layer(add_zero_attn=True, add_bias_kv=True)
    seen = []
    scaled.length_scale.register_forward_pre_hook(lambda _, given: seen.append(given[0].tolist()))
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    scaled(x, x, x)
    scaled(x, x, x, is_causal=True)
    assert seen == [[5], [3, 4, 5]]


def test_layer_with_inputs_scales_by_the_query():
    scaled = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=scale_of(2, features=8)).double()
    x, y = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 5, 8, dtype=torch.float64)
    before, _ = scaled(x, y, y)
    torch.nn.init.zeros_(scaled.length_scale.by_input.weight)
    after, _ = scaled(x, y, y)
    assert before.shape == (3, 4, 8) and not torch.allclose(before, after)


def test_layer_without_scale_is_as_before():
    scaled, plain = layer()
    assert plain.length_scale is None
    assert list(plain.state_dict()) == list(torch.nn.MultiheadAttention(8, 2).state_dict())
    assert set(scaled.state_dict()) - set(plain.state_dict()) == {"length_scale.b", "length_scale.g"}
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    for p, value in ((scaled.length_scale.b, -800.0), (scaled.length_scale.g, 0.0)):
        torch.nn.init.constant_(p, value)  # beta = 0
    torch.testing.assert_close(scaled(x, x, x), plain(x, x, x))


def test_scale_is_learnt_and_survives_a_pickle():
    scaled = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=True)
    x = torch.randn(3, 5, 8)
    scaled(x, x, x, is_causal=True)[0].square().sum().backward()
    assert (scaled.length_scale.b.grad != 0).all() and (scaled.length_scale.g.grad != 0).all()
    again = pickle.loads(pickle.dumps(scaled))
    torch.testing.assert_close(again(x, x, x), scaled(x, x, x))


def test_scale_keeps_half_precision():
    scaled = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=True, dtype=torch.bfloat16)
    x = torch.randn(3, 5, 8, dtype=torch.bfloat16)
    assert scaled(x, x, x)[0].dtype == torch.bfloat16


@pytest.mark.parametrize(
    "scale, error", [(nn.LengthScale(3), ValueError), (nn.LengthScale(2, features=5), ValueError), (2.0, TypeError)]
)
def test_scale_that_does_not_fit_is_an_error(scale, error):
    with pytest.raises(error, match="length_scale"):
        nn.MultiheadAttention(8, 2, length_scale=scale)
