"""Decoders: causal, the same word by word as all at once, with every cache and every memory."""

from __future__ import annotations

import io

import pytest
import torch

import omegamax
from omegamax import generation
from omegamax.models.language import Decoder, LanguageConfig, MemoryConfig, SlotMemory, TokenOutputConfig
from omegamax.models.language.rotary import rotate

F64 = torch.float64
KINDS = {
    "softmax": {},
    "no positions": {"positions": "none", "attention": "sparsemax"},
    "shared keys, sink": {"attention": "entmax15", "groups": 2, "sink": True},
    "distances": {"positions": "alibi", "attention": "entmax15", "sink": True},
    "learnt": {"attention": "entmax", "learn_alpha": True, "length_scale": True, "sink": True},
    "signal": {"memory": MemoryConfig(segment=4, size=8, alpha=2.0)},
    "sticky": {"memory": MemoryConfig(segment=4, size=8, sticky=0.5, moments="matched"), "sink": True},
    "last": {"memory": MemoryConfig("last", segment=4, size=3)},
    "segments": {"memory": MemoryConfig("none", segment=4)},
    "average": {"memory": MemoryConfig("average", segment=4, size=3)},
}


def make(seed: int = 0, size: int = 20, **settings) -> Decoder:
    torch.manual_seed(seed)
    model = Decoder(LanguageConfig.tiny(size, dim=16, hidden_dim=16, **settings)).to(F64).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # sinks and gates start at 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_word_by_word_is_as_all_at_once(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (3, 15))
    whole = model(tokens)
    state: dict = {}
    for length in range(1, 16):
        scores, state = model.step(tokens[:, :length], state)
        torch.testing.assert_close(scores[:, 4:], whole[:, length - 1, 4:], atol=1e-9, rtol=0)
    assert (scores[:, [0, 1, 3]] == -torch.inf).all() and scores[:, 2].isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_later_changes_nothing(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (2, 15))
    other = tokens.clone()
    other[:, 9:] = torch.randint(4, 20, (2, 6))
    assert torch.equal(model(tokens)[:, :9], model(other)[:, :9])


@pytest.mark.parametrize("kind", ["signal", "sticky", "last", "average"])
def test_memory_alone_reaches_beyond_the_segment(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (2, 12))
    other = tokens.clone()
    other[:, 5:7] = 23 - other[:, 5:7]  # in the second of three segments
    assert not torch.allclose(model(tokens)[:, 8:], model(other)[:, 8:])
    without = make(**KINDS["segments"])
    assert torch.equal(without(tokens)[:, 8:], without(other)[:, 8:])


@pytest.mark.parametrize("kind", ["shared keys, sink", "learnt", "no positions"])
def test_pages_are_exact_and_say_why(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (2, 40))
    whole = model(tokens)
    state = model.initial_state(page=4)
    _, state = model.step(tokens[:, :30], state)
    for length in range(31, 41):
        scores, state = model.step(tokens[:, :length], state)
        torch.testing.assert_close(scores[:, 4:], whole[:, length - 1, 4:], atol=1e-9, rtol=0)
    certificates = [layer["own"]["certificate"] for layer in state["layers"]]
    assert all(bool(each.holds.all()) for each in certificates) and certificates[0].pages.shape == (2, 4, 1)


@pytest.mark.parametrize("sink", [False, True])
def test_pages_under_autocast_are_as_near_as_the_whole_text(sink):
    model = make(attention="entmax15", sink=sink)
    tokens = torch.randint(4, 20, (2, 40))
    wanted = model(tokens)[:, 30:, 4:]
    model, state, found = model.float(), model.initial_state(page=4), []
    with torch.autocast("cpu", torch.bfloat16):
        whole = model(tokens)[:, 30:, 4:]
        for length in range(31, 41):
            scores, state = model.step(tokens[:, :length], state)
            found.append(scores[:, 4:])
    off = (torch.stack(found, 1) - wanted).abs().max()
    assert off <= 2 * (whole - wanted).abs().max() < 0.1
    assert all(bool(layer["own"]["certificate"].holds.all()) for layer in state["layers"])


def test_pages_go_on_from_their_last_state_only():
    model = make(attention="entmax15")
    _, old = model.step(torch.full((1, 3), 5), model.initial_state(page=4))
    _, new = model.step(torch.full((1, 4), 5), old)
    with pytest.raises(ValueError, match="goes on from its last state only; it holds 4 keys, and this state knows 3"):
        model.step(torch.full((1, 4), 6), old)
    model.step(torch.full((1, 5), 6), new)


