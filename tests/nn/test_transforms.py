"""The modules of the maps do what the functions do."""

import pytest
import torch

import omegamax
from omegamax import nn

PAIRS = {
    "softmax": (nn.Softmax, lambda z, dim, mask: omegamax.softmax(z, dim, mask=mask), {}),
    "sparsemax": (nn.Sparsemax, lambda z, dim, mask: omegamax.sparsemax(z, dim, mask=mask), {}),
    "entmax15": (nn.Entmax15, lambda z, dim, mask: omegamax.entmax15(z, dim, mask=mask), {}),
    "entmax": (nn.Entmax, lambda z, dim, mask: omegamax.entmax(z, 1.3, dim, mask=mask), {"alpha": 1.3}),
    "normmax": (nn.Normmax, lambda z, dim, mask: omegamax.normmax(z, 3.0, dim, mask=mask), {"alpha": 3.0}),
    "k_subsets": (nn.KSubsets, lambda z, dim, mask: omegamax.k_subsets(z, 2, dim, mask=mask), {"k": 2}),
    "at most k": (
        nn.KSubsets,
        lambda z, dim, mask: omegamax.k_subsets(z, 2, dim, at_most=True, mask=mask),
        {"k": 2, "at_most": True},
    ),
    "constrained_softmax": (
        nn.ConstrainedSoftmax,
        lambda z, dim, mask: omegamax.constrained_softmax(z, 0.6, dim, mask=mask),
        {"upper": 0.6},
    ),
    "constrained_sparsemax": (
        nn.ConstrainedSparsemax,
        lambda z, dim, mask: omegamax.constrained_sparsemax(z, 0.6, dim, lower=0.05, mask=mask),
        {"upper": 0.6, "lower": 0.05},
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dim", [-1, 1])
def test_module_is_its_function(name, dim):
    module, function, arguments = PAIRS[name]
    z = torch.randn(3, 4, 5)
    mask = torch.rand(3, 4, 5) > 0.2
    mask[:, :2, :2] = True
    made = module(**arguments, dim=dim)
    torch.testing.assert_close(made(z), function(z, dim, None))
    torch.testing.assert_close(made(z, mask), function(z, dim, mask))
    torch.testing.assert_close(made(z, mask=mask), function(z, dim, mask))
    assert f"dim={dim}" in repr(made)


@pytest.mark.parametrize("module", [nn.Entmax, nn.Normmax])
def test_learnt_alpha_falls_to_gradient_descent(module):
    z = torch.tensor([[1.0, 0.5, -0.5, -1.0]])
    goal = module(1.7)(z)
    learnt = module(1.3, learnable=True)
    optimiser = torch.optim.Adam(learnt.parameters(), lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        (learnt(z) - goal).square().sum().backward()
        optimiser.step()
    assert learnt.alpha.value.item() == pytest.approx(1.7, abs=1e-2)


@pytest.mark.parametrize("module", [nn.Entmax, nn.Normmax])
def test_each_head_has_its_own_alpha(module):
    start = torch.tensor([1.2, 1.5, 1.9])
    learnt = module(start, learnable=True, per=3)
    z = torch.randn(2, 3, 4, 5)
    p = learnt(z)
    for head in range(3):
        torch.testing.assert_close(p[:, head], module(start[head].item())(z[:, head]))
    p.square().sum().backward()
    assert (learnt.alpha.raw.grad != 0).all()


def test_tensor_arguments_travel_with_the_module():
    entmax = nn.Entmax(torch.tensor([[1.3], [1.7]]))
    assert [name for name, _ in entmax.named_buffers()] == ["alpha"]
    assert entmax.to(torch.float64).alpha.dtype == torch.float64
    bounded = nn.ConstrainedSparsemax(upper=torch.nn.Parameter(torch.full((4,), 0.5)))
    bounded(torch.randn(2, 4)).square().sum().backward()
    assert bounded.upper.grad is not None


def test_modules_compile():
    torch.compiler.reset()
    learnt = nn.Entmax(learnable=True, per=2)
    z = torch.randn(3, 2, 4, 5)
    compiled = torch.compile(learnt, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(z), learnt(z))
    (wanted,) = torch.autograd.grad(learnt(z).square().sum(), learnt.alpha.raw)
    (given,) = torch.autograd.grad(compiled(z).square().sum(), learnt.alpha.raw)
    torch.testing.assert_close(given, wanted)


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match="Entmax: alpha must be > 0"):
        nn.Entmax(alpha=0.0)
    with pytest.raises(ValueError, match="Entmax: per goes with learnable=True"):
        nn.Entmax(per=3)
    with pytest.raises(ValueError, match=r"Normmax: bounds\[0\] must be > 1"):
        nn.Normmax(learnable=True, bounds=(1.0, 4.0))
    with pytest.raises(ValueError, match="KSubsets: k must lie in"):
        nn.KSubsets(-1)


class Mine(nn.Entmax):
    def __init__(self):
        super().__init__(1.3, dim=0)


def test_subclass_has_a_constructor_of_its_own():
    z = torch.randn(4, 5)
    assert torch.equal(Mine()(z), omegamax.entmax(z, 1.3, dim=0)) and repr(Mine()) == "Mine(alpha=1.3, dim=0)"
    with pytest.raises(TypeError, match=r"KSubsets: missing a required argument: 'k'; it takes \(k"):
        nn.KSubsets()
