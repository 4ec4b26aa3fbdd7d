"""Infinite sharpness: the limit of large beta in weights, states and energies, and what has no such limit."""

from __future__ import annotations

import math

import pytest
import torch

from omegamax.hopfield import Memory, threshold
from omegamax.maps import Bounded, KSubsets
from omegamax.nn import Hopfield

OMEGAS = ["softmax", "sparsemax", "entmax15", "normmax"]
INFINITE = [math.inf, torch.tensor(math.inf), torch.full((1, 1), math.inf)]
PATTERNS = torch.tensor([[1.0, 0.5], [0.5, 1.0], [-1.0, -1.0]], dtype=torch.float64)
QUERIES = torch.tensor([[0.9, 0.2], [0.2, 0.9], [0.4, 0.4], [0.0, 0.0], [-1.0, 0.3]], dtype=torch.float64)


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize("beta", INFINITE, ids=["float", "scalar", "tensor"])
def test_is_what_large_beta_tends_to(omega, beta):
    memory, near = Memory(PATTERNS, omega, beta), Memory(PATTERNS, omega, 1e9)
    for method in ("weights", "step", "energy"):
        value = getattr(memory, method)(QUERIES)
        assert value.isfinite().all()
        torch.testing.assert_close(value, getattr(near, method)(QUERIES), rtol=0, atol=1e-8)
    assert memory.weights(QUERIES)[2].tolist() == [0.5, 0.5, 0]  # ties are shared
    energy = 0.5 * QUERIES.square().sum(-1) - (QUERIES @ PATTERNS.T).amax(-1)
    torch.testing.assert_close(memory.energy(QUERIES), energy, rtol=1e-14, atol=1e-15)


def test_retrieves_the_pattern_of_the_largest_score_and_never_raises_the_energy():
    torch.manual_seed(0)
    patterns, queries = torch.randn(9, 6), torch.randn(20, 6)
    patterns = patterns / patterns.norm(dim=-1, keepdim=True)
    found = Memory(patterns, "softmax", math.inf).retrieve(queries)
    assert found.converged.all() and (found.steps <= 2).all()
    assert torch.equal(found.state, patterns[(queries @ patterns.T).argmax(-1)])
    assert (found.energies.diff(dim=0) <= 1e-6).all()


def test_masked_patterns_do_not_compete():
    memory = Memory(PATTERNS, "softmax", math.inf, mask=torch.tensor([False, True, True]))
    assert memory.weights(QUERIES[0]).tolist() == [0, 1, 0]
    none = Memory(PATTERNS, "softmax", math.inf, mask=torch.zeros(3, dtype=torch.bool))
    assert none.step(QUERIES[0]).tolist() == [0, 0]


def test_gradients_are_those_of_the_chosen_pattern():
    patterns, query = PATTERNS.clone().requires_grad_(), QUERIES[0].clone().requires_grad_()
    memory = Memory(patterns, "entmax15", math.inf)
    in_patterns, in_query = torch.autograd.grad(memory.step(query).sum(), (patterns, query))
    assert in_patterns.tolist() == [[1, 1], [0, 0], [0, 0]] and in_query.tolist() == [0, 0]
    (in_query,) = torch.autograd.grad(memory.energy(query), query)
    torch.testing.assert_close(in_query, QUERIES[0] - PATTERNS[0])


@pytest.mark.parametrize("omega", OMEGAS)
def test_layer_is_the_memory(omega):
    layer = Hopfield(omega, math.inf, steps=3)
    state, weights = layer(QUERIES, PATTERNS, return_weights=True)
    memory = layer.memory(PATTERNS)
    expected = memory.retrieve(QUERIES, steps=2, tol=None).state
    torch.testing.assert_close(state, memory.step(expected).squeeze(0))
    assert weights.isfinite().all()
    assert Hopfield(omega, torch.full((2,), math.inf), num_heads=2)(QUERIES, PATTERNS).isfinite().all()


@pytest.mark.parametrize("make", [lambda **k: Memory(PATTERNS, **k), Hopfield], ids=["Memory", "Hopfield"])
def test_betas_and_omegas_without_meaning_are_refused(make):
    for beta in (0.0, -1.0, math.nan, -math.inf, torch.tensor(0.0), torch.tensor(math.nan)):
        with pytest.raises(ValueError, match="beta must be > 0"):
            make(omega="softmax", beta=beta)
    with pytest.raises(TypeError, match="beta must be a float or a tensor"):
        make(omega="softmax", beta="sharp")
    for omega in (KSubsets(2), Bounded("softmax", 0.6)):
        with pytest.raises(ValueError, match="beta = inf needs omega"):
            make(omega=omega, beta=math.inf)


def test_tensors_are_finite_or_infinite_as_a_whole():
    with pytest.raises(ValueError, match="finite everywhere, or inf everywhere"):
        Memory(PATTERNS, "softmax", torch.tensor([[1.0], [math.inf]]))
    with pytest.raises(ValueError, match="must be finite to be learnt"):
        Hopfield("softmax", math.inf, learn_beta=True)


def test_any_lead_is_enough():
    assert threshold("softmax", math.inf) == threshold("sparsemax", math.inf) == 0
