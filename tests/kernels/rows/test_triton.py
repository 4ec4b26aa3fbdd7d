"""Triton's row kernels against plain torch in float64: on a GPU, or interpreted on small rows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from kernels.conftest import choose_as_if_long
from omegamax.kernels import tiles
from omegamax.kernels.rows import reference
from omegamax.kernels.rows.triton import launcher as rows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = (1, 2, 3, 17, 64, 1000, 4096, 30000) if DEVICE == "cuda" else (1, 3, 17)
# The interpreter multiplies infinities in lanes that are dropped.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(invalid value|overflow|divide by zero|All-NaN slice) encountered:RuntimeWarning"
)

INF = math.inf
ALPHAS = (0.5, 1.0, 1.001, 1.25, 4 / 3, 1.5, 1.9, 2.0, 3.0, 8.0, INF)
NORMS = (1.1, 1.5, 2.0, 5.0, 50.0, INF)
MAPS = [*(("entmax", alpha) for alpha in ALPHAS), *(("normmax", alpha) for alpha in NORMS)]


def exact(name: str, z: Tensor, alpha: float | Tensor) -> Tensor:
    return getattr(reference, name)(z.double(), alpha)


def scores(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


@pytest.mark.parametrize(("name", "alpha"), MAPS)
def test_probabilities(name: str, alpha: float):
    for size in SIZES:
        z = scores(5, size) * torch.tensor([0.1, 1.0, 10.0, 1.0, 1.0], device=DEVICE)[:, None]
        z[3] = z[3].round()  # ties
        z[4, : size // 2] = -INF
        p = getattr(rows, name)(z, alpha, 1)
        torch.testing.assert_close(p.double(), exact(name, z, alpha), rtol=0, atol=3e-7)


@pytest.mark.parametrize(("name", "alpha"), MAPS)
def test_edge_case_rows(name: str, alpha: float):
    z = scores(6, 9)
    z[0], z[1, 4], z[2, 0] = -INF, math.nan, INF
    z[3, 1:], z[4] = -INF, 1e30
    p = getattr(rows, name)(z, alpha, 1)
    assert torch.equal(p[0], torch.zeros_like(p[0]))
    assert bool(p[1:3].isnan().all())
    assert p[3, 0] == 1
    torch.testing.assert_close(p[4:].double(), exact(name, z[4:], alpha), rtol=0, atol=3e-7)


@pytest.mark.parametrize(("name", "alpha"), MAPS)
def test_gradient_at_the_same_probabilities(name: str, alpha: float):
    for size in SIZES:
        p = exact(name, scores(3, size), alpha).float()
        p[2] = 0
        g = torch.randn_like(p)
        g[1][p[1] == 0] = INF  # not looked at
        dz = getattr(rows, f"{name}_vjp")(p, g, alpha, 1)
        wanted = getattr(reference, f"{name}_vjp")(p.double(), g.nan_to_num(posinf=0.0).double(), alpha, 1)
        # Entries of J are p^(2 - alpha), up to 1e10 here for alpha = 8.
        torch.testing.assert_close(dz.double(), wanted, rtol=2e-5, atol=4e-7 * max(1, float(wanted.abs().max())))


@pytest.mark.parametrize("name", ["entmax", "normmax"])
def test_one_alpha_for_each_row(name: str):
    alpha = torch.tensor([1.5, 2.0, 1.2, 3.0, INF], device=DEVICE).reshape(1, 5, 1)
    z = scores(2, 5, 12)
    p = getattr(rows, name)(z, alpha, 2)
    torch.testing.assert_close(p.double(), exact(name, z, alpha.double()), rtol=0, atol=3e-7)
    g = torch.randn_like(z)
    dz = getattr(rows, f"{name}_vjp")(p, g, alpha, 2)
    wanted = getattr(reference, f"{name}_vjp")(p.double(), g.double(), alpha.double(), 2)
    torch.testing.assert_close(dz.double(), wanted, rtol=1e-5, atol=2e-6)


MANY = (1.0, 1.001, 1.02, 1.1, 1.25, 1.4, 1.5, 1.6, 1.8, 1.95, 2.0, 2.001, 3.0, INF, 0.5, 0.95)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_any_alphas_in_one_tensor(dtype: torch.dtype, scale: float):
    alpha = torch.tensor(MANY, device=DEVICE)[:, None]
    for size in SIZES:
        z = (scores(len(MANY), size) * scale).to(dtype)
        if size > 2:
            z[:, 1] = -INF
        p = rows.entmax(z, alpha, 1)
        assert p.dtype == dtype
        wanted = exact("entmax", z, alpha.double())
        torch.testing.assert_close(p.double(), wanted, rtol=0, atol=4e-7 if dtype == torch.float32 else 5e-4)
        assert size <= 2 or not bool(p[:, 1].any())


def test_edge_case_rows_with_an_alpha_each():
    alpha = torch.tensor(MANY, device=DEVICE)[:, None]
    for value in (math.nan, INF):
        z = scores(len(MANY), 9)
        z[:, 4] = value
        assert bool(rows.entmax(z, alpha, 1).isnan().all())
    z = torch.full((len(MANY), 9), -INF, device=DEVICE)
    assert not bool(rows.entmax(z, alpha, 1).any())
    z[:, 3] = 1e30
    assert bool((rows.entmax(z, alpha, 1) == (z > 0)).all())
    z = torch.full((len(MANY), 9), 1e30, device=DEVICE)
    torch.testing.assert_close(rows.entmax(z, alpha, 1), torch.full_like(z, 1 / 9), rtol=0, atol=4e-7)
    assert bool(rows.entmax(scores(2, 9), torch.full((2, 1), math.nan, device=DEVICE), 1).isnan().all())


def test_more_rows_of_other_alphas_than_a_program_takes(monkeypatch):
    """Programs that have several tiles to look through."""
    monkeypatch.setattr(rows, "tiles_per_program", lambda tiles, warps: 2)
    count = 2 * tiles.outside_tile(40, 4).rows * 3 - 5
    z = scores(count, 40)
    alpha = torch.full((count, 1), 1.7, device=DEVICE)
    alpha[3], alpha[count - 1] = 2.5, 0.8
    p = rows.entmax(z, alpha, 1)
    torch.testing.assert_close(p.double(), exact("entmax", z, alpha.double()), rtol=0, atol=4e-7)


@pytest.mark.parametrize(("seed", "row", "ties"), [(1, 229, False), (2, 202, False), (28, 175, False), (25, 248, True)])
def test_steps_that_would_leap_to_and_fro(seed: int, row: int, ties: bool):
    """Rows for which Halley's steps go past the solution and back for ever; alpha is about 1.5 to 1.9."""
    torch.manual_seed(seed)
    count, scale, low = (512, 1.3, 1.02) if ties else (256, 1.0, 1.05)
    z = (torch.randn(count, 200) * scale).masked_fill(torch.rand(count, 200) < 0.3, -INF)
    z = (z.round() if ties else z)[row : row + 1].to(DEVICE)
    alpha = torch.linspace(low, 2.0, count)[row : row + 1, None].to(DEVICE)
    wanted = exact("entmax", z, alpha.double())
    torch.testing.assert_close(rows.entmax(z, alpha, 1).double(), wanted, rtol=0, atol=4e-7)
    torch.testing.assert_close(rows.entmax(z, float(alpha), 1).double(), wanted, rtol=0, atol=4e-7)


