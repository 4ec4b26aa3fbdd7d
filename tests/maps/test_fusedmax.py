"""Fused maps against the problem that defines them: the penalised objective itself, not the composition."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear
from torch import Tensor
from torch.autograd.gradcheck import gradcheck, gradgradcheck
from torch.func import jacrev

import omegamax
from omegamax import Bounded, KSubsets, NormEntropy, Tsallis, fusedmax, graph_fusedmax, tvmax

F64 = torch.float64
BASES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax15": "entmax15",
    "entmax": Tsallis(1.25),
    "normmax": "normmax",
    "normmax3": NormEntropy(3.0),
    "k_subsets": KSubsets(2),
    "at most k": KSubsets(2, at_most=True),
    "capped": Bounded("sparsemax", 0.4),
}
every_base = pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))


def chain(size: int) -> Tensor:
    at = torch.arange(size)
    return torch.stack([at[:-1], at[1:]])


def grid(rows: int, columns: int) -> Tensor:
    cell = torch.arange(rows * columns).reshape(rows, columns)
    across = torch.stack([cell[:, :-1].flatten(), cell[:, 1:].flatten()])
    down = torch.stack([cell[:-1].flatten(), cell[1:].flatten()])
    return torch.cat([across, down], 1)


GRAPH = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 4]])  # a square with a diagonal and a tail; node 5 is alone


def residual(z: Tensor, p: Tensor, edges: Tensor, penalties: Tensor, base) -> float:
    """How far p is from optimal: the least |z - grad Omega(p) - D'u - tau + nu| over multipliers with the right signs.

    ``u`` is the penalty's sign where two ends differ and anything in between where they agree; ``nu`` belongs to
    entries at a bound; ``tau`` to the sum.
    """
    omega = omegamax.get(base)
    leaf = p.clone().requires_grad_()
    slope = torch.autograd.grad(omega(leaf), leaf)[0]
    upper = getattr(omega, "upper", 1.0 if omega.name == "k_subsets" else math.inf)
    columns, low, high = [], [], []
    for (i, j), penalty in zip(edges.T.tolist(), penalties.tolist(), strict=True):
        column = np.zeros(len(p))
        column[i], column[j] = 1, -1
        sign = 0 if p[i] == p[j] else math.copysign(1, p[i] - p[j])
        columns.append(-column)
        low.append(-penalty if sign <= 0 else penalty)
        high.append(penalty if sign >= 0 else -penalty)
    for i in range(len(p)):
        if p[i] <= 0 or p[i] >= upper:
            columns.append(np.eye(len(p))[i] * (1 if p[i] <= 0 else -1))
            low.append(0.0)
            high.append(np.inf)
    columns.append(-np.ones(len(p)))
    low.append(0.0 if getattr(omega, "at_most", False) else -np.inf)
    full = not getattr(omega, "at_most", False) or math.isclose(p.sum().item(), omega.total)
    high.append(np.inf if full else 0.0)
    low, high = np.array(low), np.array(high)
    high = np.where(high <= low, low + 1e-13, high)
    found = lsq_linear(np.stack(columns, 1), (slope - z).numpy(), (low, high), method="bvls", tol=1e-15)
    return float(np.abs(found.fun).max())


@every_base
@pytest.mark.parametrize("strength", [0.01, 0.2, 1.0, 30.0])
def test_chain_is_optimal(base, strength: float):
    for z in 1.5 * torch.randn(6, 9, dtype=F64):
        p = fusedmax(z, strength, base=base)
        assert residual(z, p, chain(9), torch.full((8,), strength, dtype=F64), base) <= 1e-9


@every_base
@pytest.mark.parametrize("strength", [0.01, 0.2, 1.0, 30.0])
def test_image_is_optimal(base, strength: float):
    for z in 1.5 * torch.randn(4, 3, 4, dtype=F64):
        p = tvmax(z, strength, base=base).flatten()
        assert residual(z.flatten(), p, grid(3, 4), torch.full((17,), strength, dtype=F64), base) <= 1e-9


@every_base
@pytest.mark.parametrize("strength", [0.01, 0.2, 1.0, 30.0])
def test_graph_is_optimal(base, strength: float):
    weights = torch.tensor([0.5, 1.0, 2.0, 0.0, 0.25, 1.5], dtype=F64)
    for z in 1.5 * torch.randn(6, 6, dtype=F64):
        p = graph_fusedmax(z, GRAPH, strength, weights=weights, base=base)
        assert residual(z, p, GRAPH, strength * weights, base) <= 1e-9


@pytest.mark.parametrize("base", ["softmax", "sparsemax", "entmax15", "normmax"])
def test_image_agrees_with_a_convex_solver(base: str):
    import cvxpy as cp

    z = torch.randn(3, 3, dtype=F64)
    p = cp.Variable((3, 3), nonneg=True)
    flat = cp.vec(p, order="C")
    omega = {
        "softmax": -cp.sum(cp.entr(flat)),
        "sparsemax": cp.sum_squares(flat) / 2,
        "entmax15": 4 / 3 * cp.sum(cp.power(flat, 1.5)),
        "normmax": cp.norm(flat, 2),
    }[base]
    variation = cp.sum(cp.abs(p[1:] - p[:-1])) + cp.sum(cp.abs(p[:, 1:] - p[:, :-1]))
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(z.numpy(), p)) - omega - 0.1 * variation), [cp.sum(p) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert (tvmax(z, 0.1, base=base) - torch.from_numpy(p.value)).abs().max() <= 2e-5


@every_base
def test_strength_zero_is_the_base_map_ties_and_jacobian_included(base):
    omega = omegamax.get(base)
    z = torch.tensor([0.5, 0.5, 0.5, 0.25, 0.25, 0.0], dtype=F64)
    maps = [
        lambda z: fusedmax(z, 0.0, base=base),
        lambda z: graph_fusedmax(z, GRAPH, 0.0, base=base),
        lambda z: tvmax(z.reshape(2, 3), 0.0, base=base).flatten(),
    ]
    for f in maps:
        # Scores are measured from the largest one before they are smoothed, which may round the last digit otherwise.
        torch.testing.assert_close(f(z), omega.argmax(z), rtol=4e-16, atol=0)
        assert len(f(z).unique()) == len(omega.argmax(z).unique())
        torch.testing.assert_close(jacrev(f)(z), jacrev(omega.argmax)(z), rtol=1e-15, atol=1e-15)


@every_base
def test_derivatives_match_finite_differences(base):
    z = torch.randn(2, 6, dtype=F64, requires_grad=True)
    strength = torch.tensor(0.15, dtype=F64, requires_grad=True)
    weights = torch.rand(6, dtype=F64, requires_grad=True)
    maps = {
        "chain": (lambda z, s: fusedmax(z, s, base=base), (z, strength)),
        "image": (lambda z, s: tvmax(z.unflatten(-1, (2, 3)), s, base=base), (z, strength)),
        "graph": (lambda z, s, w: graph_fusedmax(z, GRAPH, s, weights=w, base=base), (z, strength, weights)),
    }
    for apply, arguments in maps.values():
        assert gradcheck(apply, arguments, atol=1e-7, check_forward_ad=True)
        assert gradgradcheck(apply, arguments, atol=1e-7)


def test_credit_is_spread_evenly_over_a_patch():
    z = torch.tensor([[1.0, 0.9, -1.0], [0.95, 0.8, -1.1]], dtype=F64, requires_grad=True)
    p = tvmax(z, 0.3)
    assert p[:, :2].unique().numel() == 1 and (p[:, 2] == 0).all()
    p = tvmax(z, 0.3, base="softmax")
    p[0, 0].backward()
    assert z.grad[:, :2].unique().numel() == 1


def test_masked_entry_parts_its_neighbours():
    z = torch.tensor([1.0, 5.0, 0.0], dtype=F64)
    mask = torch.tensor([True, False, True])
    assert torch.equal(fusedmax(z, 10.0, mask=mask), torch.tensor([1.0, 0.0, 0.0], dtype=F64))
    joined = graph_fusedmax(z, torch.tensor([[0], [2]]), 10.0, mask=mask)
    assert torch.equal(joined, torch.tensor([0.5, 0.0, 0.5], dtype=F64))


@pytest.mark.parametrize("base", ["sparsemax", "softmax", "entmax15"])
def test_images_of_different_sizes_share_a_batch(base: str):
    sizes = [(4, 5), (2, 3), (1, 5), (4, 1)]
    images = [torch.randn(*size, dtype=F64) for size in sizes]
    batch = torch.full((4, 4, 5), math.nan, dtype=F64)
    mask = torch.zeros(4, 4, 5, dtype=torch.bool)
    for i, (image, (h, w)) in enumerate(zip(images, sizes, strict=True)):
        batch[i, :h, :w], mask[i, :h, :w] = image, True
    p = tvmax(batch, 0.2, base=base, mask=mask)
    for i, (image, (h, w)) in enumerate(zip(images, sizes, strict=True)):
        assert (p[i, :h, :w] - tvmax(image, 0.2, base=base)).abs().max() <= 1e-15
    assert (p[~mask] == 0).all()


def test_strength_may_differ_from_row_to_row():
    z = torch.randn(3, 7, dtype=F64)
    strength = torch.tensor([[0.0], [0.3], [2.0]], dtype=F64)
    p = fusedmax(z, strength)
    for row, s, expected in zip(z, strength, p, strict=True):
        assert (fusedmax(row, s.item()) - expected).abs().max() <= 1e-15


def test_image_of_one_line_is_a_chain_and_a_grid_is_a_graph():
    z = torch.randn(5, 12, dtype=F64)
    assert (tvmax(z[:, None], 0.4)[:, 0] - fusedmax(z, 0.4)).abs().max() <= 1e-14
    ours = tvmax(z.reshape(5, 3, 4), 0.1).flatten(-2)
    assert (ours - graph_fusedmax(z, grid(3, 4), 0.1)).abs().max() <= 1e-14
    assert (fusedmax(z.T, 0.4, dim=0).T - fusedmax(z, 0.4)).abs().max() <= 1e-14


def test_base_that_does_not_keep_order_is_refused():
    z = torch.randn(4)
    for base in (Bounded("sparsemax", torch.rand(4) + 0.5), omegamax.Fused("softmax", 1.0), "fusedmax"):
        with pytest.raises(ValueError, match="fusedmax: base must be"):
            fusedmax(z, base=base)
    with pytest.raises(ValueError, match="Fused: base must be"):
        omegamax.Fused("tvmax")


def test_bad_arguments_are_refused_by_name():
    z = torch.randn(3, 4)
    with pytest.raises(ValueError, match=r"tvmax: z must have at least two axes"):
        tvmax(z[0])
    with pytest.raises(ValueError, match=r"fusedmax: strength"):
        fusedmax(z, -1.0)
    with pytest.raises(ValueError, match=r"tvmax: strength"):
        tvmax(z, math.nan)
    with pytest.raises(IndexError, match=r"graph_fusedmax: edges"):
        graph_fusedmax(z, torch.tensor([[0], [4]]))
    with pytest.raises(ValueError, match=r"graph_fusedmax: edges"):
        graph_fusedmax(z, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"graph_fusedmax: weights"):
        graph_fusedmax(z, torch.tensor([[0], [1]]), weights=torch.tensor([-1.0]))


def test_level_of_the_scores_counts_where_less_mass_is_allowed():
    z = torch.tensor([[-0.5, -0.4, -0.3, 0.2], [-3.5, -3.4, -3.3, -2.8]], dtype=F64)
    for k in (1, 1.0, torch.tensor(1.0, dtype=F64)):
        base = KSubsets(k, at_most=True)
        assert torch.equal(fusedmax(z, 0.0, base=base), base.argmax(z))
        assert (fusedmax(z, 0.05, base=base)[0] - torch.tensor([0, 0, 0, 0.15], dtype=F64)).abs().max() <= 1e-15
        assert (tvmax(z.unflatten(-1, (2, 2)), 0.05, base=base)[1] == 0).all()


@pytest.mark.parametrize("base", [Bounded("sparsemax", 0.4), KSubsets(2)], ids=["ceiling", "budget"])
@pytest.mark.parametrize("outlier", [1e6, 1e20, 1e30])
def test_outlier_leaves_the_others_their_digits(base, outlier: float):
    z = torch.tensor([1.0, 0.5, outlier, 0.0, 0.3], dtype=F64)
    near = z.clamp(max=20.0)
    for apply in (
        lambda z: fusedmax(z, 0.05, base=base),
        lambda z: tvmax(z[None], 0.05, base=base),
        lambda z: graph_fusedmax(z, chain(5), 0.05, base=base),
        lambda z: omegamax.oscarmax(z, 0.05, base=base),
    ):
        assert (apply(z) - apply(near)).abs().max() <= 1e-14
