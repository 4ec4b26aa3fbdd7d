"""The last layer of decoders: its loss is that of its map, with that map's smoothing."""

import pytest
import torch
import torch.nn.functional as F

import omegamax
from omegamax import nn
from omegamax.losses import fenchel_young_loss

MAPS = [("softmax", {}), ("entmax15", {}), ("sparsemax", {}), ("entmax", {"alpha": 1.3}), ("normmax", {"alpha": 3.0})]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("name", "options"), MAPS, ids=[name for name, _ in MAPS])
def test_loss_is_fenchel_young_loss_of_smoothed_target(name, options, smoothing):
    output = nn.TokenOutput(4, 7, name, label_smoothing=smoothing, **options).double()
    with torch.no_grad():
        output.bias.normal_()
    hidden = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[1, 2, 0], [6, 0, 0]])
    y = (1 - smoothing) * F.one_hot(target, 7).double() + smoothing / 7
    each = fenchel_young_loss(output(hidden), y, output.omega, reduction="none")
    kept = target != 0
    assert torch.allclose(output.loss(hidden, target, reduction="none"), each, rtol=0, atol=1e-9)
    found = output.loss(hidden, target, ignore_index=0)
    assert torch.allclose(found, each[kept].mean(), rtol=0, atol=1e-9)
    # The gradient by the scores is p - y.
    (grad,) = torch.autograd.grad(found, output.bias)
    p = output.omega.argmax(output(hidden.detach()))
    assert torch.allclose(grad, (p - y)[kept].mean(0), rtol=0, atol=1e-9)


def test_weight_is_shared():
    embedding = torch.nn.Embedding(7, 4)
    output = nn.TokenOutput(4, 7, "entmax15", weight=embedding.weight)
    output.loss(torch.randn(5, 4), torch.arange(5)).backward()
    assert embedding.weight.grad is not None and output.weight is embedding.weight


def test_learnt_alpha_moves_towards_its_upper_bound_without_smoothing():
    output = nn.TokenOutput(4, 7, "entmax", learnable=True)
    output.loss(torch.randn(50, 4), torch.randint(7, (50,))).backward()
    assert output.alpha.raw.grad < 0  # a step along minus the gradient raises alpha
    assert isinstance(output.omega, omegamax.Tsallis) and output.sparse
    assert not nn.TokenOutput(4, 7).sparse


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transform": "fusedmax"}, "transform"),
        ({"transform": "sparsemax", "alpha": 2.0}, "alpha goes with"),
        ({"transform": "softmax", "learnable": True}, "learnable goes with"),
        ({"label_smoothing": 1.5}, "label_smoothing"),
        ({"weight": torch.nn.Parameter(torch.zeros(7, 5))}, "weight must have shape"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        nn.TokenOutput(4, 7, **settings)
