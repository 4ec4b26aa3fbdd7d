"""Association layers against attention, against memories, and against themselves written out."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F

import omegamax
from omegamax import KSubsets, NormEntropy, SequentialKSubsets, Tsallis, nn
from omegamax.hopfield import L2Norm, LayerNorm, Memory
from omegamax.nn import Hopfield, HopfieldLayer, HopfieldPooling, attention

F64 = torch.float64
OMEGAS = ["softmax", "sparsemax", Tsallis(1.3), NormEntropy(2.0), KSubsets(2), SequentialKSubsets(2, 0.5)]
every_omega = pytest.mark.parametrize("omega", OMEGAS, ids=repr)


def bags(*batch, queries=4, stored=6, features=8, dtype=F64):
    return torch.randn(*batch, queries, features, dtype=dtype), torch.randn(*batch, stored, features, dtype=dtype)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_softmax_with_one_step_is_attention(batch):
    q, k = bags(*batch)
    v = torch.randn(*batch, 6, 3, dtype=F64)
    torch.testing.assert_close(Hopfield("softmax")(q, k, v), F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(Hopfield()(q, k), F.scaled_dot_product_attention(q, k, k))
    torch.testing.assert_close(Hopfield(beta=0.3)(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.3))


@every_omega
def test_one_step_is_attention_with_that_map(omega):
    q, k = bags(2)
    v = torch.randn(2, 6, 3, dtype=F64)
    mask, pairs = torch.rand(2, 6) > 0.3, torch.rand(2, 4, 6) > 0.3
    mask[:, :2], pairs[..., :2] = True, True
    wanted = attention(q, k, v, omega, mask[:, None] & pairs, scale=0.7)
    torch.testing.assert_close(Hopfield(omega, 0.7)(q, k, v, mask, pairs), wanted)


@pytest.mark.parametrize("transform", ["softmax", "entmax15"])
@pytest.mark.parametrize("masked", [False, True])
def test_projected_heads_are_multihead_attention(transform, masked):
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, kdim=5, vdim=3, transform=transform, dtype=F64)
    with torch.no_grad():
        theirs.in_proj_bias.normal_(), theirs.out_proj.bias.normal_()
    ours = Hopfield(transform, embed_dim=8, num_heads=2, stored_dim=5, value_dim=3, dtype=F64)
    biases = theirs.in_proj_bias.chunk(3)
    for role, weight, bias in zip(
        ("query", "stored", "value"),
        (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight),
        biases,
        strict=True,
    ):
        getattr(ours, f"{role}_proj").load_state_dict({"weight": weight, "bias": bias})
    ours.out_proj.load_state_dict(theirs.out_proj.state_dict())
    q, k, v = torch.randn(3, 4, 8, dtype=F64), torch.randn(3, 6, 5, dtype=F64), torch.randn(3, 6, 3, dtype=F64)
    keep = torch.rand(3, 6) > 0.3 if masked else None
    wanted, weights = theirs(q, k, v, None if keep is None else ~keep, average_attn_weights=False)
    out, ours_weights = ours(q, k, v, keep, return_weights=True)
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(ours_weights, weights)


@every_omega
@pytest.mark.parametrize("psi", ["identity", "l2_norm", LayerNorm(), L2Norm(2.0)], ids=repr)
@pytest.mark.parametrize("steps", [1, 3])
def test_without_projections_the_layer_is_a_memory(omega, psi, steps):
    q, k = bags(2)
    mask = torch.rand(2, 6) > 0.2
    mask[:, :2] = True
    layer = Hopfield(omega, 1.7, steps, psi=psi)
    found = Memory(k, omega, 1.7, psi, mask).retrieve(q, steps, tol=None)
    torch.testing.assert_close(layer(q, k, mask=mask), found.state)
    assert not list(layer.parameters())
    values = torch.randn(2, 6, 3, dtype=F64)
    states = Memory(k, omega, 1.7, psi, mask)
    last = states.retrieve(q, steps - 1, tol=None).state
    torch.testing.assert_close(layer(q, k, values, mask), states.weights(last) @ values)


def test_several_steps_iterate_in_the_space_of_the_patterns():
    layer = Hopfield(
        "entmax15", embed_dim=8, num_heads=2, hidden_dim=6, steps=3, psi="l2_norm", normalize=True
    ).double()
    q, k = bags(2)
    normed = F.layer_norm(k, (8,))
    query, key, value = (
        getattr(layer, f"{role}_proj")(x).unflatten(-1, (2, 3)).transpose(1, 2)
        for role, x in (("query", F.layer_norm(q, (8,))), ("stored", normed), ("value", normed))
    )
    for _ in range(2):
        p = omegamax.entmax15(query @ key.mT / math.sqrt(3))
        query = F.normalize(p @ key, dim=-1)
    p = omegamax.entmax15(query @ key.mT / math.sqrt(3))
    wanted = layer.out_proj((p @ value).transpose(1, 2).flatten(-2))
    out, weights = layer(q, k, return_weights=True)
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(weights, p)


def test_heads_of_the_layer_have_an_energy_that_never_rises():
    layer = Hopfield("sparsemax", embed_dim=8, num_heads=2, learn_beta=True, psi="layer_norm").double()
    q, k = bags(3)
    mask = torch.rand(3, 6) > 0.2
    memory = layer.memory(k, mask)
    found = memory.retrieve(layer._split("query", q), steps=5, tol=None)
    assert found.energies.shape == (6, 3, 2, 4)
    assert (found.energies[1:] <= found.energies[:-1] + 1e-12).all()
    with pytest.raises(TypeError, match="omega must be an Omega"):
        Hopfield(nn.Entmax()).memory(k)


def test_tolerance_stops_states_one_by_one():
    q, k = bags(2, queries=8)
    early, late = Hopfield("softmax", 4.0, 100, tol=1e-9), Hopfield("softmax", 4.0, 100)
    torch.testing.assert_close(early(q, k), late(q, k), rtol=0, atol=1e-6)


def test_static_roles_are_left_as_they_are():
    layer = Hopfield("sparsemax", 2.0, embed_dim=8, num_heads=2, static=("query", "stored", "value", "out"))
    assert not list(layer.parameters())
    q, k = bags(2, dtype=torch.float32)
    torch.testing.assert_close(layer(q, k), Hopfield("sparsemax", 2.0, num_heads=2)(q, k))
    some = Hopfield(embed_dim=8, static="stored")
    assert {name.split(".")[0] for name, _ in some.named_parameters()} == {"query_proj", "value_proj", "out_proj"}


def test_one_input_associates_with_itself():
    q, _ = bags(2)
    layer = Hopfield("entmax15", 1.0)
    torch.testing.assert_close(layer(q), layer(q, q))


@pytest.mark.parametrize("learnt", [False, True])
def test_each_head_may_have_its_own_beta(learnt):
    q, k = bags(2)
    beta = torch.tensor([0.3, 2.0], dtype=F64)
    layer = Hopfield("softmax", beta, num_heads=2, learn_beta=learnt, dtype=F64)
    for head, b in enumerate(beta.tolist()):
        part = slice(4 * head, 4 * head + 4)
        torch.testing.assert_close(layer(q, k)[..., part], Hopfield("softmax", b)(q[..., part], k[..., part]))
    assert ("log_beta" if learnt else "beta") in layer.state_dict()


def test_learnt_beta_starts_where_attention_is():
    layer = Hopfield("softmax", embed_dim=8, num_heads=2, learn_beta=True)
    torch.testing.assert_close(layer.log_beta.exp(), torch.full((2,), 0.5))
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.log_beta.grad.abs().sum() > 0


def test_learnable_map_joins_the_state_dict():
    layer = Hopfield(nn.Entmax(learnable=True, per=2), embed_dim=8, num_heads=2, steps=2)
    layer(torch.randn(3, 5, 8)).square().sum().backward()
    assert layer.omega.alpha.raw.grad.shape == (2,) and "omega.alpha.raw" in layer.state_dict()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hopfield("entmax15", embed_dim=8, num_heads=2, normalize=True, learn_beta=True, steps=2),
        lambda: HopfieldPooling("sparsemax", embed_dim=8, queries=3, num_heads=2),
        lambda: HopfieldLayer("normmax", patterns=5, embed_dim=8, values=3),
        lambda: HopfieldLayer("normmax", patterns=torch.randn(5, 8), values=torch.randn(5, 3), trainable=False),
    ],
)
def test_state_dict_carries_everything(make):
    one, other = make(), make()
    x = torch.randn(2, 6, 8)
    assert not torch.equal(one(x), other(x))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(one(x), other(x))
    double = one.double()
    assert double(x.double()).dtype == F64
    assert "steps" not in one.state_dict()


@pytest.mark.parametrize("steps", [1, 3])
def test_pooling_takes_a_whole_bag(steps):
    pool = HopfieldPooling("entmax15", embed_dim=8, num_heads=2, steps=steps, stored_dim=5, out_dim=7).double()
    bag = torch.randn(3, 6, 5, dtype=F64)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    out = pool(bag, mask)
    assert out.shape == (3, 7)
    torch.testing.assert_close(out[1], pool(bag[1, :3]))
    torch.testing.assert_close(out[2], pool.association.out_proj.bias)
    torch.testing.assert_close(out[0], pool(bag[0][torch.randperm(6)]))  # a bag has no order
    several = HopfieldPooling(embed_dim=8, queries=4)
    out, weights = several(torch.randn(2, 6, 8), return_weights=True)
    assert out.shape == (2, 4, 8) and weights.shape == (2, 1, 4, 6)


def test_pooling_without_projections_keeps_the_patterns():
    pool = HopfieldPooling(Tsallis(2.0), 1e4, embed_dim=5, project=False)
    bag = torch.randn(3, 6, 5)
    chosen = (bag @ pool.query[0]).argmax(-1)
    assert torch.equal(pool(bag), bag[torch.arange(3), chosen])
    assert [name for name, _ in pool.named_parameters()] == ["query"]


def test_pooling_of_values():
    pool = HopfieldPooling("softmax", embed_dim=5, value_dim=3, out_dim=4)
    assert pool(torch.randn(2, 6, 5), values=torch.randn(2, 6, 3)).shape == (2, 4)


def test_lookup_is_a_memory_of_its_patterns():
    x, values = torch.randn(5, 8), torch.randn(5, 3)
    q = torch.randn(2, 4, 8)
    plain = HopfieldLayer("entmax15", 1.5, 2, patterns=x, project=False)
    torch.testing.assert_close(plain(q), Memory(x, "entmax15", 1.5).retrieve(q, 2, tol=None).state)
    table = HopfieldLayer("entmax15", 1.5, patterns=x, values=values, project=False)
    torch.testing.assert_close(table(q), Memory(x, "entmax15", 1.5).weights(q) @ values)
    mask = torch.tensor([True, True, True, False, False])
    torch.testing.assert_close(table(q, mask), Memory(x[:3], "entmax15", 1.5).weights(q) @ values[:3])


def test_lookup_learns_or_keeps_its_patterns():
    learnt = HopfieldLayer(patterns=5, embed_dim=8, values=3, out_dim=2)
    learnt(torch.randn(4, 8)).sum().backward()
    assert learnt.patterns.grad.shape == (5, 8) and learnt.values.grad.shape == (5, 3)
    given = torch.randn(5, 8)
    kept = HopfieldLayer(patterns=given, trainable=False)
    names = {name for name, _ in kept.named_parameters()}
    assert "patterns" not in names and "patterns" in kept.state_dict() and kept.values is None
    warm = HopfieldLayer(patterns=given)
    assert isinstance(warm.patterns, torch.nn.Parameter) and warm.patterns.data_ptr() != given.data_ptr()


def test_pooling_learns_which_instance_matters():
    """Bags whose label is one feature of the single instance that another feature marks."""
    torch.manual_seed(1)
    pool = HopfieldPooling("softmax", embed_dim=6, out_dim=1)
    optimiser = torch.optim.Adam(pool.parameters(), 0.05)

    def draw(count):
        bag = torch.randn(count, 8, 6)
        at = torch.randint(8, (count,))
        bag[torch.arange(count), at, 0] += 4
        return bag, bag[torch.arange(count), at, 1:2], at

    for _ in range(150):
        bag, label, _ = draw(64)
        loss = (pool(bag) - label).square().mean()
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    bag, label, at = draw(200)
    out, weights = pool(bag, return_weights=True)
    assert (out - label).square().mean() < 0.3
    assert (weights[:, 0, 0].argmax(-1) == at).double().mean() > 0.85


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_precisions_keep_their_dtype(dtype):
    layer = Hopfield("entmax15", embed_dim=8, num_heads=2, steps=2, psi="layer_norm", learn_beta=True, dtype=dtype)
    q, k = bags(2, dtype=dtype)
    out = layer(q, k)
    assert out.dtype == dtype and out.isfinite().all()
    wanted = copy.deepcopy(layer).double()(q.double(), k.double())
    assert (out.double() - wanted).abs().max() < 60 * torch.finfo(dtype).eps
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.float()(q.float(), k.float()).isfinite().all()


def test_gradients_by_differences():
    layer = Hopfield("entmax15", 0.8, 2, embed_dim=4, num_heads=2, psi=LayerNorm(eps=0.1), dtype=F64)
    q, k = bags(1, queries=2, stored=4, features=4)
    assert torch.autograd.gradcheck(layer, (q.requires_grad_(), k.requires_grad_()))


def test_dropout_is_for_training():
    layer = Hopfield("softmax", 1.0, dropout=0.5)
    q, k = bags(2)
    assert not torch.equal(layer(q, k), layer(q, k))
    layer.eval()
    torch.testing.assert_close(layer(q, k), Hopfield("softmax", 1.0)(q, k))


def test_float_masks_add_to_the_scores():
    q, k = bags(2)
    bias = torch.randn(4, 6, dtype=F64)
    mask = torch.tensor([True] * 4 + [False] * 2).expand(2, 6)
    wanted = F.scaled_dot_product_attention(q, k[:, :4], k[:, :4], bias[:, :4])
    torch.testing.assert_close(Hopfield()(q, k, mask=mask, attn_mask=bias), wanted)


def test_layers_trace_and_build_on_other_devices():
    layer = Hopfield("entmax15", embed_dim=8, num_heads=2, steps=2, psi="l2_norm")
    q, k = bags(2, dtype=torch.float32)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k), layer(q, k))
    for made in (
        Hopfield(embed_dim=8, learn_beta=True, normalize=True, device="meta"),
        HopfieldPooling(embed_dim=8, device="meta"),
        HopfieldLayer(patterns=3, embed_dim=8, values=2, device="meta"),
    ):
        assert all(p.is_meta for p in made.parameters())


def test_layers_print_what_they_are():
    assert "Tsallis(alpha=2.0), beta=None, steps=2, num_heads=1, psi=L2Norm(radius=1)" in repr(
        Hopfield("sparsemax", steps=2, psi="l2_norm")
    )
    assert "beta=learnt" in repr(Hopfield(beta=1.0, learn_beta=True))
    assert "patterns=[3, 8]" in repr(HopfieldLayer(patterns=3, embed_dim=8))


X = torch.ones(2, 3, 4)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Hopfield("softmix"), ValueError, "no map is called"),
        (lambda: Hopfield(steps=0), ValueError, "Hopfield: steps must be an integer >= 1, got 0"),
        (lambda: Hopfield(steps=1.5), ValueError, "Hopfield: steps must be an integer"),
        (lambda: Hopfield(beta=-1.0), ValueError, "Hopfield: beta must be > 0, got -1"),
        (lambda: Hopfield(beta=torch.ones(3), num_heads=2), ValueError, r"beta must be a number or \[2\]"),
        (lambda: Hopfield(learn_beta=True), ValueError, "needs a beta to start from"),
        (lambda: Hopfield(num_heads=0), ValueError, "num_heads must be an integer >= 1"),
        (lambda: Hopfield(dropout=1.0), ValueError, r"dropout must lie in \[0, 1\)"),
        (lambda: Hopfield(psi="l3"), ValueError, "Hopfield: no psi is called 'l3'"),
        (lambda: Hopfield(hidden_dim=3), ValueError, "Hopfield: hidden_dim needs embed_dim"),
        (lambda: Hopfield(embed_dim=8, num_heads=3), ValueError, "hidden_dim must be a multiple of num_heads=3, got 8"),
        (lambda: Hopfield(embed_dim=8, static="key"), ValueError, "static must name some of query"),
        (lambda: Hopfield(embed_dim=8, stored_dim=4, static="stored"), ValueError, "static 'stored' needs equal"),
        (lambda: Hopfield(num_heads=3)(X), ValueError, "num_heads=3 must divide the 4 features of query"),
        (lambda: Hopfield()(X.long()), TypeError, "Hopfield: query must be a floating-point tensor"),
        (lambda: Hopfield()(X[0, 0]), ValueError, "query must have at least two axes"),
        (lambda: Hopfield()(X, X, X[:, :2]), ValueError, "must be as many"),
        (lambda: Hopfield()(X, X, mask=torch.ones(2, 3)), TypeError, "mask must be a bool tensor"),
        (lambda: Hopfield()(X, X, mask=torch.ones(2, 4).bool()), ValueError, r"mask must be \[\*, 3\]"),
        (lambda: HopfieldPooling(embed_dim=0), ValueError, "HopfieldPooling: embed_dim must be an integer"),
        (lambda: HopfieldPooling(embed_dim=4, queries=0), ValueError, "queries must be an integer >= 1"),
        (lambda: HopfieldLayer(patterns=4), ValueError, "embed_dim is needed"),
        (lambda: HopfieldLayer(patterns=0, embed_dim=2), ValueError, "patterns must be a number of them or a tensor"),
        (lambda: HopfieldLayer(patterns=X), ValueError, r"patterns must be floating \[N, D\]"),
        (lambda: HopfieldLayer(patterns=X[0], values=X[0, :2]), ValueError, "one for each of 3 patterns, got 2"),
        (lambda: HopfieldLayer(patterns=2, embed_dim=2, trainable=False), ValueError, "trainable=False needs"),
    ],
)
def test_misuse_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_layers_run_on_a_gpu():
    q, k = bags(2)
    mask = torch.rand(2, 6) > 0.2
    for layer in (
        Hopfield("entmax15", embed_dim=8, num_heads=2, steps=3, tol=1e-6, learn_beta=True, psi="layer_norm").double(),
        HopfieldLayer("sparsemax", patterns=4, embed_dim=8, values=3).double(),
    ):
        arguments = (q, k, None, mask) if isinstance(layer, Hopfield) else (q,)
        wanted = layer(*arguments)
        moved = [a if a is None else a.cuda() for a in arguments]
        torch.testing.assert_close(layer.cuda()(*moved).cpu(), wanted)
    pool = HopfieldPooling("normmax", embed_dim=8).double()
    wanted = pool(k, mask)
    torch.testing.assert_close(pool.cuda()(k.cuda(), mask.cuda()).cpu(), wanted)
