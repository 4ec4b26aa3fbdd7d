"""The layperson finds what was planted in messages, and nothing else."""

import pytest
import torch

from omegamax.models.text import TextClassifier, TextConfig, WordsConfig
from omegamax.tasks.text.game import Messages, choose_words, collect_messages, explainers
from omegamax.tasks.text.game.layperson import choose_layperson, teach


def plant(count, seed):
    """Return messages with one telling word, 1 + the class, among words from 4 on that say nothing."""
    generator = torch.Generator().manual_seed(seed)
    decided = torch.randint(3, (count,), generator=generator)
    noise = torch.randint(4, 40, (count, 3), generator=generator)
    bags = torch.cat([1 + decided.unsqueeze(-1), noise], -1)
    return Messages(bags.flatten(), 4 * torch.arange(count), decided, 0 * decided, torch.full((count,), 4))


def test_planted_words_are_understood():
    layperson, _ = choose_layperson(plant(200, 0), plant(50, 1), 40, 3)
    test = plant(300, 2)
    assert torch.equal(layperson.guess(test), test.decided)
    assert torch.equal(layperson.weight[1:4].argmax(-1), torch.arange(3))


def test_words_that_say_nothing_are_not_understood():
    train, val, test = (plant(count, seed) for count, seed in ((300, 0), (100, 1), (600, 2)))
    empty = [each._replace(words=each.words.where(each.words > 3, 39)) for each in (train, val, test)]
    layperson, _ = choose_layperson(empty[0], empty[1], 40, 3)
    assert 0.25 < float((layperson.guess(empty[2]) == test.decided).double().mean()) < 0.42


def test_teaching_solves_its_problem():
    train, penalty = plant(60, 0), 1e-3
    layperson = teach(train, 40, 3, penalty)
    bags = torch.zeros(60, 40, dtype=torch.float64)
    bags.index_put_((torch.arange(60).repeat_interleave(4), train.words), torch.ones((), dtype=bags.dtype), True)
    with torch.no_grad():
        logits = bags @ layperson.weight + layperson.bias
        assert torch.allclose(logits, layperson(train), rtol=0, atol=1e-9)
        fault = (logits.softmax(-1) - torch.nn.functional.one_hot(train.decided, 3)) / 60
        assert (
            float((bags.T @ fault + penalty * layperson.weight).abs().max()) < 1e-6
        )  # where the problem is stationary
        assert float((fault.sum(0) + penalty * layperson.bias).abs().max()) < 1e-6
    with pytest.raises(ValueError, match="teach: penalty must be"):
        teach(train, 40, 3, 0.0)


def test_message_without_words_and_one_class_alone():
    messages = Messages(
        torch.tensor([5, 6]),
        torch.tensor([0, 0, 2]),
        torch.tensor([1, 1, 1]),
        torch.zeros(3).long(),
        torch.tensor([0, 2, 0]),
    )
    layperson = teach(messages, 9, 2)
    assert layperson.guess(messages).tolist() == [1, 1, 1]
    assert torch.equal(layperson(messages)[0], layperson.bias)


def test_choice_of_words():
    scores = torch.tensor([[0.5, 0.7, 0.5, -torch.inf], [-torch.inf, 0.0, -1.0, -2.0]])
    assert choose_words(scores, 2).tolist() == [[True, True, False, False], [False, True, True, False]]
    assert choose_words(scores, 9).tolist() == choose_words(scores).tolist() == (~scores.isneginf()).tolist()
    with pytest.raises(ValueError, match="choose_words: k must be"):
        choose_words(scores, 0)


def test_messages_are_bags_in_the_order_of_the_vocabulary():
    torch.manual_seed(0)
    model = TextClassifier(TextConfig.small(20, 2, attention=WordsConfig("softmax"))).eval()
    batches = [
        {"words": torch.tensor([[9, 3, 9], [5, 0, 0]]), "label": torch.tensor([1, 0])},
        {"words": torch.tensor([[8, 2, 7]]), "label": torch.tensor([1])},
    ]
    found = collect_messages(model, batches, explainers.score_by_attention)
    assert found.words.tolist() == [3, 9, 9, 5, 2, 7, 8] and found.starts.tolist() == [0, 3, 4]
    assert found.label.tolist() == [1, 0, 1]
    wanted = torch.cat([model(batch).logits.argmax(-1) for batch in batches])
    assert torch.equal(found.decided, wanted)
    with pytest.raises(ValueError, match="must have a text at least"):
        collect_messages(model, [], explainers.score_by_attention)
