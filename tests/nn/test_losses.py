"""The modules of the losses do what the functions do."""

import pytest
import torch

import omegamax
from omegamax import losses, nn

PAIRS = {
    "SoftmaxLoss": (nn.SoftmaxLoss, losses.softmax_loss, {}),
    "SparsemaxLoss": (nn.SparsemaxLoss, losses.sparsemax_loss, {}),
    "Entmax15Loss": (nn.Entmax15Loss, losses.entmax15_loss, {}),
    "EntmaxLoss": (nn.EntmaxLoss, losses.entmax_loss, {"alpha": 1.3}),
    "NormmaxLoss": (nn.NormmaxLoss, losses.normmax_loss, {"alpha": 3.0}),
    "KSubsetsLoss": (nn.KSubsetsLoss, losses.k_subsets_loss, {"k": 1}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_module_is_its_function(name):
    module, function, arguments = PAIRS[name]
    z, target = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 2])
    options = {"weight": torch.rand(5), "ignore_index": 2, "reduction": "sum", "label_smoothing": 0.1}
    torch.testing.assert_close(module(**arguments)(z, target), function(z, target, **arguments))
    torch.testing.assert_close(module(**arguments, **options)(z, target), function(z, target, **arguments, **options))


@pytest.mark.parametrize("name", PAIRS)
def test_weight_is_a_buffer(name):
    module, _, arguments = PAIRS[name]
    made = module(**arguments, weight=torch.ones(5))
    assert list(made.state_dict()) == ["weight"]
    assert made.to(torch.float64).weight.dtype == torch.float64
    assert not list(module(**arguments).state_dict())


@pytest.mark.parametrize("module", [nn.EntmaxLoss, nn.NormmaxLoss])
def test_alpha_of_a_loss_is_learnt(module):
    loss = module(1.4, learnable=True, per=(2, 3))
    loss(torch.randn(2, 5, 3), torch.randint(5, (2, 3))).backward()
    assert loss.alpha.raw.grad.shape == (3,)
    assert (loss.alpha.raw.grad != 0).all()


def test_fenchel_young_loss_takes_a_name_or_an_omega():
    z, y = torch.randn(4, 5), torch.rand(4, 5).softmax(-1)
    wanted = losses.fenchel_young_loss(z, y, omegamax.Tsallis(1.5), "sum")
    for omega in ("entmax15", omegamax.Tsallis(1.5)):
        torch.testing.assert_close(nn.FenchelYoungLoss(omega, reduction="sum")(z, y), wanted)
    assert repr(nn.FenchelYoungLoss("sparsemax")) == "FenchelYoungLoss(Tsallis(alpha=2.0), reduction='mean')"


def test_bad_arguments_are_refused_at_construction():
    with pytest.raises(ValueError, match="SparsemaxLoss: reduction must be one of"):
        nn.SparsemaxLoss(reduction="avg")
    with pytest.raises(ValueError, match="EntmaxLoss: label_smoothing"):
        nn.EntmaxLoss(label_smoothing=2.0)
    with pytest.raises(ValueError, match="NormmaxLoss: alpha must be > 1"):
        nn.NormmaxLoss(alpha=1.0)
    with pytest.raises(ValueError, match="FenchelYoungLoss: reduction"):
        nn.FenchelYoungLoss("softmax", reduction="avg")
