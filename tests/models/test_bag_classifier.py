"""Bags: an answer that does not hang on the order of instances, on padding, or on other bags."""

from __future__ import annotations

import pytest
import torch

from omegamax.models.bag_classifier import BagClassifier, DigitEncoder, VectorEncoder

POOLINGS = [
    ("softmax", {}),
    ("entmax", {"alpha": 1.5}),
    ("sparsemax", {}),
    ("normmax", {"alpha": 5.0}),
    ("k_subsets", {"k": 2}),
]


def make(omega="sparsemax", options=None, **settings):
    torch.manual_seed(0)
    return BagClassifier(VectorEncoder(5, 8), omega, options, **settings).double().eval()


@pytest.mark.parametrize("omega, options", POOLINGS)
def test_order_padding_and_neighbours_do_not_matter(omega, options):
    classify = make(omega, options, heads=2)
    bag = torch.randn(6, 5, dtype=torch.float64)
    alone = classify(bag[None])
    turned = classify(bag.flip(0)[None])
    torch.testing.assert_close(alone.logits, turned.logits)
    torch.testing.assert_close(alone.weights, turned.weights.flip(-1))
    batch, mask = torch.full((2, 9, 5), torch.nan, dtype=torch.float64), torch.zeros(2, 9, dtype=torch.bool)
    batch[0, :6], mask[0, :6] = bag, True
    batch[1, :3], mask[1, :3] = torch.randn(3, 5, dtype=torch.float64), True
    among = classify(batch, mask)
    torch.testing.assert_close(among.logits[:1], alone.logits)
    assert not among.weights[0, :, 6:].any() and not among.weights[1, :, 3:].any()


@pytest.mark.parametrize("omega, options", POOLINGS)
def test_gradient_reaches_every_parameter(omega, options):
    classify = make(omega, options).train()
    # A pooling that takes all there are alike has nothing to tell its query.
    logits, _ = classify(torch.randn(16, 7, 5, dtype=torch.float64))
    logits.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in classify.parameters())
    assert bool(classify.pool.query.grad.any())


def test_sparse_pooling_leaves_instances_out():
    classify = make("sparsemax", beta=20.0)
    _, weights = classify(torch.randn(4, 12, 5, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 1, dtype=torch.float64))
    assert bool((weights == 0).any())


def test_subsets_weigh_k_instances_in_all():
    _, weights = make("k_subsets", {"k": 3})(torch.randn(4, 12, 5, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(-1), torch.full((4, 1), 3.0, dtype=torch.float64))


@pytest.mark.parametrize("omega, options", POOLINGS)
def test_features_that_the_encoder_has_made_give_the_same(omega, options):
    classify = make(omega, options, heads=2, normalize=True)
    bags, mask = torch.randn(4, 7, 5, dtype=torch.float64), torch.rand(4, 7) > 0.3
    mask[:, :2] = True
    features = classify.encoder(bags.flatten(0, 1)).unflatten(0, bags.shape[:2])
    for one, other in zip(classify(bags, mask), classify(features, mask, encoded=True), strict=True):
        torch.testing.assert_close(one, other)


def test_projections_start_with_the_deviation_asked_for():
    torch.manual_seed(0)
    classify = BagClassifier(VectorEncoder(5, 200), heads=4, hidden_dim=400, init_deviation=0.02)
    layers = [part for part in classify.pool.association.children() if isinstance(part, torch.nn.Linear)]
    assert len(layers) == 4  # queries, patterns, values and output
    for layer in layers:
        assert abs(float(layer.weight.detach().std()) - 0.02) < 2e-4 and not layer.bias.any()
    with pytest.raises(ValueError, match="init_deviation must be a finite number > 0, got 0"):
        BagClassifier(VectorEncoder(5, 8), init_deviation=0)


def test_bag_with_fewer_than_k_instances_gives_them_all():
    bag = torch.randn(1, 2, 5, dtype=torch.float64)
    classify = make("k_subsets", {"k": 5})
    alone = classify(bag)
    assert alone.weights.tolist() == [[[1.0, 1.0]]]
    wide, mask = torch.cat([bag, torch.zeros(1, 6, 5, dtype=torch.float64)], 1), torch.arange(8)[None] < 2
    torch.testing.assert_close(classify(wide, mask).logits, alone.logits)


def test_digits_have_an_encoder():
    classify = BagClassifier(DigitEncoder(32), "entmax15")
    logits, weights = classify(torch.rand(2, 3, 1, 28, 28), torch.tensor([[True] * 3, [True, False, False]]))
    assert logits.shape == (2,) and weights[1].tolist() == [[1.0, 0.0, 0.0]]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="VectorEncoder: layers"):
        VectorEncoder(5, layers=0)
    with pytest.raises(ValueError, match="BagClassifier: mask"):
        make()(torch.zeros(2, 3, 5, dtype=torch.float64), torch.ones(2, 4, dtype=torch.bool))
