"""What every registered map computes: a feasible point that maximises ``<p, z> - Omega(p)``."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contracts.records import RECORDS, domain, every_map, omega_of, options, run, scores
from omegamax import Omega
from omegamax.maps import MapRecord

F64 = torch.float64


def value(omega: Omega, p: Tensor, z: Tensor) -> Tensor:
    return (p * z).sum(-1) - omega.within(z)(p)


@every_map
@given(z=scores())
def test_output_lies_in_the_domain(record: MapRecord, z: Tensor):
    p = run(record, z)
    d = domain(record, options(record, len(z)))
    assert p.shape == z.shape and p.dtype == z.dtype
    assert (p >= d.lower).all() and (p <= d.upper).all()
    assert math.isclose(p.sum().item(), d.total, abs_tol=1e-14 * len(z))


@every_map
@given(z=scores())
def test_output_beats_every_corner_and_random_points(record: MapRecord, z: Tensor):
    parameters = options(record, len(z))
    omega, d = record.omega(**parameters), domain(record, parameters)
    rivals = torch.cat([d.vertices(len(z), 24), d.points(len(z), 40)])
    slack = 1e-13 * (1 + z.abs().max())
    assert (value(omega, run(record, z), z) >= value(omega, rivals, z) - slack).all()


@every_map
def test_output_beats_points_next_to_it(record: MapRecord):
    z = torch.randn(20, 6, dtype=F64)
    omega, p = omega_of(record), run(record, z)
    for q in domain(record).points(6, 30):
        for step in (1e-2, 1e-4):
            assert (value(omega, p, z) >= value(omega, p + step * (q - p), z) - 1e-14).all()


def solve(record: MapRecord, z: Tensor) -> Tensor:
    """The map by an interior-point solver."""
    import cvxpy as cp

    omega, d = omega_of(record), domain(record)
    p = cp.Variable(len(z))
    constraints = [cp.sum(p) == d.total, p >= d.lower, p <= d.upper]
    value = record.program(cp, p, omega)
    if isinstance(value, tuple):
        value, more = value
        constraints += more
    problem = cp.Problem(cp.Maximize(z.numpy() @ p - value), constraints)
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver says when it stops short of 1e-12; the test measures how short
        problem.solve(solver=cp.CLARABEL, **tolerances)
    return torch.from_numpy(p.value)


@every_map
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_output_agrees_with_a_convex_solver(record: MapRecord, scale: float):
    assert record.program is not None, f"{record.name}: give its record a convex program"
    z = scale * torch.randn(7, dtype=F64)
    p, q = run(record, z), solve(record, z)
    q = q.clamp(min=0)
    q = q * (p.sum() / q.sum())
    omega = omega_of(record)
    if record.ties_share:  # whose value exists in the domain only, which the solver leaves by a rounding
        # The solver stops 1e-9 or so short of the maximum, so its point may be worse than p but never better.
        gain = value(omega, p, z) - value(omega, q, z)
        assert -1e-14 <= gain < 5e-9
    assert (p - q).abs().max() < 2e-5  # the objective is flat at its maximum: its error is the square of this


@pytest.mark.parametrize("record", [r for r in RECORDS if omega_of(r).keeps_order], ids=lambda r: r.name)
@given(z=scores(bound=30.0))
def test_output_satisfies_the_optimality_conditions(record: MapRecord, z: Tensor):
    parameters = options(record, len(z))
    d = domain(record, parameters)
    p = run(record, z)
    multiplier = z - torch.func.grad(record.omega(**parameters))(p)
    low, high = p == d.lower, p == d.upper
    free = ~low & ~high
    tolerance = 1e-12 * (1 + z.abs().max())
    # One threshold for the free entries; those at the ceiling ask for more, those at the floor for less.
    top = multiplier[free | low].max() if (free | low).any() else -torch.inf
    bottom = multiplier[free | high].min() if (free | high).any() else torch.inf
    assert top <= bottom + tolerance


@every_map
@given(z=scores(bound=30.0), shift=st.integers(-1000, 1000))
def test_output_ignores_a_shift_of_the_scores(record: MapRecord, z: Tensor, shift: int):
    z = (z * 1024).round() / 1024  # so that the shifted scores are exact
    assert (run(record, z + shift) - run(record, z)).abs().max() <= 1e-14 * len(z)


@pytest.mark.parametrize("record", [r for r in RECORDS if r.equivariant], ids=lambda r: r.name)
@given(z=scores(bound=30.0), seed=st.integers(0, 99))
def test_output_follows_a_permutation_of_the_scores(record: MapRecord, z: Tensor, seed: int):
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    assert (run(record, z[order]) - run(record, z)[order]).abs().max() <= 1e-14 * len(z)


even_handed = pytest.mark.parametrize("record", [r for r in RECORDS if r.ties_share], ids=lambda r: r.name)


@even_handed
@given(z=scores(min_size=2))
def test_tied_scores_get_equal_probabilities(record: MapRecord, z: Tensor):
    z[1] = z[0]
    if not record.equivariant:
        z[:] = z[0]
    p = run(record, z)
    assert p[0] == p[1]


@even_handed
@pytest.mark.parametrize("size", [1, 2, 3, 8, 100])
def test_constant_scores_share_the_total(record: MapRecord, size: int):
    total = domain(record, options(record, size)).total
    for level in (0.0, -3.5, 1e6):
        p = run(record, torch.full((size,), level, dtype=F64))
        assert (p - total / size).abs().max() <= 1e-15


@every_map
@given(z=scores(bound=100.0))
def test_float32_agrees_with_float64(record: MapRecord, z: Tensor):
    assert (run(record, z.float()).double() - run(record, z)).abs().max() <= 1e-6


@every_map
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("size", [1e30, 1e300])
def test_huge_scores_stay_in_the_domain(record: MapRecord, dtype: torch.dtype, size: float):
    if size > torch.finfo(dtype).max:
        size = torch.finfo(dtype).max / 4
    d = domain(record)
    rows = torch.tensor([[1, 0, 0.5, -1, 0.25], [0, 0, 0, 0, -1], [-1, -1, -1, -0.5, -1]], dtype=F64) * size
    p = run(record, rows.to(dtype))
    assert (p >= d.lower).all() and (p.double() <= d.upper + 1e-7).all()
    assert (p.double().sum(-1) - d.total).abs().max() <= 1e-6


CAPPED = [r for r in RECORDS if domain(r).total > domain(r).upper]


@pytest.mark.parametrize("record", CAPPED, ids=lambda r: r.name)
@pytest.mark.parametrize("lead", [1e2, 1e8, 1e30, 1e300])
def test_far_leader_takes_its_ceiling_and_leaves_the_others_exact(record: MapRecord, lead: float):
    rest = torch.tensor([0.25, 0.0, 0.5, -0.125], dtype=F64)
    p = run(record, torch.cat([torch.tensor([lead], dtype=F64), rest]))
    near = run(record, torch.cat([torch.tensor([20.0], dtype=F64), rest]))
    assert p[0] == domain(record).upper
    assert (p - near).abs().max() <= 1e-8  # 20 is as good as infinity, up to exp(-20)


@every_map
def test_map_is_the_argmax_of_its_omega(record: MapRecord):
    z = torch.randn(3, 6, dtype=F64)
    omega = omega_of(record)
    assert omega.name == record.name
    assert torch.equal(run(record, z), omega.argmax(z))
    assert torch.equal(run(record, z.T, dim=0), omega.argmax(z.T, dim=0))
