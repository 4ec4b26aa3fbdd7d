"""Networks trained side by side are those trained one by one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.tasks.mil.test_task import bags

from omegamax.data import BagTable
from omegamax.models.bag_classifier import BagClassifier, DigitEncoder, VectorEncoder
from omegamax.tasks.mil import Copies, Training
from omegamax.tasks.mil.measures import inside, zeros

POOLINGS = [("softmax", {}), ("entmax15", {}), ("normmax", {"alpha": 5.0}), ("k_subsets", {"k": 2})]


def table(count, seed):
    """Bags of :func:`bags` as numbers of their instances."""
    made = bags(count, seed)
    ends = torch.tensor([len(bag.instances) for bag in made]).cumsum(0).tolist()
    rows = [torch.arange(end - len(bag.instances), end) for end, bag in zip(ends, made, strict=True)]
    pad = torch.nn.utils.rnn.pad_sequence
    mask = pad([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
    positive = pad([bag.positive for bag in made], batch_first=True)
    label = torch.tensor([bag.label for bag in made])
    instances = torch.cat([bag.instances for bag in made])
    return BagTable(instances, pad(rows, batch_first=True), mask, label, positive)


def networks(count, omega="sparsemax", options=None, betas=None, **settings):
    torch.manual_seed(0)
    betas = betas or [1.0] * count
    return [
        BagClassifier(VectorEncoder(5, 8), omega, options, heads=2, beta=torch.full((2,), beta), **settings)
        for beta in betas
    ]


@pytest.mark.parametrize("omega, options", POOLINGS)
def test_each_answers_as_it_does_alone(omega, options):
    made = networks(3, omega, options, betas=[0.1, 1.0, 10.0], normalize=True)
    copies, given = Copies(made), table(8, 0)
    x = given.instances[given.members]
    answer = copies(x.expand(3, *x.shape), given.mask.expand(3, *given.mask.shape))
    for network, logits, weights in zip(made, *answer, strict=True):
        alone = network.eval()(x, given.mask)
        torch.testing.assert_close(logits, alone.logits)
        torch.testing.assert_close(weights, alone.weights)


def test_digits_are_encoded_as_they_are_alone():
    torch.manual_seed(0)
    made = [BagClassifier(DigitEncoder(12), "sparsemax", heads=2, normalize=True).eval() for _ in range(2)]
    pictures, members = torch.randint(256, (9, 28, 28), dtype=torch.uint8), torch.tensor([[0, 3, 5], [7, 8, 0]])
    mask = torch.tensor([[True, True, True], [True, False, True]])
    for room in (None, 8):  # exactly what is there, and more
        answer = Copies(made).answer(pictures, members.expand(2, -1, -1), mask.expand(2, -1, -1), room=room)
        for network, logits, weights in zip(made, *answer, strict=True):
            alone = network(pictures[members][:, :, None].float() / 255, mask)
            torch.testing.assert_close(logits, alone.logits)
            torch.testing.assert_close(weights, alone.weights)


def test_a_step_is_that_of_one_network_with_its_gradient_clipped():
    made, given = networks(2), table(8, 0)
    how = Training(rate=0.01, weight_decay=0.1, batch_size=8, epochs=1, clip=0.05)
    copies = Copies(made)
    copies.train(given, given, how)
    for number, network in enumerate(made):
        optimiser = torch.optim.AdamW(network.parameters(), how.rate, weight_decay=how.weight_decay)
        logits, _ = network(given.instances[given.members], given.mask)
        F.binary_cross_entropy_with_logits(logits, given.label.float()).backward()
        assert torch.nn.utils.clip_grad_norm_(network.parameters(), how.clip) > how.clip
        optimiser.step()
        for name, value in network.named_parameters():
            # Where the gradient is all but zero, the first step of Adam is a sign.
            near = value.grad.abs() > 1e-6
            torch.testing.assert_close(copies.parameters[name][number][near], value.detach()[near], rtol=0, atol=1e-4)


def test_each_is_left_at_its_best_validation():
    made = networks(2, normalize=True)
    copies, val = Copies(made), table(64, 1)
    when, found, epochs = copies.train(table(128, 0), val, Training(rate=5e-3, batch_size=16, epochs=12, patience=3))
    now = copies.measure(val)
    for one, other in zip(found, now, strict=True):
        torch.testing.assert_close(one, other)
    assert (found.auc > 0.95).all() and epochs <= 12 and (when >= 1).all() and (when <= epochs).all()


def test_training_stops_when_none_gets_better():
    copies = Copies(networks(2))
    _, _, epochs = copies.train(table(16, 0), table(16, 1), Training(rate=1e-30, epochs=20, patience=3))
    assert epochs <= 5  # the first is the best, and rounding may count as better once


def test_order_and_dropout_follow_the_seed():
    def trained(seed):
        copies = Copies(networks(2, dropout=0.5))
        copies.train(table(32, 0), table(16, 1), Training(epochs=2, batch_size=8), seed)
        return copies.parameters["classify.weight"]

    assert torch.equal(trained(0), trained(0)) and not torch.equal(trained(0), trained(1))


def test_measures_of_weights_are_counted_by_hand():
    weights = torch.tensor([[[0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]])  # three bags, a head
    mask = torch.tensor([[True, True, False], [True, True, True], [True, True, True]])
    positive = torch.tensor([[True, False, False], [False, True, True], [True, False, False]])
    assert float(zeros(weights, mask)) == pytest.approx(4 / 8)
    assert float(inside(weights, positive, torch.tensor([1, 1, 0]))) == pytest.approx((0.5 + 1.0) / 2)
