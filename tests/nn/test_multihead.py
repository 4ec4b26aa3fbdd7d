"""Multi-head attention against torch's, in every configuration torch has."""

import copy
import inspect
import pickle

import pytest
import torch

import omegamax
from omegamax import nn

CONFIGURATIONS = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "other keys and values": {"kdim": 6, "vdim": 10},
    "bias_kv": {"add_bias_kv": True, "batch_first": True},
    "zero attention": {"add_zero_attn": True},
    "everything": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 6, "vdim": 10, "batch_first": True},
}


def twins(options, transform="softmax"):
    """Torch's layer and ours with the same weights."""
    theirs = torch.nn.MultiheadAttention(8, 2, **options).double()
    for p in theirs.parameters():  # torch starts biases at zero, where mistakes would not show
        torch.nn.init.normal_(p, std=0.5)
    ours = nn.MultiheadAttention(8, 2, **options, transform=transform).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(options, batched=True):
    sizes = ((4, 8), (5, options.get("kdim", 8)), (5, options.get("vdim", 8)))
    if not batched:
        return [torch.randn(s, dtype=torch.float64) for s in sizes]
    if options.get("batch_first"):
        return [torch.randn(3, *s, dtype=torch.float64) for s in sizes]
    return [torch.randn(s[0], 3, s[1], dtype=torch.float64) for s in sizes]


def masks(kind, batched=True):
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = padding[2, 4:] = True
    forbidden = torch.rand(4, 5) > 0.6
    forbidden[:, 0] = False
    each = torch.rand(6 if batched else 2, 4, 5) > 0.6
    each[..., 0] = False
    padding = padding if batched else padding[0]
    added = torch.randn(4, 5, dtype=torch.float64)
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "float padding": {"key_padding_mask": torch.randn(padding.shape, dtype=torch.float64)},
        "mask": {"attn_mask": forbidden},
        "mask of each head": {"attn_mask": each},
        "float mask": {"attn_mask": added},
        "padding and mask": {"key_padding_mask": padding, "attn_mask": forbidden},
        "padding and mask of each head": {"key_padding_mask": padding, "attn_mask": each},
        "float padding and float mask": {
            "key_padding_mask": torch.randn(padding.shape, dtype=torch.float64),
            "attn_mask": added,
        },
    }[kind]


MASKS = [
    "none",
    "padding",
    "float padding",
    "mask",
    "mask of each head",
    "float mask",
    "padding and mask",
    "padding and mask of each head",
    "float padding and float mask",
]


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("batched", [True, False])
def test_softmax_layer_is_torch_layer(options, kind, batched):
    theirs, ours = twins(options)
    qkv, given = inputs(options, batched), masks(kind, batched)
    for average in (True, False):
        wanted = theirs(*qkv, **given, average_attn_weights=average)
        got = ours(*qkv, **given, average_attn_weights=average)
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)
    out, weights = ours(*qkv, **given, need_weights=False)
    assert weights is None
    torch.testing.assert_close(out, wanted[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_state_dicts_are_exchanged_with_torch(options):
    theirs, ours = twins(options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    fresh = torch.nn.MultiheadAttention(8, 2, **options).double()
    fresh.load_state_dict(ours.state_dict())
    qkv = inputs(options)
    torch.testing.assert_close(fresh(*qkv), theirs(*qkv))


def test_gradients_are_those_of_torch():
    theirs, ours = twins({"batch_first": True})
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    for layer in (theirs, ours):
        layer(x, x, x)[0].square().sum().backward()
    for (name, p), q in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, msg=name)


def test_signatures_are_those_of_torch():
    for method in ("__init__", "forward"):
        wanted = inspect.signature(getattr(torch.nn.MultiheadAttention, method)).parameters
        given = dict(inspect.signature(getattr(nn.MultiheadAttention, method)).parameters)
        for own in ("transform", "length_scale"):
            given.pop(own, None)
        assert [(p.name, p.default, p.kind) for p in given.values()] == [
            (p.name, p.default, p.kind) for p in wanted.values()
        ]
    assert inspect.signature(nn.MultiheadAttention).parameters["transform"].default == "entmax15"


def test_causal_hint_with_and_without_mask():
    theirs, ours = twins({"batch_first": True})
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    wanted, _ = theirs(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    for attn_mask in (mask, None):
        given, _ = ours(x, x, x, attn_mask=attn_mask, is_causal=True, need_weights=False)
        torch.testing.assert_close(given, wanted)


def test_sparse_layer_applies_its_map_to_the_scores():
    _, ours = twins({"batch_first": True}, transform="sparsemax")
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    _, weights = ours(x, x, x, average_attn_weights=False)
    q, k, _ = (x @ ours.in_proj_weight.T + ours.in_proj_bias).chunk(3, -1)
    z = torch.einsum("blhd,bshd->bhls", q.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4))) / 2
    torch.testing.assert_close(weights, omegamax.sparsemax(z))
    assert (weights == 0).any()


def test_query_without_keys_gets_the_bias_of_the_output():
    _, ours = twins({"batch_first": True})
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1] = True
    out, weights = ours(x, x, x, key_padding_mask=padding)
    assert (weights[1] == 0).all()
    torch.testing.assert_close(out[1], ours.out_proj.bias.expand(5, 8))


