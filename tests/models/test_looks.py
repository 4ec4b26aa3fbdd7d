"""Several looks: heads by hand, looks in turn, densities predicted from the question; what they add, and to where."""

from __future__ import annotations

import json

import pytest
import torch

from models.cases import OUTPUTS, batch, config, model
from omegamax.densities import Gaussian, Mixture
from omegamax.models.mcan import MCAN, AnswerLoss, ImageGrid, MCANConfig, OutputAttention, OutputConfig
from omegamax.models.mcan.looks import join_looks

F64 = torch.float64
RAGGED = ((4, 5), (2, 3), (3, 5))
EVERY = ["softmax", "tvmax", "k_subsets", "continuous_sparsemax", "multimodal_random", "multimodal_selected"]


def changed(kind, **settings):
    return OutputConfig(**{**OUTPUTS[kind].__dict__, **settings})


def count(network):
    return sum(p.numel() for p in network.parameters())


def logits(network, given):
    return network.eval()(given).logits


# --- Heads


@pytest.mark.parametrize("kind", ["softmax", "continuous_softmax", "multimodal_fixed"])
def test_each_head_is_a_look_of_its_own(kind):
    torch.manual_seed(0)
    both = OutputAttention(6, 4, changed(kind, heads=2)).double().eval()
    x, grid = torch.randn(3, 20, 6, dtype=F64), ImageGrid((4, 5))
    context, attention = both(x, grid)
    parts, weights, density = [], 0, 0
    point = torch.tensor([0.3, 0.6], dtype=F64)
    for head in (0, 1):
        one = OutputAttention(6, 4, changed(kind)).double().eval()
        state = both.state_dict()
        state["score.3.weight"], state["score.3.bias"] = (
            state["score.3.weight"][head, None],
            state["score.3.bias"][head, None],
        )
        one.load_state_dict(state)
        part, alone = one(x, grid)
        parts.append(part[:, 3 * head : 3 * head + 3])
        weights = weights + alone.discrete / 2
        density = density if alone.density is None else density + alone.density.prob(point) / 2
    torch.testing.assert_close(context, torch.cat(parts, -1), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(attention.discrete, weights)
    if attention.density is not None:
        assert attention.density.batch_shape == (3,)
        torch.testing.assert_close(attention.density.prob(point), density, rtol=1e-9, atol=1e-9)


def test_heads_share_the_features():
    assert count(model(changed("softmax", heads=4))) == count(model("softmax")) + 3 * (5 + 1)
    with pytest.raises(ValueError, match="dim must be a multiple of heads, got 8 and 3"):
        model(changed("softmax", heads=3))


# --- Looks in turn


@pytest.mark.parametrize("kind", EVERY)
def test_looks_in_turn_begin_as_one_and_then_differ(kind):
    one, three = model(kind), model(changed(kind, glimpses=3))
    missing = three.load_state_dict(one.state_dict(), strict=False).missing_keys
    assert missing == ["output.update"] and count(three) == count(one) + 64
    given = batch(RAGGED)
    torch.testing.assert_close(logits(three, given), logits(one, given))
    with torch.no_grad():
        three.output.update.normal_()
    assert not torch.allclose(logits(three, given), logits(one, given), atol=1e-4)


def test_second_look_sees_the_context_of_the_first():
    torch.manual_seed(0)
    twice = OutputAttention(3, 4, OutputConfig("softmax", glimpses=2)).double()
    once = OutputAttention(3, 4, OutputConfig("softmax")).double()
    with torch.no_grad():
        twice.update.normal_()
    once.load_state_dict(twice.state_dict(), strict=False)
    x, grid = torch.randn(2, 6, 3, dtype=F64), ImageGrid((2, 3))
    first, _ = once(x, grid)
    p = once.weigh(once.scores(x + (first @ twice.update.T).unsqueeze(1)), grid)
    second = torch.einsum("bl,bld->bd", p, x)
    context, attention = twice(x, grid)
    torch.testing.assert_close(context, (first + second) / 2)
    torch.testing.assert_close(attention.discrete.flatten(1), (once.weigh(once.scores(x), grid) + p) / 2)


# --- Both, and what was predicted


@pytest.mark.parametrize("kind", EVERY)
def test_looks_train_and_are_shown_as_one(kind):
    network = model(changed(kind, heads=2, glimpses=2), dropout=0.0)
    with torch.no_grad():
        network.output.update.normal_()
    answer = network(batch(RAGGED))
    assert answer.attention.weights.shape == (3, 4, 5)
    torch.testing.assert_close(answer.attention.weights.sum((1, 2)), torch.ones(3))
    AnswerLoss()(answer.logits, torch.rand(3, 4)).backward()
    for name, p in network.named_parameters():
        idle = name.endswith(("key.bias", "score.3.bias"))
        assert p.grad is not None and p.grad.isfinite().all() and (idle or p.grad.abs().max() > 0), name
    network.eval()
    alone, whole = batch(RAGGED[:1], (4,)), batch(RAGGED)
    torch.testing.assert_close(network(alone).logits[0], network(whole).logits[0])


def test_joined_looks_weigh_alike():
    parts = Mixture(torch.tensor([[0.25, 0.75]] * 4), Gaussian(torch.randn(4, 2, 2), torch.eye(2)))
    p = join_looks([parts, parts], 2)
    assert p.batch_shape == (2,) and p.weights.shape == (2, 8)
    torch.testing.assert_close(p.weights.sum(-1), torch.ones(2))
    torch.testing.assert_close(p.mean, parts.mean.view(2, 2, 2).mean(1))


@pytest.mark.parametrize("kind", ["continuous_softmax", "continuous_sparsemax", "multimodal_fixed"])
def test_density_is_predicted_from_the_question(kind):
    output = changed(kind, source="question")
    network = model(output, dropout=0.0)
    predicted = 3 * 6 if kind.startswith("multimodal") else 5
    assert count(network) == count(model(kind)) - (8 * 5 + 5 + 5 + 1) + predicted * (8 + 1)
    given = batch(RAGGED)
    answer = network(given)
    AnswerLoss()(answer.logits, torch.rand(3, 4)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    assert network.output.density.query.weight.grad.abs().max() > 0
    # Where it looks does not depend on the image.
    other = {**given, "features": torch.randn_like(given["features"])}
    torch.testing.assert_close(network(other).attention.density.mean, answer.attention.density.mean)
    torch.testing.assert_close(answer.attention.weights.sum((1, 2)), torch.ones(3))
    with pytest.raises(ValueError, match="predicted from the question has no scores"):
        network.output.scores(torch.randn(1, 2, 8))


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"kind": "softmax", "source": "question"}, "source='question' goes with a single look of a continuous kind"),
        ({"kind": "multimodal", "source": "question"}, "components='fixed' if it is a mixture"),
        ({"kind": "continuous_softmax", "source": "question", "heads": 2}, "source='question' goes with a single look"),
        ({"kind": "softmax", "density_features": True, "heads": 2}, "density_features goes with a single look, got 2"),
        ({"glimpses": 0}, "glimpses must be an integer >= 1, got 0"),
    ],
)
def test_what_does_not_go_together_is_named(settings, said):
    with pytest.raises(ValueError, match=said):
        OutputConfig(**settings)


def test_settings_survive_json():
    settings = config(changed("multimodal_fixed", heads=2, glimpses=3, init="random"))
    assert MCANConfig.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert MCAN(settings).output.config.heads == 2
