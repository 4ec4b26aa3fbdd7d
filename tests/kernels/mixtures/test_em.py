"""Expectation-maximisation in C++ against the same in plain torch."""

from __future__ import annotations

import math

import pytest
import torch

from omegamax.kernels import _library
from omegamax.kernels.mixtures import cpu
from omegamax.maps import Shannon
from omegamax.mixtures._init import one_hot
from omegamax.mixtures._points import Points
from omegamax.mixtures._step import Iteration

F64 = torch.float64
each_dimension = pytest.mark.parametrize("n", [1, 2])
pytestmark = pytest.mark.skipif(
    not _library.is_available("mixtures"), reason="omegamax was installed without compiled kernels"
)


def draw(n, examples=2, length=20, components=3, starts=1, shared=True, spread=0.0, floor=1e-3):
    """Draw points, weights and members; the last of three components begins without any in the first row."""
    x = torch.rand(1 if shared else examples, length, n, dtype=F64) - 0.5
    weights = (2 * torch.randn(examples, length, dtype=F64)).softmax(-1)
    labels = torch.randint(0, components, (starts * examples, length))
    if components > 2:
        labels[0] = labels[0].clamp(max=components - 2)
    floors = floor * (1 + torch.rand(examples, dtype=F64))
    return x, weights, labels, floors, spread * (1 + torch.rand(examples, n, dtype=F64))


def fit_plainly(x, weights, labels, floor, spread, components, iterations):
    """Return the last state ``[R, K, F]`` and its weighted log-likelihood ``[R]``."""
    nothing = torch.zeros(len(weights), dtype=torch.bool)
    points = Points(x, weights, x.new_zeros(x.shape[-1]), x.new_ones(()), floor, spread, nothing, F64)
    rule = Iteration(Shannon())
    gamma = one_hot(labels.unflatten(0, (-1, len(weights))), components, F64)
    state = rule.run(points, rule.maximise(points, gamma, rule.fit_one(points)), iterations)
    flat = torch.cat([state.weights.unsqueeze(-1), state.mean, state.cov], -1)
    return flat.flatten(0, 1), rule.objective(points, state).flatten()


def check(given, components, iterations, within=1e-12, value_within=1e-12):
    """Compare states and values, and the gradient by the weights of a random sum of the last state."""
    states, values = cpu.em(*given, components, iterations)
    weights = given[1].clone().requires_grad_()
    state, value = fit_plainly(given[0], weights, *given[2:], components, iterations)
    assert states.shape == (iterations + 1, *state.shape)
    torch.testing.assert_close(states[-1], state.detach(), rtol=within, atol=within)
    torch.testing.assert_close(values, value.detach(), rtol=value_within, atol=value_within)
    g = torch.randn(state.shape, dtype=F64)
    (wanted,) = torch.autograd.grad(state, weights, g)
    found = cpu.em_vjp(*given, states, g)
    found = found.unflatten(0, (-1, len(weights))).sum(0)
    assert (found - wanted).abs().max() <= within * (1 + wanted.abs().max())


@each_dimension
@pytest.mark.parametrize("components, iterations", [(1, 2), (2, 3), (3, 0), (5, 3), (18, 1)])
def test_gradient_agrees(n, components, iterations):
    check(draw(n, components=components), components, iterations)


@each_dimension
def test_gradient_agrees_for_positions_of_each_example_several_starts_and_spread(n):
    check(draw(n, starts=2, shared=False, spread=1e-2), 3, 2)


@each_dimension
@pytest.mark.parametrize("floor", [0.05, 0.5])  # some variances are held, and all are
def test_gradient_agrees_where_the_floor_holds(n, floor):
    check(draw(n, floor=floor), 3, 3)


@each_dimension
@pytest.mark.parametrize("length", [1, 2, 600])
def test_gradient_agrees_for_few_points_and_many(n, length):
    check(draw(n, length=length, components=4), 4, 2)


def test_gradient_agrees_for_a_component_of_three_on_a_line():
    """As thin as a floor may be: what counts is left of much larger numbers, of which plain torch loses some."""
    x = torch.tensor([[[-0.33, -0.165], [-0.32, -0.16], [-0.15, -0.075], [0.2, 0.1]]], dtype=F64)
    weights, labels = torch.tensor([[0.3, 0.3, 0.2, 0.2]], dtype=F64), torch.tensor([[0, 1, 1, 1]])
    floor, spread = torch.full((1,), 2.0**-40, dtype=F64), torch.zeros(1, 2, dtype=F64)
    check((x, weights, labels, floor, spread), 2, 2, within=1e-9, value_within=1e-6)


def test_component_without_mass_stays_away():
    x, weights, labels, floor, spread = draw(2, components=2)
    labels[:, 0], labels[:, 1:], weights[:, 0] = 1, 0, 0.0
    given = (x, weights / weights.sum(-1, keepdim=True), labels, floor, spread)
    check(given, 2, 3)
    states, _ = cpu.em(*given, 2, 3)
    assert not states[:, :, 1, 0].any()  # exactly


def test_point_that_is_a_member_of_none_comes_in_with_the_first_iteration():
    x, weights, labels, floor, spread = draw(2, components=2)
    labels[:, :3] = -1
    check((x, weights, labels, floor, spread), 2, 0)
    check((x, weights, labels, floor, spread), 2, 1)


def test_nan_spoils_its_own_row():
    x, weights, *rest = draw(2, examples=3)
    broken = weights.clone()
    broken[1, 4] = math.nan
    g = torch.randn(3, 3, 6, dtype=F64)
    clean, spoiled = (cpu.em(x, w, *rest, 3, 2)[0] for w in (weights, broken))
    before, after = (cpu.em_vjp(x, w, *rest, s, g) for w, s in ((weights, clean), (broken, spoiled)))
    assert spoiled[-1, 1].isnan().any() and after[1].isnan().any()
    assert torch.equal(spoiled[:, [0, 2]], clean[:, [0, 2]]) and torch.equal(after[[0, 2]], before[[0, 2]])


def test_no_rows():
    given = [t[:0] if i else t for i, t in enumerate(draw(2))]
    states, values = cpu.em(*given, 3, 2)
    assert states.shape == (3, 0, 3, 6) and values.shape == (0,)
    assert cpu.em_vjp(*given, states, states[-1]).shape == (0, 20)
