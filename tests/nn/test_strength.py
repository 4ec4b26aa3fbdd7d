"""Layers that make neighbours alike: the functions, a strength that is learnt, what they hold."""

from __future__ import annotations

import math

import pytest
import torch

from omegamax import fusedmax, graph_fusedmax, oscarmax, tvmax
from omegamax.nn import Fusedmax, GraphFusedmax, Oscarmax, Strength, TVmax

EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])
LAYERS = {
    "chain": (lambda **k: Fusedmax(0.1, **k), lambda z, s, m: fusedmax(z, s, mask=m), (4,)),
    "image": (lambda **k: TVmax(0.1, **k), lambda z, s, m: tvmax(z, s, mask=m), (2, 3)),
    "graph": (lambda **k: GraphFusedmax(EDGES, 0.1, **k), lambda z, s, m: graph_fusedmax(z, EDGES, s, mask=m), (4,)),
    "pairs": (lambda **k: Oscarmax(0.1, **k), lambda z, s, m: oscarmax(z, s, mask=m), (4,)),
}


@pytest.mark.parametrize("make, apply, shape", LAYERS.values(), ids=LAYERS)
def test_layer_is_its_function_and_learns_its_strength(make, apply, shape: tuple[int, ...]):
    z = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(5, *shape, generator=torch.Generator().manual_seed(1)) < 0.8
    assert torch.equal(make()(z), apply(z, 0.1, None)) and torch.equal(make()(z, mask), apply(z, 0.1, mask))
    layer = make(learnable=True)
    p = layer(z, mask)
    assert torch.equal(p, apply(z, layer.strength().detach(), mask))
    (p * z).sum().backward()
    assert layer.strength.raw.grad.item() != 0
    twin = make(learnable=True)
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(z, mask), p) and "Strength" in repr(layer)


@pytest.mark.parametrize("start", [1e-12, 1e-3, 1.0, 50.0, 1e6])
def test_strength_starts_at_its_initial_value(start: float):
    for init in (start, torch.tensor(start, dtype=torch.float64)):
        assert Strength(init)().item() == pytest.approx(start, rel=1e-5)


def test_no_step_makes_the_strength_negative():
    strength = Strength(0.1)
    with torch.no_grad():
        strength.raw -= 1000
    assert strength().item() == 0
    assert Fusedmax(strength.half()().detach())(torch.tensor([1.0, 0.0])).tolist() == [1.0, 0.0]


def test_bad_arguments_are_refused_by_name():
    for start in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="Strength: init must be"):
            Strength(start)
    with pytest.raises(ValueError, match="Strength: init must be one finite number"):
        Fusedmax(torch.ones(3, 1), learnable=True)
    with pytest.raises(ValueError, match="TVmax: strength must be >= 0, got -1"):
        TVmax(-1.0)
    with pytest.raises(ValueError, match="Oscarmax: base must be"):
        Oscarmax(base="fusedmax")


def test_graph_and_weights_move_with_the_layer():
    layer = GraphFusedmax(EDGES, 0.1, weights=torch.nn.Parameter(torch.ones(3)))
    assert set(layer.state_dict()) == {"edges", "weights"}
    layer(torch.randn(2, 4)).square().sum().backward()
    assert layer.weights.grad.isfinite().all()
    assert layer.double()(torch.randn(2, 4).double()).dtype == torch.float64