@pytest.mark.parametrize("dim", [0, 2])
def test_gradient_in_alpha(dim: int):
    shape = [2, 6, 12]
    shape[dim] = 1
    alpha = torch.linspace(0.5, 3.5, math.prod(shape), device=DEVICE).reshape(shape)
    alpha.view(-1)[0], alpha.view(-1)[1] = 1.0, INF
    z = scores(2, 6, 12)
    p = rows.entmax(z, alpha, dim)
    g = torch.randn_like(z)
    got = rows.alpha_vjp(p, g, alpha, dim)
    assert got.shape == alpha.shape
    wanted = reference.alpha_vjp(p.double(), g.double(), alpha.double(), dim)
    torch.testing.assert_close(got.double(), wanted, rtol=2e-5, atol=1e-6)
    flat = rows.alpha_vjp(p, g, 1.5, dim)
    wanted = reference.alpha_vjp(p.double(), g.double(), 1.5, dim)
    torch.testing.assert_close(flat.double(), wanted, rtol=2e-5, atol=1e-6)


def test_gradient_in_alpha_of_ties_and_tiny_probabilities():
    """Where ``p^(2 - alpha)`` is huge, or nearly zero."""
    alpha = torch.tensor([0.1, 0.9, 1.0, 1.5, 2.0, 2.5, 5.0, 20.0, 100.0], device=DEVICE)[:, None]
    for row in ([0.961, 0.961, 0.961, 1.0], [0.5, 0.5, 0.5, 0.5], [0.0, -1.0, -60.0, -85.0], [0.5, 0.501, 0.499, 0.3]):
        z = torch.tensor(row, device=DEVICE).expand(len(alpha), 4).contiguous()
        p = exact("entmax", z, alpha.double()).float()
        g = torch.randn_like(p) + 5
        wanted = reference.alpha_vjp(p.double(), g.double(), alpha.double(), 1)
        torch.testing.assert_close(rows.alpha_vjp(p, g, alpha, 1).double(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0, 3.0, 20.0, 50.0, 500.0, INF])
