"""The relaxation of sequences with k ones: where it is tight, it and its slopes are what the search finds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax.kernels import _library
from omegamax.kernels.structures import TOLERANCE, ActiveSetJacobian, close_gaps, iteration_limit, solve_relaxation
from omegamax.kernels.structures import cpu as compiled

F64 = torch.float64
DISTRIBUTIONS = {
    "normal": lambda z: z,
    "flat": lambda z: 0.01 * z,
    "nearly flat": lambda z: 0.3 * z,
    "peaked": lambda z: 10 * z,
    "ties": lambda z: (2 * z).round() / 2,
    "integers": lambda z: (3 * z).round(),
    "equal": torch.zeros_like,
    "masked": lambda z: z.masked_fill(z > 1, -math.inf),
}

pytestmark = pytest.mark.skipif(
    not _library.is_available("structures"), reason="omegamax was installed without compiled kernels"
)


def search(z: Tensor, t: Tensor, k: int, at_most: bool):
    """What the active set finds, which starts from nothing."""
    n = z.shape[1]
    scores = close_gaps(z, t, at_most)
    kind = "sequential_k_subsets"
    return compiled.active_set(scores, t, kind, (n, k, int(at_most)), None, None, TOLERANCE, iteration_limit(n))


def jacobian(groups: Tensor) -> Tensor:
    """That of means over groups, less the mean over all entries: of one row, ``[n + n - 1, n + n - 1]``."""
    n = (len(groups) + 1) // 2
    member = torch.nn.functional.one_hot(groups, n + 1)[:, :n].to(F64)
    sizes = member[:n].sum(0)
    inner = torch.diag(torch.where(sizes > 0, 1 / sizes, 0.0)) - 1 / sizes.sum().clamp(min=1)
    return member @ inner @ member.T


@pytest.mark.parametrize("at_most", [False, True], ids=["exactly", "at most"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_tight_rows_are_what_the_search_finds(distribution: str, at_most: bool):
    generator = torch.Generator().manual_seed(3)
    for n, k in ((2, 1), (5, 2), (9, 3), (9, 8), (30, 6), (30, 20), (60, 25)):
        for strength in (0.05, 0.3, 1.0, 4.0):
            z = DISTRIBUTIONS[distribution](torch.randn(20, n, dtype=F64, generator=generator))
            t = strength * torch.rand(20, n - 1, dtype=F64, generator=generator)
            enough = (z > -math.inf).sum(-1) >= k
            z, t = z[enough], t[enough]
            p, groups, tight = solve_relaxation(z, t, k, at_most)
            found = search(z, t, k, at_most)
            assert (p - found.marginals)[tight].abs().amax() <= 1e-12 if tight.any() else True
            bases = ActiveSetJacobian(found).spanned.basis
            for row in tight.nonzero()[:, 0].tolist():
                assert (jacobian(groups[row]) - bases[row].T @ bases[row]).abs().max() <= 1e-9


def test_tight_rows_are_best_among_all_distributions():
    """No score of a sequence at the slope ``z - p`` exceeds that of the mixture, over all of them."""
    generator, settled = torch.Generator().manual_seed(0), 0
    for n, k in itertools.product((2, 3, 6, 10), (1, 2, 5)):
        if k >= n:
            continue
        y = torch.tensor([s for s in itertools.product((0.0, 1.0), repeat=n) if sum(s) == k], dtype=F64)
        z = 2 * torch.randn(200, n, dtype=F64, generator=generator)
        t = torch.rand(200, n - 1, dtype=F64, generator=generator)
        p, groups, tight = solve_relaxation(z, t, k, False)
        best = ((z - p) @ y.T + t @ (y[:, 1:] * y[:, :-1]).T).amax(-1)
        pairs = torch.minimum(p[:, 1:], p[:, :-1])
        value = ((z - p) * p).sum(-1) + (t * pairs).sum(-1)
        assert (best - value)[tight].abs().max() <= 1e-12
        assert (p.sum(-1) - k)[tight].abs().max() <= 1e-13
        # A group has one value, and entries of none are 0 or 1.
        values = torch.cat([p, pairs], -1)[tight]
        of_group = torch.zeros(len(values), n + 1, dtype=F64).scatter(1, groups[tight], values)
        constant = groups[tight] == n
        assert torch.where(constant, values.round(), of_group.gather(1, groups[tight])).sub(values).abs().max() <= 1e-15
        settled += int(tight.sum())
    assert settled > 1000


@pytest.mark.parametrize("k, scale, least", [(10, 1.0, 0.95), (40, 1.0, 0.99), (80, 3.0, 0.99), (80, 0.4, 0.9)])
def test_most_rows_of_long_texts_are_tight(k: int, scale: float, least: float):
    z = scale * torch.randn(64, 200, dtype=F64, generator=torch.Generator().manual_seed(1))
    _, _, tight = solve_relaxation(z, torch.full((64, 199), 0.1, dtype=F64), k, False)
    assert tight.double().mean() >= least


def test_a_relaxation_that_is_not_tight_is_not_taken():
    # Two entries that want to be equal: half of both is no mixture of sequences with a single one.
    z, t = torch.zeros(1, 2, dtype=F64), torch.ones(1, 1, dtype=F64)
    assert not solve_relaxation(z, t, 1, False)[2].any()
    z[0, 1] = 0.25
    assert not solve_relaxation(z, t, 1, False)[2].any()
    p = omegamax.sequential_k_subsets(z, 1, t)
    assert (p - torch.tensor([[0.375, 0.625]], dtype=F64)).abs().max() <= 1e-15


def test_what_it_cannot_decide_is_left_to_the_search():
    z = torch.tensor([[0.75, -1.0, 2.0, -1.0, 0.5]], dtype=F64).repeat(9, 1)
    t = torch.full((9, 4), 0.1, dtype=F64)
    z[1, 4], z[2, 0], z[3, 2] = math.nan, math.inf, 1e13
    t[4, 3], t[5, 3], t[6, 1], t[7, 1] = math.nan, math.inf, -0.1, -math.inf
    # A pair that earns nothing, of two entries between 0 and 1: its marginal is not determined.
    z[8, 1], z[8, 4], t[8, 0] = 0.5, -1.0, 0.0
    tight = solve_relaxation(z, t, 2, False)[2]
    assert tight.tolist() == [True] + 8 * [False]
    assert not solve_relaxation(z - 3, t, 4, True)[2].any()  # fewer than four: the budget is not spent
    for k in (0, 5):
        assert not solve_relaxation(z, t, k, False)[2].any()
    assert solve_relaxation(z[:0], t[:0], 2, False)[0].shape == (0, 5)
    with pytest.raises(ValueError, match=r"solve_relaxation: .*float32"):
        solve_relaxation(z.float(), t, 2, False)
    with pytest.raises(ValueError, match=r"solve_relaxation: .*\(9, 5\)"):
        solve_relaxation(z, z, 2, False)


def test_threads_change_nothing():
    z = torch.randn(37, 40, dtype=F64, generator=torch.Generator().manual_seed(2))
    t = torch.full((37, 39), 0.2, dtype=F64)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = solve_relaxation(z, t, 8, False)
        torch.set_num_threads(3)
        together = solve_relaxation(z, t, 8, False)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone[2], together[2])
    assert all(torch.equal(a[alone[2]], b[alone[2]]) for a, b in zip(alone[:2], together[:2], strict=True))
