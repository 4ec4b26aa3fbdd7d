"""Where expectation-maximisation starts, and the least variance it keeps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mixtures.clouds import GRID, cloud, double
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian, Mixture, fenchel_young_loss
from omegamax.mixtures import FixedDraws, weighted_em
from omegamax.mixtures._draws import StartDraws
from omegamax.mixtures._floor import hold_at_floor
from omegamax.mixtures._init import draw_seeds, split_boxes
from omegamax.mixtures._packed import pack, unpack
from omegamax.mixtures._points import check_points


def data(x: Tensor, w: Tensor):
    return check_points("test", x, w, None, None, 0.0).bring_to_frame()


def test_split_of_two_is_upper_and_lower_half():
    w = torch.rand(3, 64, dtype=double)
    p = weighted_em(GRID, w, 2, 0)
    upper = GRID[:, 1] < 0.5
    for k, half in enumerate((upper, ~upper)):
        part = w * half
        torch.testing.assert_close(p.weights[:, k], part.sum(-1) / w.sum(-1))
        torch.testing.assert_close(p.components.mean[:, k], part @ GRID / part.sum(-1, keepdim=True))


def test_split_of_four_is_quadrants():
    labels = split_boxes(data(GRID, torch.ones(64, dtype=double)), 4)
    expected = 2 * (GRID[:, 1] > 0.5).long() + (GRID[:, 0] > 0.5).long()
    assert labels.equal(expected)


@pytest.mark.parametrize("components", [1, 2, 3, 5, 6, 8, 13])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_split_makes_equal_parts(components: int, n: int):
    x = torch.rand(20000, n, dtype=double)
    counts = split_boxes(data(x, torch.ones(20000, dtype=double)), components).bincount(minlength=components)
    assert (counts * components / 20000 - 1).abs().max() < 0.12


def test_split_follows_the_weight():
    """Halves of where there is any, not of all positions."""
    w = torch.zeros(64, dtype=double)
    w[:16] = 1.0  # the two upper rows
    assert weighted_em(GRID, w, 2, 0).weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float32, double])
@pytest.mark.parametrize("shape", [(5, 7), (7, 9), (9, 9)])
@pytest.mark.parametrize("components", [2, 3, 4])
def test_rounding_does_not_say_on_which_side_of_a_cut_points_are(components, shape, dtype):
    """The middle row of a grid lies on the cut, and devices differ in the last digit of its position."""
    x = grid_positions(shape).to(dtype)
    w = torch.ones(len(x), dtype=dtype)
    wanted = split_boxes(data(grid_positions(shape).double(), w.double()), components)
    for other in (x, x.nextafter(x + 1), x.nextafter(x - 1), x + torch.finfo(dtype).eps * torch.randn_like(x)):
        assert split_boxes(data(other, w), components).equal(wanted)


@pytest.mark.parametrize("spread", [True, False])
def test_seeds_are_drawn_in_proportion(spread: bool):
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=double)
    w = torch.tensor([0.5, 0.3, 0.2], dtype=double)
    labels = draw_seeds(data(x, w), 2, 40000, spread, StartDraws(torch.Generator().manual_seed(0), 80000, x))
    # The labels tell the pair of seeds, but for their order, where no point is alone with both.
    together = {
        "01": (labels[:, 1] == labels[:, 2]) & (labels[:, 0] != labels[:, 1]),  # seeds 0 and 1, or 0 and 2: see below
        "12": (labels[:, 0] == labels[:, 1]) & (labels[:, 1] != labels[:, 2]),
    }
    w = w.tolist()
    d = [[abs(a - b) ** 2 if spread else 1.0 for b in (0, 1, 3)] for a in (0, 1, 3)]

    def pair(i: int, j: int) -> float:
        odds = [w[k] * d[i][k] for k in range(3) if k != i]
        return w[i] * w[j] * d[i][j] / sum(odds)

    only = pair(0, 1) + pair(1, 0)  # point 2 goes with 1; with seeds 0 and 2, point 1 goes with 0
    assert abs(together["01"].double().mean().item() - only) < 0.01
    assert abs(together["12"].double().mean().item() - (1 - only)) < 0.01


def test_seeds_differ_between_starts_and_examples():
    x, w = cloud(5)
    labels = draw_seeds(data(x, w), 3, 4, True, StartDraws(None, 60, x))
    assert labels.shape == (4, 5, 40) and labels.flatten(0, 1).unique(dim=0).shape[0] > 10


def test_generator_makes_starts_repeatable():
    x, w = cloud(2)
    a, b = (
        weighted_em(x, w, 3, 2, "kmeans++", generator=torch.Generator().manual_seed(7)).components.mean
        for _ in range(2)
    )
    assert a.equal(b)


def test_mixture_to_start_from_is_what_no_iteration_returns():
    x, w = cloud(2)
    start = weighted_em(x, w, 3, 4, alpha=2.0)
    again = weighted_em(x, w, 3, 0, start, alpha=2.0)
    torch.testing.assert_close(again.components.scale, start.components.scale)
    padded = Mixture(torch.tensor([1.0, 0.0, 0.0], dtype=double), start.components)
    assert (weighted_em(x, w, 3, 2, padded).weights[:, 1:] == 0).all()


# --- The floor


@pytest.mark.parametrize("size", [(14, 14), (9,), (100,), (4, 4, 4)])
def test_floor_is_the_variance_of_a_cell(size: tuple[int, ...]):
    x = grid_positions(size).to(double)
    found = data(x, torch.ones(len(x), dtype=double))
    torch.testing.assert_close((found.floor * found.unit**2).item(), 1 / (12 * size[0] ** 2), rtol=1e-5, atol=0)


def test_floor_does_not_depend_on_repetition_order_or_far_points():
    x = torch.rand(50, 2, dtype=double)
    found = data(x, torch.ones(50, dtype=double))
    expected = found.floor * found.unit**2
    assert 0.1 < expected.item() * 12 * 50 < 1.5
    for other in (x.repeat(3, 1), x.flip(0)):
        found = data(other, torch.ones(len(other), dtype=double))
        torch.testing.assert_close(found.floor * found.unit**2, expected)
    far = torch.cat([x, torch.full((1, 2), 1e4, dtype=double)])
    found = data(far, torch.ones(51, dtype=double))
    torch.testing.assert_close(found.floor * found.unit**2, expected, rtol=0.1, atol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0, 3.0])
def test_floored_covariance_is_the_best_above_the_floor(n: int, alpha: float):
    """No other covariance with all eigenvalues >= 1 has a smaller loss to points with that scatter."""
    torch.manual_seed(n)
    a = torch.randn(30, n, n, dtype=double) * torch.tensor([3.0, 1.0, 0.5, 0.2], dtype=double)[:n]
    scatter = a.mT @ a / n
    best = unpack(hold_at_floor(pack(scatter), torch.tensor(1.0, dtype=double), alpha - 1, n), n)
    assert (torch.linalg.eigvalsh(best) > 1 - 1e-9).all()

    def loss(cov: Tensor) -> Tensor:
        p = BetaGaussian.from_moments(torch.zeros(n, dtype=double), cov, alpha)
        root = torch.linalg.cholesky(scatter + 1e-12 * torch.eye(n, dtype=double)) * n**0.5
        x = torch.cat([root, -root], -1).movedim(-1, 0).unsqueeze(1)  # 2n points with just this scatter
        return fenchel_young_loss(p, x).mean(0)

    least = loss(best.unsqueeze(0))
    for scale in (0.01, 0.3, 3.0):
        step = scale * torch.randn(40, 30, n, n, dtype=double)
        values, vectors = torch.linalg.eigh(best + (step + step.mT) / 2)
        other = (vectors * values.clamp(min=1).unsqueeze(-2)) @ vectors.mT
        assert (loss(other) >= least - 1e-9).all()
    above = torch.linalg.eigvalsh(scatter)[:, 0] > 1
    torch.testing.assert_close(best[above], scatter[above])


def test_draws_are_those_of_the_generator_in_order():
    whole = torch.rand(12, dtype=double, generator=torch.Generator().manual_seed(3))
    draws = StartDraws(torch.Generator().manual_seed(3), 12, whole)
    assert torch.equal(draws.take((2, 1)), whole[:2].reshape(2, 1)) and torch.equal(draws.take((10,)), whole[2:])


def test_fixed_draws_are_the_same_in_each_call_and_nobody_can_change_them():
    like = torch.zeros((), dtype=double)
    first = StartDraws(FixedDraws(), 5, like).take((5,))
    kept = first.clone()
    first.zero_()
    before = torch.random.get_rng_state()
    assert torch.equal(StartDraws(FixedDraws(), 5, like).take((5,)), kept)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
def test_operator_of_fixed_draws_passes_the_checks_of_torch_library(grad: bool):
    like = torch.zeros(2, dtype=double, requires_grad=grad)
    torch.library.opcheck(torch.ops.omegamax.fixed_draws.default, (like, 5, 0))


@pytest.mark.parametrize("init", ["split", "kmeans++"])
def test_some_of_the_components_are_used(init: str):
    x, w = cloud(3)
    p = weighted_em(x, w, 3, 4, init, used=torch.tensor([1, 2, 3]), generator=torch.Generator().manual_seed(0))
    assert p.component_count.tolist() == [1, 2, 3]
    one = weighted_em(x[:1] if x.dim() == 3 else x, w[:1], 1, 4)
    torch.testing.assert_close(p.components.mean[0, 0], one.components.mean[0, 0])
    torch.testing.assert_close(p.components.covariance_matrix[0, 0], one.components.covariance_matrix[0, 0])


def test_used_is_refused_by_name():
    x, w = cloud(2)
    with pytest.raises(TypeError, match=r"weighted_em: used must be integers from 1 to 2, got torch\.float32"):
        weighted_em(x, w, 2, used=torch.ones(2))
    with pytest.raises(ValueError, match="weighted_em: used goes with an init by name, got a Mixture"):
        weighted_em(x, w, 2, init=weighted_em(x, w, 2), used=torch.tensor(1))