def test_normmax_is_exact_at_its_margin(alpha: float):
    z = torch.tensor([[1.0, 0.0, -3.0, -INF], [3.5, 2.5, 2.5, 2.5], [0.0, -1.5, -2.0, -1.0]], device=DEVICE)
    wanted = torch.tensor([1.0, 0.0, 0.0, 0.0], device=DEVICE).expand(3, 4)
    assert torch.equal(rows.normmax(z, alpha, 1), wanted)
    assert torch.equal(rows.normmax(z, torch.full((3, 1), alpha, device=DEVICE), 1), wanted)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_axis(dim: int):
    z = scores(3, 4, 5)
    p = rows.entmax(z, 1.5, dim)
    assert p.is_contiguous()
    torch.testing.assert_close(p, rows.entmax(z.movedim(dim, -1).contiguous(), 1.5, 2).movedim(-1, dim))
    g = torch.randn_like(z)
    dz = rows.entmax_vjp(p, g, 1.5, dim)
    torch.testing.assert_close(dz.double(), reference.entmax_vjp(p.double(), g.double(), 1.5, dim), rtol=0, atol=4e-7)


@pytest.mark.parametrize("layout", ["slice", "transposed", "expanded", "offset"])
def test_any_layout(layout: str):
    whole = scores(6, 20)
    z = {
        "slice": whole[:, :7],
        "transposed": whole.T,
        "expanded": whole[:1].expand(4, 20),
        "offset": whole.flatten()[3:83].view(4, 20),
    }[layout]
    assert torch.equal(rows.entmax(z, 2.0, 1), rows.entmax(z.contiguous(), 2.0, 1))
    g = torch.randn(z.shape[0], 1, device=DEVICE).expand(z.shape)
    p = rows.entmax(z, 1.5, 1)
    assert torch.equal(rows.entmax_vjp(p, g, 1.5, 1), rows.entmax_vjp(p, g.contiguous(), 1.5, 1))


@pytest.mark.parametrize("alpha", [1.05, 1.12, 1.25, 1.3, 1.5, 1.8, 2.0, 2.0000002, 2.2, 3.0, INF])
@pytest.mark.parametrize("form", [(1, 4, 8, 1), (4, 8, 4, 1), (1, 1, 32, 1)])
def test_any_form_of_tile(monkeypatch, form: tuple[int, ...], alpha: float):
    monkeypatch.setattr(rows, "folded_tile", lambda size, itemsize, sparsemax=False: tiles.FoldedTile(*form))
    monkeypatch.setattr(rows, "any_alpha_tile", rows.folded_tile)
    monkeypatch.setattr(rows, "launch_again", lambda key, z: None)  # launches of the usual form
    z = scores(6, 30) * torch.tensor([0.001, 0.1, 1.0, 10.0, 1.0, 1.0], device=DEVICE)[:, None]
    z[4] = z[4].round()
    z[5, :20] = -INF
    p = rows.entmax(z, alpha, 1)
    torch.testing.assert_close(p.double(), exact("entmax", z, alpha), rtol=0, atol=3e-7)


ABOVE_TWO = (2.0000002, 2.001, 2.3, 3.0, 6.0, 30.0, 1e6, INF)


