"""The trained explainer learns to tell what its layperson understands, and what the classifier had in mind."""

import pytest
import torch

from omegamax.models.text import TextClassifier, TextConfig
from omegamax.tasks.text.game import train_explainer
from omegamax.tasks.text.game.trained import make_explainer, read_state


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    return TextClassifier(TextConfig.small(9, 2, word_dim=6, hidden_dim=3, score_dim=4)).eval()


def make_epoch(index):
    generator = torch.Generator().manual_seed(index)
    return [{"words": torch.randint(1, 9, (8, 5), generator=generator)} for _ in range(8)]


def test_state_is_what_the_decision_is_read_from(classifier):
    batch = make_epoch(0)[0]
    decided, state = read_state(classifier, batch)
    logits = classifier(batch).logits
    assert torch.equal(classifier.classify(state), logits) and torch.equal(decided, logits.argmax(-1))
    assert not state.requires_grad and not classifier.classify._forward_pre_hooks


def test_faithful_explainer_guesses_the_state_and_the_other_does_not(classifier):
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    batch = make_epoch(99)[0]
    _, state = read_state(classifier, batch)
    faults = []
    for faithful in (0.0, 10.0):
        explainer = train_explainer(classifier, make_epoch, epochs=6, faithful=faithful, rate=1e-2)
        assert not explainer.training
        with torch.no_grad():
            faults.append(float((explainer(batch).logits - state).square().mean()))
    assert faults[1] < 0.5 * float(state.var()) < faults[0]
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())


def test_training_is_a_function_of_the_seed_and_draws_nothing_else(classifier):
    torch.manual_seed(5)
    one, drawn = train_explainer(classifier, make_epoch, epochs=1, seed=3), torch.rand(())
    torch.manual_seed(5)
    assert torch.equal(torch.rand(()), drawn)
    again, other = (train_explainer(classifier, make_epoch, epochs=1, seed=seed) for seed in (3, 4))
    weights = [each.classify.weight for each in (one, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_explainer_starts_from_what_the_classifier_reads_by(classifier):
    made = make_explainer(classifier, 7)
    own, given = made.state_dict(), classifier.state_dict()
    shared = [name for name in given if not name.startswith("classify.")]
    assert "attention.score.0.weight" in shared and "encoder.onward.weight_hh_l0" in shared
    assert all(torch.equal(own[name], given[name]) for name in shared)
    assert own["classify.weight"].shape == (classifier.config.state_dim,) * 2
    made.embedding.weight.data.zero_()
    assert classifier.embedding.weight.any()  # a copy


def test_settings_that_make_no_sense_are_refused(classifier):
    with pytest.raises(ValueError, match="train_explainer: epochs must be"):
        train_explainer(classifier, make_epoch, epochs=0)
    with pytest.raises(ValueError, match="train_explainer: faithful must be"):
        train_explainer(classifier, make_epoch, faithful=-1.0)
    with pytest.raises(ValueError, match="train_explainer: rate must be"):
        train_explainer(classifier, make_epoch, rate=0.0)
