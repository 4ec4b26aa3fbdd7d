"""Decoders of transformers under our output: the same word by word as all at once, trained by our loss."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from omegamax import generation
from omegamax.integrations.language import TransformersLanguageModel
from omegamax.models.language import LanguageConfig, TokenOutputConfig, make_language_model

SMALL = {"dim": 16, "hidden_dim": 16, "layers": 2, "heads": 2}
KINDS = {
    "llama": {"architecture": "llama", "attention": "entmax15", "groups": 1},
    "gpt2": {"architecture": "gpt2", "attention": "entmax", "learn_alpha": True},
    "alpha": {"architecture": "llama", "attention": "entmax", "attention_options": {"alpha": 1.3}},
}


def make(seed: int = 0, **settings) -> TransformersLanguageModel:
    torch.manual_seed(seed)
    output = TokenOutputConfig("sparsemax", label_smoothing=0.0)
    model = make_language_model(LanguageConfig.tiny(20, output=output, **{**SMALL, **settings})).double().eval()
    assert isinstance(model, TransformersLanguageModel)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_word_by_word_is_as_all_at_once(kind):
    model = make(**KINDS[kind])
    tokens = torch.randint(4, 20, (3, 9))
    with torch.no_grad():
        whole, state = model(tokens), {}
        for length in range(1, 10):
            scores, state = model.step(tokens[:, :length], state)
            torch.testing.assert_close(scores[:, 4:], whole[:, length - 1, 4:], atol=1e-6, rtol=0)


def test_samples_follow_their_caches():
    model = make(**KINDS["llama"], tied=False)
    start = torch.randint(4, 20, (2, 4))
    settings = {"omega": model.omega, "eos": 2, "max_length": 6, "samples": 3}
    one, two = (
        generation.sample(step, start, generator=torch.Generator().manual_seed(0), **settings, **more)
        for step, more in (
            (lambda tokens: model.step(tokens, {})[0], {}),
            (model.step, {"state": {}, "reorder": model.reorder}),
        )
    )
    assert torch.equal(one.tokens, two.tokens)


def test_gradients_reach_the_network_and_its_alphas():
    model = make(**KINDS["gpt2"]).train()
    model.loss(torch.randint(4, 20, (2, 8))).backward()
    names = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert any("omegamax.alpha" in name for name in names) and any("wte" in name or "embed" in name for name in names)


def test_what_these_networks_do_not_have_is_refused():
    with pytest.raises(ValueError, match="sink goes with architecture='decoder'"):
        make(architecture="llama", sink=True)
    with pytest.raises(ValueError, match="architecture must be a decoder of transformers"):
        make(architecture="nothing")
    for name in ("bert", "distilbert"):
        with pytest.raises(ValueError, match=f"got '{name}', whose states see the tokens behind them"):
            make(architecture=name)