def supports_beyond_two() -> Tensor:
    """Rows of 40 whose support is hard to tell: many entries of a group, ties in it and at its edge, far decades."""
    z = torch.linspace(-1, 0, 40).repeat(9, 1) * torch.tensor([0.01, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None]
    z[3] = 0
    z[4] = (8 * z[4]).round() / 8
    z[5], z[5, 7] = -0.1, 0.0  # ties below a leader
    z[6], z[6, 7] = -0.1 * (1 + 1e-6 * torch.arange(40)), 0.0  # and nearly ties
    z[7] = -(10.0 ** torch.linspace(-30, 1, 40))
    z[8] = -1e30
    z[8, 30:33] = 1e30
    return z.to(DEVICE)


@pytest.mark.parametrize("alpha", ABOVE_TWO)
def test_supports_of_alphas_above_two(alpha: float):
    z = supports_beyond_two()
    for alphas in (alpha, torch.full((len(z), 1), alpha, device=DEVICE)):
        p = rows.entmax(z, alphas, 1)
        torch.testing.assert_close(p.double(), exact("entmax", z, alpha), rtol=0, atol=4e-7)


@pytest.mark.parametrize("alpha", [2.5, 3.0, 9.0])
@pytest.mark.parametrize("beside", [-1e-4, 0.0, 1e-4])
def test_entry_at_the_edge_of_the_support(alpha: float, beside: float):
    """The score at which a leader leaves nothing is -1 / (alpha - 1): next to it the probability is a tiny root."""
    z = torch.full((1, 40), -3.0, device=DEVICE)
    z[0, 3], z[0, 4:9] = 0.0, -1 / (alpha - 1) * (1 - beside)
    p = rows.entmax(z, alpha, 1)
    torch.testing.assert_close(p.double(), exact("entmax", z, alpha), rtol=0, atol=4e-7)
    assert beside == 0 or bool((p[0, 4:9] > 0).all()) == (beside > 0)


def test_alpha_within_rounding_of_an_exact_one():
    """Exponents next to 1, 2 and 3 are compiled as these."""
    z = scores(4, 17)
    for alpha in (2 - 1e-9, 1.5 + 1e-9, 1.5 - 1e-9, 4 / 3 + 1e-9):
        torch.testing.assert_close(rows.entmax(z, alpha, 1).double(), exact("entmax", z, alpha), rtol=0, atol=3e-7)


def test_more_rows_than_a_program_takes():
    count = tiles.folded_tile(16, 4).rows
    assert count > 1
    z = scores(count + 1, 16)
    p = rows.entmax(z, 2.0, 1)
    torch.testing.assert_close(p.double(), exact("entmax", z, 2.0), rtol=0, atol=3e-7)
    for row in (0, count - 1, count):
        assert torch.equal(p[row], rows.entmax(z[row : row + 1], 2.0, 1)[0])


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter keeps no launches")
def test_kept_launches():
    z, g = scores(8, 64), scores(8, 64)
    p = rows.entmax(z, 1.5, 1)
    dz = rows.entmax_vjp(p, g, 1.5, 1)
    for _ in range(2):
        assert torch.equal(rows.entmax(z, 1.5, 1), p)
        assert torch.equal(rows.entmax_vjp(p, g, 1.5, 1), dz)
    misaligned = torch.empty(513, device=DEVICE)[1:].view(8, 64).copy_(z)  # less aligned than what was kept
    assert misaligned.data_ptr() % 16 != 0
    assert torch.equal(rows.entmax(misaligned, 1.5, 1), p)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
        other = rows.entmax(z, 1.5, 1)
        torch.cuda.synchronize()
    assert torch.equal(other, p)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = rows.entmax(z, 1.5, 1)
    z.copy_(g)
    graph.replay()
    assert torch.equal(replayed, rows.entmax(g, 1.5, 1))


def test_no_rows():
    assert rows.entmax(scores(0, 5), 1.5, 1).shape == (0, 5)
    assert rows.entmax_vjp(scores(0, 5), scores(0, 5), 1.5, 1).shape == (0, 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1.0, 4 / 3, 1.5, 2.0])
def test_half_precision_is_one_rounding_of_float32(dtype: torch.dtype, alpha: float):
    if DEVICE == "cpu" and dtype is torch.bfloat16:
        pytest.skip("the interpreter does not round to bfloat16, it cuts off")
    z = scores(4, 33).to(dtype)
    p = rows.entmax(z, alpha, 1)
    assert p.dtype == dtype
    assert torch.equal(p, rows.entmax(z.float(), alpha, 1).to(dtype))
    g = torch.randn_like(z)
    assert torch.equal(rows.entmax_vjp(p, g, alpha, 1), rows.entmax_vjp(p.float(), g.float(), alpha, 1).to(dtype))


def test_double_precision_stays_double():
    z = scores(2, 6).double()
    assert torch.equal(rows.entmax(z, 1.3, 0), reference.entmax(z.T, 1.3).T)


@pytest.fixture
def long_rows(monkeypatch, run_time_loops):
    """Rows of more than 8 entries count as long, and are read 4 at a time."""
    if DEVICE == "cpu":
        monkeypatch.setattr(rows, "choose", choose_as_if_long)
        monkeypatch.setattr(rows, "LONG_BLOCK", tiles.Tile(1, 4, 1))
        monkeypatch.setattr(rows, "candidate_blocks", lambda size, power: tiles.Blocks(2, 4, 1))
        monkeypatch.setattr(rows, "LONG_BLOCKS", tiles.Blocks(2, 4, 1))
        monkeypatch.setattr(rows, "MAX_CANDIDATES", {False: 16, True: 16})  # two groups
        monkeypatch.setattr(rows, "listed_entries", lambda size, groups: 8)


LONG = 70001 if DEVICE == "cuda" else 18