def test_softmax_has_no_pages_nor_have_distances():
    with pytest.raises(ValueError, match="positions='alibi'"):
        make(**KINDS["distances"]).step(torch.full((1, 3), 5), {"page": 4})
    with pytest.raises(ValueError, match="every key matters"):
        make().step(torch.full((1, 3), 5), {"page": 4})


@pytest.mark.parametrize("page", [None, 4])
def test_sampling_and_search_with_a_cache_are_as_without(page):
    model = make(attention="entmax15", output=TokenOutputConfig("sparsemax"), tied=False)
    start = torch.randint(4, 20, (2, 6))

    def anew(tokens):
        return model.step(tokens, {})[0]

    settings = {"omega": model.omega, "eos": 2, "max_length": 8}
    state = model.initial_state(page)
    with_cache = {"state": state, "reorder": model.reorder}
    one, two = (
        generation.sample(step, start, samples=3, generator=torch.Generator().manual_seed(0), **settings, **more)
        for step, more in ((anew, {}), (model.step, with_cache))
    )
    assert torch.equal(one.tokens, two.tokens)
    found, again = (
        generation.beam_search(step, start, beam=3, **settings, **more)
        for step, more in ((anew, {}), (model.step, with_cache))
    )
    assert found.lists() == again.lists()


@pytest.mark.parametrize("kind", ["signal", "average", "shared keys, sink"])
def test_state_that_was_saved_goes_on_the_same(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (2, 14))
    with torch.no_grad():
        _, state = model.read(tokens[:, :9], {})
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        kept = torch.load(file, weights_only=False)
        assert torch.equal(model.read(tokens[:, 9:], state)[0], model.read(tokens[:, 9:], kept)[0])


@pytest.mark.parametrize("output", ["softmax", "entmax15", "sparsemax"])
def test_loss_is_the_fenchel_young_loss_of_all_tokens_but_padding(output):
    model = make(output=TokenOutputConfig(output, label_smoothing=0.0))
    tokens = torch.randint(4, 20, (2, 6))
    tokens[1, 4:] = 0
    scores, target = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    kept = target != 0
    wanted = omegamax.fenchel_young_loss(scores[kept], torch.nn.functional.one_hot(target[kept], 20).to(F64), output)
    torch.testing.assert_close(model.loss(tokens), wanted, atol=1e-9, rtol=0)


def test_gradients_reach_every_parameter():
    for settings in KINDS.values():
        model = make(**settings, output=TokenOutputConfig("entmax", learnable=True, label_smoothing=0.01))
        model.loss(torch.randint(4, 20, (2, 13))).backward()
        without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
        assert not without


def test_rotation_keeps_lengths_and_tells_distances():
    q, k = torch.randn(2, 1, 8, dtype=F64)
    products = [float((rotate(q, t + 7) * rotate(k, t)).sum()) for t in (0, 3, 1000, 10**6)]
    assert max(products) - min(products) < 1e-8
    assert abs(float(rotate(q, 12345).norm() - q.norm())) < 1e-12
    assert torch.equal(rotate(q, 0), q)


def test_slots_keep_the_last_or_averages():
    last, average = SlotMemory(4, 3), SlotMemory(4, 4, kind="average")
    x = torch.randn(2, 10, 4)
    state = last.update(last.update(last.initial_state(2), x[:, :4]), x[:, 4:])
    assert torch.equal(state, x[:, -3:])
    first = average.update(average.initial_state(2), x[:, :8])
    torch.testing.assert_close(first, x[:, :8].unflatten(1, (4, 2)).mean(2))
    second = average.update(first, x[:, 8:])
    assert second.shape == (2, 4, 4) and torch.allclose(second[:, -1], x[:, 8:].mean(1))
    assert last(x, last.initial_state(2))[0].eq(0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 12, "heads": 4}, "multiple of twice the heads"),
        ({"groups": 3}, "multiple of groups"),
        ({"learn_alpha": True}, "learn_alpha goes with"),
        ({"positions": "sines"}, "positions"),
        ({"attention": "nothing"}, "nothing"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LanguageConfig(10, **settings)


def test_tokens_that_are_none_are_refused():
    model = make()
    with pytest.raises(TypeError, match="tensor of integers"):
        model(torch.ones(1, 3))
    with pytest.raises(ValueError, match="from 0 to 19"):
        model(torch.tensor([[20]]))
    with pytest.raises(ValueError, match=r"shape \[B, T\]"):
        model(torch.tensor([1]))
    with pytest.raises(ValueError, match="page=None"):
        make(memory=MemoryConfig()).initial_state(page=4)
