"""Every network that translates: word by word it says what it says at once, and padding changes nothing."""

import math

import pytest
import torch
from tests.models.translation.networks import NETWORKS, SOURCE, TARGET, make_transformer

from omegamax.models.translation import TokenOutputConfig, TransformerTranslator, TranslatorConfig

BATCH = {"source": SOURCE, "target": TARGET}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)


@every_network
@torch.no_grad()
def test_step_by_step_is_all_at_once(make):
    model = make()
    scores, state = model(BATCH), model.encode(SOURCE)
    begin = torch.cat([torch.ones(3, 1, dtype=torch.long), TARGET[:, :-1]], 1)
    for length in range(1, 5):
        found, state = model.step(begin[:, :length], state)
        known = torch.ones(9, dtype=torch.bool)
        known[[0, 1, 3]] = False
        assert torch.allclose(found[:, known], scores[:, length - 1, known], rtol=0, atol=1e-12)
        assert (found[:, ~known] == -math.inf).all()


@every_network
@torch.no_grad()
def test_beginning_that_is_given_at_once_is_read_as_a_whole(make):
    model = make()
    begin = torch.tensor([[1, 4, 5]]).expand(3, 3)
    found, _ = model.step(begin, model.encode(SOURCE))
    state = model.encode(SOURCE)
    for length in range(1, 4):
        wanted, state = model.step(begin[:, :length], state)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


@every_network
@torch.no_grad()
def test_padding_changes_nothing(make):
    model = make()
    whole = model(BATCH)
    for row in range(3):
        source, target = SOURCE[row : row + 1], TARGET[row : row + 1]
        alone = model({"source": source[source != 0][None], "target": target[target != 0][None]})
        assert torch.allclose(alone[0], whole[row, : alone.shape[1]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("output", ["softmax", "sparsemax"])
@torch.no_grad()
def test_tokens_that_can_follow_are_counted_as_a_search_has_them(output):
    model = make_transformer(output=TokenOutputConfig(output), tied=False)
    model.output.weight.mul_(30)
    model.output.bias[[0, 1, 3]] = 9.0  # marks, which would leave little to the words
    found, state = model.count_support(BATCH), model.encode(SOURCE)
    begin = torch.cat([torch.ones(3, 1, dtype=torch.long), TARGET[:, :-1]], 1)
    for length in range(1, 5):
        scores, state = model.step(begin[:, :length], state)
        wanted = (model.omega.argmax(scores) > 0).sum(-1) if output == "sparsemax" else torch.full((3,), 6)
        assert torch.equal(found[:, length - 1], wanted)


@every_network
@torch.no_grad()
def test_alignment_is_a_distribution_over_the_words_of_the_source(make):
    weights = make().align(SOURCE, TARGET).weights
    assert weights.shape == (3, 4, 5)
    assert torch.allclose(weights.sum(-1), torch.ones(3, 4, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (weights[(SOURCE == 0)[:, None].expand_as(weights)] == 0).all()


@every_network
def test_gradients_reach_every_parameter(make):
    model = make(dropout=0.0).train()
    model.loss(BATCH).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.abs().sum() > 0)]
    # A shift of all keys shifts all scores of a query, which no map sees.
    assert not [name for name in missing if "raw" not in name and "bias" not in name]
    assert torch.isfinite(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])).all()


@every_network
def test_loss_passes_over_padding(make):
    model = make()
    each = model.loss(BATCH, reduction="none")
    assert torch.allclose(model.loss(BATCH), each[TARGET != 0].mean(), rtol=0, atol=1e-12)


def test_alphas_are_those_of_each_head():
    model = make_transformer(attention="entmax", learn_alpha=True)
    assert {name: tuple(each.shape) for name, each in model.alphas.items()} == {
        "encoder": (2, 2),
        "decoder": (2, 2),
        "source": (2, 2),
    }
    assert make_transformer(attention="softmax").alphas is None


def test_joint_languages_share_one_matrix():
    model = TransformerTranslator(TranslatorConfig.tiny(9, 9, joint=True))
    assert model.source_embedding is model.embedding and model.output.weight is model.embedding.weight
    apart = TransformerTranslator(TranslatorConfig.tiny(9, 9, tied=False))
    assert apart.output.weight is not apart.embedding.weight is not apart.source_embedding.weight


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 10, "heads": 4}, "multiple of heads"),
        ({"attention": "no_map"}, "no_map"),
        ({"attention": "sparsemax", "learn_alpha": True}, "learn_alpha goes with"),
        ({"word_dim": 8}, "word_dim goes with"),
        ({"density": "continuous_softmax"}, "density goes with"),
        ({"architecture": "recurrent", "word_dim": 8}, "tied"),
        ({"architecture": "recurrent", "functions": 31}, "multiple of the number of widths"),
        ({"dropout": 1.0}, "dropout"),
        ({"source": 5, "target": 6, "joint": True}, "same tokens"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TranslatorConfig(**settings)


@pytest.mark.parametrize(
    ("source", "error"), [(torch.ones(2), TypeError), (torch.tensor([[9, 2]]), ValueError), (SOURCE[0], ValueError)]
)
def test_bad_tokens_are_refused(source, error):
    with pytest.raises(error, match="source must"):
        make_transformer()({"source": source, "target": TARGET})


def test_settings_survive_a_file():
    config = TranslatorConfig.paper(7, 9, density="continuous_softmax", output=TokenOutputConfig("entmax", 1.3))
    assert TranslatorConfig.from_dict(config.to_dict()) == config and config.embedding_dim == 620