@pytest.mark.parametrize(
    ("name", "alpha"),
    [
        *(("entmax", a) for a in (0.5, 1.0, 1.02, 1.25, 1.5, 2.0, 2.1, 3.0, INF)),
        *(("normmax", a) for a in (1.5, 2.0, 5.0, INF)),
    ],
)
def test_long_rows(long_rows, name: str, alpha: float):
    z = scores(7, LONG) * torch.tensor([0.1, 1.0, 10.0, 1.0, 1.0, 1.0, 1.0], device=DEVICE)[:, None]
    z[3, : LONG - 5] = -INF
    z[4], z[5, 3], z[6, LONG - 1] = -INF, math.nan, INF
    p = getattr(rows, name)(z, alpha, 1)
    assert bool(p[5:].isnan().all())
    torch.testing.assert_close(p[:5].double(), exact(name, z[:5], alpha), rtol=0, atol=4e-7)
    p = p[:5]
    g = torch.randn_like(p)
    dz = getattr(rows, f"{name}_vjp")(p, g, alpha, 1)
    wanted = getattr(reference, f"{name}_vjp")(p.double(), g.double(), alpha, 1)
    torch.testing.assert_close(dz.double(), wanted, rtol=2e-5, atol=4e-7 * max(1, float(wanted.abs().max())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1.25, 1.3, 1.5, 2.0])
def test_long_rows_are_right_however_many_entries_are_listed(long_rows, alpha: float, dtype: torch.dtype):
    """Few: their groups are listed; more, in more groups than there is room for: they themselves; else none is."""
    sizes = torch.tensor([1, 2, 3, 5, 8, 9, LONG] if DEVICE == "cpu" else [1, 250, 300, 2000, 2100, 9000, LONG])
    rank = torch.stack([torch.randperm(LONG) for _ in sizes])
    z = torch.where(rank < sizes[:, None], 1e-4 * torch.randn(len(sizes), LONG), -50.0).to(DEVICE, dtype)
    z[:, 1] = -INF
    p = rows.entmax(z, alpha, 1)
    wanted = exact("entmax", z, alpha)
    slack = {"rtol": 0, "atol": 4e-7} if dtype is torch.float32 else {"rtol": 2**-8, "atol": 1e-7}
    torch.testing.assert_close(p.double(), wanted.double(), **slack)
    assert torch.equal(p > 0, wanted > 0)


@pytest.mark.parametrize("alpha", ABOVE_TWO)
def test_supports_of_alphas_above_two_in_long_rows(long_rows, alpha: float):
    z = supports_beyond_two()
    z = z if DEVICE == "cpu" else torch.cat([z, z[:, :1].expand(len(z), 40000) - 5], 1)
    torch.testing.assert_close(rows.entmax(z, alpha, 1).double(), exact("entmax", z, alpha), rtol=0, atol=4e-7)


@pytest.mark.slow
def test_long_rows_with_an_alpha_each(long_rows):
    z, alpha = scores(len(MANY), LONG), torch.tensor(MANY, device=DEVICE)[:, None]
    z[:, 2] = -INF
    p = rows.entmax(z, alpha, 1)
    torch.testing.assert_close(p.double(), exact("entmax", z, alpha.double()), rtol=0, atol=4e-7)
    for value, wanted in ((math.nan, True), (-INF, False)):
        p = rows.entmax(torch.full_like(z, value), alpha, 1)
        assert bool(p.isnan().all()) == wanted
        assert wanted or not bool(p.any())
    z, alpha = scores(3, LONG), torch.tensor([[1.5], [2.0], [3.0]], device=DEVICE)
    p = rows.normmax(z, alpha, 1)
    torch.testing.assert_close(p.double(), exact("normmax", z, alpha.double()), rtol=0, atol=4e-7)


@pytest.mark.skipif(DEVICE == "cpu", reason="too long for the interpreter")
@pytest.mark.parametrize("size", [40000, 1000003])
@pytest.mark.parametrize("lead", [0.0, 0.1, 0.9])
def test_flat_long_rows_are_right_by_total_variation(size: int, lead: float):
    alphas = torch.tensor([0.5, 1.0, 1.1, 1.3, 1.5, 1.75, 1.9, 1.999, 2.0, 3.0], device=DEVICE)[:, None]
    z = 1e-6 * scores(len(alphas), size) if lead == 0 else torch.zeros(len(alphas), size, device=DEVICE)
    z[:, 3] += lead
    p = rows.entmax(z, alphas, 1)
    error = (p.double() - exact("entmax", z, alphas)).abs().sum(-1)
    assert error.max() < 8e-6, error.tolist()