def test_dropout_acts_in_training_only():
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
    x = torch.randn(3, 5, 8)
    _, weights = layer(x, x, x, average_attn_weights=False)
    assert (weights.sum(-1) - 1).abs().max() > 0.1
    _, weights = layer.eval()(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 5))


def test_heads_learn_their_alpha():
    layer = nn.MultiheadAttention(8, 2, transform=nn.Entmax(learnable=True, per=2))
    assert "transform.alpha.raw" in layer.state_dict()
    x = torch.randn(5, 3, 8)
    layer(x, x, x)[0].square().sum().backward()
    assert (layer.transform.alpha.raw.grad != 0).all()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("revive", [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_encoder_layer_of_torch_never_bypasses_the_map(norm_first, revive):
    # In eval mode and without gradients torch's layer would run its own fused softmax on our weights.
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first)
    softmax = copy.deepcopy(layer).eval()
    ours = nn.MultiheadAttention(8, 2, batch_first=True, transform="sparsemax")
    ours.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = ours
    layer = revive(layer)
    x = 3 * torch.randn(3, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    for given in ({}, {"src_key_padding_mask": padding}):
        trained = layer.train()(x, **given)
        with torch.no_grad():
            evaluated, dense = layer.eval()(x, **given), softmax(x, **given)
        torch.testing.assert_close(evaluated, trained)
        assert (evaluated - dense).abs().max() > 1e-2


def test_parameters_can_be_reset_without_opening_the_bypass():
    layer = nn.MultiheadAttention(8, 2)
    layer._reset_parameters()
    assert not layer._qkv_same_embed_dim


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_encoder_of_torch_may_hand_over_nested_tensors():
    # A stack built with torch's layers has already decided to drop the padding of its input.
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    stack = torch.nn.TransformerEncoder(layer, 2)
    for layer in stack.layers:
        layer.self_attn = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(3, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] + [True] * 4])
    trained = stack.train()(x, src_key_padding_mask=padding)
    with torch.no_grad():
        evaluated = stack.eval()(x, src_key_padding_mask=padding)
    torch.testing.assert_close(evaluated[~padding], trained[~padding])


def test_layer_compiles():
    torch.compiler.reset()
    layer = nn.MultiheadAttention(8, 2, batch_first=True, transform=nn.Entmax(learnable=True, per=2))
    x = torch.randn(3, 5, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, x, x), layer(x, x, x))


def test_bad_arguments_are_refused_by_name():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(3, 5, 8)
    with pytest.raises(ValueError, match="MultiheadAttention: query, key and value must"):
        layer(x, x[..., 1:], x)
    with pytest.raises(ValueError, match=r"attn_mask must have shape \(5, 5\) or \(6, 5, 5\), got \(5, 4\)"):
        layer(x, x, x, attn_mask=torch.zeros(5, 4))
    with pytest.raises(ValueError, match=r"key_padding_mask must have shape \(3, 5\), got \(5, 3\)"):
        layer(x, x, x, key_padding_mask=torch.zeros(5, 3))
    with pytest.raises(TypeError, match="attn_mask must be bool"):
        layer(x, x, x, attn_mask=torch.zeros(5, 5, dtype=torch.long))


@pytest.mark.parametrize("added", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}])
@pytest.mark.parametrize("padded", [False, True])
def test_causal_without_weights_is_causal_with_them(added, padded):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, length_scale=True, transform="sparsemax", **added).double()
    with torch.no_grad():
        layer.length_scale.g.fill_(0.5)  # what is seen matters
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    padding = torch.arange(5) >= torch.tensor([5, 3, 1])[:, None] if padded else None
    wanted, _ = layer(x, x, x, padding, attn_mask=mask)
    for attn_mask in (None, mask):
        for need_weights in (False, True):
            given = {"need_weights": need_weights, "attn_mask": attn_mask, "is_causal": True}
            torch.testing.assert_close(layer(x, x, x, padding, **given)[0], wanted)


def test_weights_that_nobody_needs_are_not_asked_for(monkeypatch):
    asked = []

    def spy(*args, **options):
        asked.append(options.get("return_weights", False))
        return omegamax.nn.attention(*args, **options)

    monkeypatch.setattr("omegamax.nn.multihead.attention", spy)
    layer, x = nn.MultiheadAttention(8, 2), torch.randn(5, 3, 8)
    layer(x, x, x, need_weights=False)
    layer(x, x, x)
    assert asked == [False, True]
