"""The theory of exact retrieval, confirmed by experiment."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest
import torch
from tests.hopfield.cases import on_sphere

from omegamax import Bounded, Fused, KSubsets, NormEntropy, Oscar, SequentialKSubsets, Shannon, Tsallis
from omegamax.hopfield import (
    Memory,
    Power,
    beta_for,
    capacity,
    lead,
    radius,
    retrieved_exactly,
    separation,
    threshold,
)
from omegamax.hopfield._sphere import log_cap

F64 = torch.float64
# Of these the margin is also necessary; of the others it is enough.
SHARP = [Tsallis(1.2), Tsallis(1.5), Tsallis(2.0), Tsallis(3.0), NormEntropy(1.5), NormEntropy(2.0), NormEntropy(5.0)]
SHARP += [NormEntropy(math.inf), KSubsets(1)]
ENOUGH = [
    SequentialKSubsets(1, 0.3),
    Fused("sparsemax", 0.3),
    Fused("entmax15", 0.1),
    Oscar("sparsemax", 0.1),
    Oscar("normmax", 0.0),
]
with_margin = pytest.mark.parametrize("omega", SHARP, ids=repr)


def test_lead_and_separation_are_as_written():
    x, q = torch.randn(2, 5, 3, dtype=F64), torch.randn(2, 4, 3, dtype=F64)
    ahead = lead(q, x)
    for b, i, j in itertools.product(range(2), range(4), range(5)):
        others = [float(q[b, i] @ x[b, k]) for k in range(5) if k != j]
        assert ahead[b, i, j].item() == pytest.approx(float(q[b, i] @ x[b, j]) - max(others), abs=1e-12)
    torch.testing.assert_close(separation(x), lead(x, x).diagonal(dim1=-2, dim2=-1))
    assert separation(x[0, :1]).item() == math.inf
    assert separation(torch.cat([x[0, :1], x[0, :1]])).tolist() == [0.0, 0.0]


def test_lead_of_sets_and_of_masked_patterns():
    x, q = torch.randn(5, 3, dtype=F64), torch.randn(4, 3, dtype=F64)
    torch.testing.assert_close(lead(q, x, chosen=torch.eye(5).bool()), lead(q, x))
    pairs = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 0, 1]]).bool()
    z = q @ x.T
    torch.testing.assert_close(lead(q, x, chosen=pairs)[:, 1], z[:, [2, 4]].amin(-1) - z[:, [0, 1, 3]].amax(-1))
    mask = torch.tensor([True, False, True, True, True])
    masked = lead(q, x, mask)
    torch.testing.assert_close(masked[:, mask], lead(q, x[mask]))
    assert (masked[:, 1] == -math.inf).all() and separation(x, mask)[1] == -math.inf
    alone = torch.tensor([False, False, True, False, False])
    assert (lead(q, x, alone)[:, 2] == math.inf).all()


@pytest.mark.parametrize("beta", [0.5, 2.0, 8.0])
@with_margin
def test_one_step_is_exact_just_where_the_lead_is_the_threshold(omega, beta):
    x, q = on_sphere(8, 5), 6 * torch.randn(400, 5, dtype=F64) / beta
    told = retrieved_exactly(q, x, omega, beta)
    weights, states = Memory(x, omega, beta).weights(q), Memory(x, omega, beta).step(q)
    alone = weights == 1
    assert torch.equal(told, alone)
    assert told.any() and not told.any(-1).all(), "the queries should be of both kinds"
    hit = told.nonzero()
    assert torch.equal(states[hit[:, 0]], x[hit[:, 1]])  # to the last bit
    misprint = lead(q, x) >= 1 / (omega.margin * beta)
    assert torch.equal(misprint, alone) == (omega.margin == 1)


@with_margin
def test_a_lead_just_below_the_threshold_fails(omega):
    x, beta = on_sphere(6, 4), 3.0
    level = threshold(omega, beta)
    for i in range(6):
        # Along x_i minus the mean of the others, until it leads by what is asked.
        way = x[i] - (x.sum(0) - x[i]) / 5
        gap = float(lead(way[None], x)[0, i])
        if gap <= 0:
            continue
        below, above = ((1 + s) * level / gap * way[None] for s in (-1e-3, 1e-3))
        memory = Memory(x, omega, beta)
        assert not retrieved_exactly(below, x, omega, beta)[0, i] and memory.weights(below)[0, i] < 1
        assert retrieved_exactly(above, x, omega, beta)[0, i] and memory.weights(above)[0, i] == 1
        assert not torch.equal(memory.step(below)[0], x[i]) and torch.equal(memory.step(above)[0], x[i])


@with_margin
def test_a_pattern_is_a_fixed_point_where_it_is_separated(omega):
    kinds = set()
    for seed in range(20):
        x = on_sphere(7, 4, generator=torch.Generator().manual_seed(seed))
        beta = 4.0 * omega.margin
        stays = (Memory(x, omega, beta).step(x) == x).all(-1)
        told = separation(x) >= threshold(omega, beta)
        assert torch.equal(stays, told)
        kinds |= set(told.tolist())
    assert kinds == {True, False}


@pytest.mark.parametrize("omega", ENOUGH, ids=repr)
def test_margin_of_maps_that_see_neighbours_is_enough(omega):
    x, q = on_sphere(8, 5), 6 * torch.randn(400, 5, dtype=F64)
    told = retrieved_exactly(q, x, omega, 1.5)
    assert told.any() and (Memory(x, omega, 1.5).weights(q)[told] == 1).all()


def test_sets_are_retrieved_exactly_where_they_lead():
    x, q, beta = on_sphere(6, 5), 3 * torch.randn(300, 5, dtype=F64), 1.5
    for k in (1, 2, 4):
        sets = torch.tensor([s for s in itertools.product((False, True), repeat=6) if sum(s) == k])
        told = retrieved_exactly(q, x, KSubsets(k), beta, chosen=sets)
        weights = Memory(x, KSubsets(k), beta).weights(q)
        torch.testing.assert_close(told, (weights.unsqueeze(1) == sets).all(-1))
        assert told.any() and not told.any(-1).all()
        sequential = SequentialKSubsets(k, 0.2)
        enough = retrieved_exactly(q, x, sequential, beta, chosen=sets)
        weights = Memory(x, sequential, beta).weights(q)
        torch.testing.assert_close(weights[enough.any(-1)], sets[enough.nonzero()[:, 1]].double())
        assert enough.any()


@with_margin
def test_every_query_within_the_radius_is_retrieved(omega):
    x, beta = on_sphere(7, 6), 12.0 * omega.margin
    reach, bound = radius(x, omega, beta), radius(x, omega, beta, uniform=True)
    assert (bound[reach > 0] <= reach[reach > 0]).all() and (reach > 0).any()
    memory = Memory(x, omega, beta)
    for i in (reach > 0).nonzero().flatten().tolist():
        around = x[i] + 0.999 * reach[i] * on_sphere(300, 6)
        assert torch.equal(memory.step(around), x[i].expand(300, 6))
        # Beyond it there is a direction, towards another pattern, that fails.
        outward = x - x[i]
        outward = outward[outward.norm(dim=-1) > 0]
        beyond = x[i] + 1.001 * reach[i] * outward / outward.norm(dim=-1, keepdim=True)
        assert not (memory.step(beyond) == x[i]).all()


@with_margin
def test_uniform_bound_holds_for_patterns_of_any_norm(omega):
    x = torch.randn(7, 6, dtype=F64)
    beta = 8.0 * omega.margin
    bound = radius(x, omega, beta, uniform=True)
    torch.testing.assert_close(bound, (separation(x) - omega.margin / beta) / (2 * x.norm(dim=-1).max()))
    for i in (bound > 0).nonzero().flatten().tolist():
        around = x[i] + 0.999 * bound[i] * on_sphere(100, 6)
        assert torch.equal(Memory(x, omega, beta).step(around), x[i].expand(100, 6))


@with_margin
def test_beta_for_is_the_smallest_that_does(omega):
    x = on_sphere(6, 5)
    for eps in (0.0, 0.05):
        beta = float(beta_for(x, omega, eps))
        assert (radius(x, omega, beta * (1 + 1e-9)) >= eps - 1e-12).all()
        assert (radius(x, omega, beta * 0.999) < eps).any()
    assert torch.equal(Memory(x, omega, float(beta_for(x, omega)) * (1 + 1e-9)).step(x), x)
    assert beta_for(torch.cat([x, x[:1]]), omega) == math.inf
    assert beta_for(x[:1], omega) == 0
    mask = torch.tensor([True, True, True, False, False, False])
    torch.testing.assert_close(beta_for(x, omega, mask=mask), beta_for(x[:3], omega))


def test_radius_of_absent_and_equal_patterns():
    x = on_sphere(4, 3)
    mask = torch.tensor([True, True, True, False])
    torch.testing.assert_close(radius(x, "sparsemax", 9.0, mask)[:3], radius(x[:3], "sparsemax", 9.0))
    assert radius(x, "sparsemax", 9.0, mask)[3] == -math.inf
    assert (radius(x[[0, 0]], "sparsemax", 9.0) == -math.inf).all()
    assert radius(x[:1], "sparsemax", 9.0).item() == math.inf
    assert (radius(x, "softmax", 9.0) == -math.inf).all()


def test_batches_of_patterns():
    x = on_sphere(3, 5, 4)
    for f in (separation, lambda x: radius(x, "sparsemax", 9.0), lambda x: beta_for(x, "entmax15", 0.01)):
        torch.testing.assert_close(f(x), torch.stack([f(one) for one in x]))


@pytest.mark.parametrize("dimension", [2, 3, 5, 64, 784])
@pytest.mark.parametrize("height", [1e-6, 0.01, 0.5, 1.0, 1.3, 1.99])
def test_area_of_a_cap(dimension, height):
    square = mpmath.mpf(height) * (2 - mpmath.mpf(height))
    part = mpmath.betainc(mpmath.mpf(dimension - 1) / 2, mpmath.mpf(1) / 2, 0, square, regularized=True) / 2
    wanted = float(mpmath.log(1 - part if height > 1 else part))
    assert log_cap(dimension, height) == pytest.approx(wanted, rel=1e-11, abs=1e-14)


def test_area_of_a_cap_at_its_ends():
    assert log_cap(7, 0.0) == -math.inf and log_cap(7, 2.0) == 0.0


@with_margin
def test_capacity_is_met_and_not_wasted(omega):
    """Angles of pairs are independent, so that the union bound is nearly what happens."""
    dimension, failure, trials = 8, 0.2, 600
    beta = 10.0 * omega.margin
    count = int(capacity(dimension, omega, beta, failure))
    assert count > 5
    x = on_sphere(trials, count, dimension)
    exact = (Memory(x, omega, beta).step(x) == x).all(-1).all(-1)  # every pattern of a trial
    rate = 1 - exact.double().mean().item()
    deviation = math.sqrt(failure * (1 - failure) / trials)
    assert failure - failure**2 - 4 * deviation < rate < failure + 3 * deviation
    more = on_sphere(100, 4 * count, dimension)
    assert not (Memory(more, omega, beta).step(more) == more).all(-1).all(-1).double().mean() > 0.2


def test_capacity_covers_perturbed_queries_on_any_sphere():
    norm, eps, omega, beta, failure = 3.0, 0.2, Tsallis(2.0), 4.0, 0.1
    count = int(capacity(10, omega, beta, failure, norm=norm, radius=eps))
    assert count > 3
    x = norm * on_sphere(300, count, 10)
    q = x + eps * on_sphere(300, count, 10)
    exact = (Memory(x, omega, beta).step(q) == x).all(-1).all(-1)
    assert 1 - exact.double().mean().item() <= failure + 3 * math.sqrt(failure / 300)


def test_capacity_grows_as_the_talk_says():
    # N = O(sqrt(p) zeta^((D - 1) / 2)) where m / (beta M^2) + 2 eps / M = 1 - cos(1 / zeta).
    for dimension in (5, 20, 100):
        n = [capacity(dimension, "sparsemax", 1 / (1 - math.cos(1 / zeta)), 0.01) for zeta in (300.0, 600.0)]
        assert math.log(n[1] / n[0]) / math.log(2) == pytest.approx((dimension - 1) / 2, abs=0.02)
    few, many = (capacity(40, "normmax", 6.0, p) for p in (0.001, 0.1))
    assert many / few == pytest.approx(10, rel=1e-3)


def test_capacity_at_its_ends():
    assert capacity(64, Shannon(), 5.0) == 1.0
    assert capacity(64, "sparsemax", 0.4) == 1.0  # even opposite patterns are too close
    assert capacity(64, Tsallis(math.inf), 1.0) == math.inf
    assert capacity(10**5, "sparsemax", 50.0) == math.inf
    assert 1e100 < capacity(2000, "sparsemax", 3.0) < math.inf


def test_threshold_is_margin_over_beta():
    assert threshold("entmax15", 4.0) == 0.5 and threshold(Tsallis(3.0), 2.0) == 0.25
    assert threshold("softmax", 1.0) == math.inf
    assert threshold(Oscar("sparsemax", 0.1), 1.0) == math.inf
    assert threshold(Oscar("sparsemax", 0.1), 1.0, patterns=10) == pytest.approx(1.5)


X = torch.ones(3, 2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: threshold("sparsemax", 0.0), ValueError, "threshold: beta must be > 0"),
        (lambda: threshold(KSubsets(1, at_most=True), 1.0), ValueError, "threshold: no lead alone"),
        (lambda: threshold(Bounded("sparsemax", 0.5), 1.0), ValueError, "threshold: no lead alone"),
        (lambda: threshold(Power(3), 1.0), ValueError, "threshold: no lead alone"),
        (lambda: retrieved_exactly(X, X, KSubsets(2), 1.0), ValueError, "retrieves sets: give them as chosen"),
        (
            lambda: retrieved_exactly(X, X, KSubsets(2), 1.0, chosen=torch.eye(3).bool()),
            ValueError,
            "each row of chosen must have 2 True",
        ),
        (lambda: lead(X, X, chosen=torch.eye(2).bool()), ValueError, r"chosen must be bool \[M, N\] with N = 3"),
        (lambda: separation(X[0]), ValueError, "patterns must be"),
        (lambda: separation(X.long()), TypeError, "patterns must be a floating-point tensor"),
        (lambda: radius(X, "sparsemax", 1.0, torch.ones(3)), TypeError, "radius: mask must be a bool tensor"),
        (lambda: radius(X, KSubsets(2), 1.0), ValueError, "radius: omega must retrieve single patterns"),
        (lambda: beta_for(X, KSubsets(2)), ValueError, "beta_for: omega must retrieve single patterns"),
        (lambda: capacity(3, KSubsets(2), 1.0), ValueError, "capacity: omega must retrieve single patterns"),
        (lambda: capacity(1, "sparsemax", 1.0), ValueError, "dimension must be an integer >= 2, got 1"),
        (lambda: capacity(3, "sparsemax", 1.0, 1.0), ValueError, r"failure must lie in \(0, 1\), got 1.0"),
        (lambda: capacity(3, "sparsemax", 1.0, norm=0.0), ValueError, "norm must be > 0"),
        (lambda: capacity(3, "sparsemax", 1.0, radius=-1.0), ValueError, "radius must be >= 0"),
    ],
)
def test_misuse_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
