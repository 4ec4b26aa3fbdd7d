"""Losses by kernels that store no probabilities: on a GPU, or interpreted on small rows, against plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", minversion="3.4")

from kernels.conftest import choose_as_if_long

import omegamax
from omegamax import kernels
from omegamax.kernels.losses.triton import launcher as loss
from omegamax.losses import _rows
from omegamax.maps import Tsallis
from omegamax.maps.conjugate import conjugate_minus

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INF = math.inf
ALPHAS = (0.5, 1.0, 1.2, 4 / 3, 1.5, 2.0, 3.0, INF)
# The interpreter multiplies infinities in lanes that are dropped.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning")


@pytest.fixture(params=["short", "long"])
def size(request, monkeypatch) -> int:
    """Entries of rows that fit into a program, or that do not; interpreted, more than 8 do not."""
    if request.param == "short":
        return 3000 if DEVICE == "cuda" else 13
    if DEVICE == "cpu":
        monkeypatch.setattr(loss, "choose", choose_as_if_long)
        monkeypatch.setattr(loss, "LONG_BLOCK", 4)
        monkeypatch.setattr(loss, "VJP_BLOCK", 16)
    return 70001 if DEVICE == "cuda" else 45


@pytest.fixture
def fused(monkeypatch) -> None:
    """The public losses use the kernels here too."""
    if DEVICE == "cpu":
        monkeypatch.setattr(kernels, "takes_half", lambda op, z: op == "entmax_loss")


def rows(size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Scores wide, narrow, tied, masked and far from zero, and classes."""
    z = torch.randn(6, size, device=DEVICE) * torch.tensor([1, 10, 0.1, 1, 1, 1], device=DEVICE)[:, None]
    z[3] = z[3].round()
    z[4, : size // 2] = -INF
    z[5] += 1000
    index = torch.randint(size, (6,), device=DEVICE)
    index[4] = size - 1
    return z.to(dtype), index


def exact(z: Tensor, index: Tensor, alpha, smoothing: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Values and their derivatives, in float64."""
    z = z.double().requires_grad_()
    alpha = torch.as_tensor(alpha, dtype=torch.float64, device=z.device).reshape(-1, 1).expand(len(z), 1).clone()
    value = conjugate_minus(Tsallis(alpha.requires_grad_()), z, index, smoothing=smoothing)
    return (value.detach(), *torch.autograd.grad(value.sum(), (z, alpha)))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_value_and_gradient(size: int, alpha: float):
    z, index = rows(size)
    value, state, slope = loss.entmax_loss(z, index, alpha, 0.0, False)
    wanted, dz, _ = exact(z, index, alpha)
    assert slope.numel() == 0
    torch.testing.assert_close(value.double(), wanted, rtol=4e-7, atol=1e-6)
    g = torch.randn(len(z), device=DEVICE)
    found = loss.entmax_loss_vjp(z, index, state, g, alpha, 0.0, False)
    torch.testing.assert_close(found.double(), g[:, None] * dz, rtol=0, atol=6e-7)
    again = loss.entmax_loss_vjp(z, index, state, g, alpha, 0.0, True)
    assert again is z and torch.equal(again, found)


@pytest.mark.parametrize("steep", [False, True])
def test_one_alpha_for_each_row(size: int, steep: bool):
    z, index = rows(size)
    z = z.clamp(min=-4)
    alpha = torch.tensor([1.5, 2.0, 1.0, INF if steep else 1.3, 4.0 if steep else 0.7, 1.001], device=DEVICE)
    value, state, slope = loss.entmax_loss(z, index, alpha, 0.1, True)
    wanted, dz, d_alpha = exact(z, index, alpha, 0.1)
    torch.testing.assert_close(value.double(), wanted, rtol=4e-7, atol=1e-6)
    # A power of 1 / (alpha - 1) of what is known to 1e-7.
    torch.testing.assert_close(slope.double(), d_alpha[:, 0], rtol=2e-6, atol=2e-6)
    found = loss.entmax_loss_vjp(z, index, state, torch.ones_like(value), alpha, 0.1, False)
    torch.testing.assert_close(found.double(), dz, rtol=0, atol=6e-7)


@pytest.mark.parametrize("alpha", [1.0, 4 / 3, 1.5, 2.0, 3.0, INF, "rows", "steep rows"])
def test_edge_case_rows(size: int, alpha):
    z, index = rows(size)
    if not isinstance(alpha, float):
        alpha = torch.full((6,), 3.0 if alpha == "steep rows" else 1.3, device=DEVICE)
    z[0], z[1, 4], z[2, 3], z[3, 0] = -INF, math.nan, INF, -INF
    index[3] = 0
    value, state, _ = loss.entmax_loss(z, index, alpha, 0.0, False)
    assert value[0] == value[3] == INF
    assert bool(value[1:3].isnan().all())
    g = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0], device=DEVICE)
    dz = loss.entmax_loss_vjp(z, index, state, g, alpha, 0.0, False)
    assert dz[0].sum() == -1 and dz[0, index[0]] == -1
    assert bool(dz[1].isnan().all())
    assert not bool(dz[2].any())  # left out, and so is its NaN
    assert bool(dz[3:].isfinite().all())


def test_steep_rows_with_many_entries_in_the_support(size: int):
    """Long rows of which what is kept does not tell the support, so that they are read again; ties, masks, far away."""
    z, index = rows(size)
    z /= 1000
    z[5] = z[0] + 1000
    alpha = torch.tensor([2.01, 2.5, 3.0, 40.0, 6.0, INF], device=DEVICE)
    value, state, slope = loss.entmax_loss(z, index, alpha, 0.0, True)
    wanted, dz, d_alpha = exact(z, index, alpha)
    torch.testing.assert_close(value.double(), wanted, rtol=4e-7, atol=1e-6)
    torch.testing.assert_close(slope.double(), d_alpha[:, 0], rtol=2e-6, atol=2e-6)
    found = loss.entmax_loss_vjp(z, index, state, torch.ones_like(value), alpha, 0.0, False)
    torch.testing.assert_close(found.double(), dz, rtol=0, atol=6e-7)
    lists = loss.list_support(z, index, state, torch.ones_like(value), alpha, loss.SupportLists.empty(z, size))
    for i, count in enumerate(lists.counts.tolist()):
        listed = torch.zeros(size, device=DEVICE).index_put_((lists.columns[i, :count],), lists.values[i, :count])
        assert torch.equal(listed, found[i])


@pytest.mark.parametrize("alpha", [1.5, 2.0, 2.5, 3.0])
def test_an_entry_that_is_dropped_and_in_the_support(size: int, alpha: float):
    """Of long rows four entries are kept for each position in a block; here a fifth is little below them."""
    z = torch.full((1, size), -10.0, device=DEVICE)
    z[0, torch.arange(5) * loss.LONG_BLOCK % size] = torch.tensor([0.0, 0.0, 0.0, 0.0, -0.01], device=DEVICE)
    index = torch.zeros(1, dtype=torch.long, device=DEVICE)
    value, state, _ = loss.entmax_loss(z, index, alpha, 0.0, False)
    wanted, dz, _ = exact(z, index, alpha)
    torch.testing.assert_close(value.double(), wanted, rtol=4e-7, atol=1e-6)
    found = loss.entmax_loss_vjp(z, index, state, torch.ones_like(value), alpha, 0.0, False)
    torch.testing.assert_close(found.double(), dz, rtol=0, atol=6e-7)


def test_flat_rows_have_all_entries_in_the_support(size: int):
    z, index = torch.zeros(2, size, device=DEVICE), torch.zeros(2, dtype=torch.long, device=DEVICE)
    for alpha in (1.0, 1.5, 2.0, 3.0):
        value, state, _ = loss.entmax_loss(z, index, alpha, 0.0, False)
        torch.testing.assert_close(value.double(), exact(z, index, alpha)[0], rtol=4e-7, atol=1e-6)
        dz = loss.entmax_loss_vjp(z, index, state, torch.ones_like(value), alpha, 0.0, False)
        torch.testing.assert_close(dz[:, 1:] * size, torch.ones_like(dz[:, 1:]), rtol=3e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_one_rounding_of_float32(size: int, dtype: torch.dtype):
    if DEVICE == "cpu" and dtype is torch.bfloat16:
        pytest.skip("the interpreter does not round to bfloat16, it cuts off")
    z, index = rows(size, dtype)
    for alpha in (4 / 3, 1.5, 2.0):
        value, state, _ = loss.entmax_loss(z, index, alpha, 0.0, False)
        assert value.dtype is torch.float32
        assert torch.equal(value, loss.entmax_loss(z.float(), index, alpha, 0.0, False)[0])
        g = torch.ones_like(value)
        dz = loss.entmax_loss_vjp(z, index, state, g, alpha, 0.0, False)
        assert dz.dtype == dtype
        assert torch.equal(dz, loss.entmax_loss_vjp(z.float(), index, state, g, alpha, 0.0, False).to(dtype))


def test_any_layout_and_no_rows():
    whole = torch.randn(4, 20, device=DEVICE)
    index = torch.tensor([0, 1, 2, 3], device=DEVICE)
    given = [loss.entmax_loss(z, index, 1.5, 0.0, False)[:2] for z in (whole[:, :7], whole[:, :7].contiguous())]
    assert torch.equal(given[0][0], given[1][0])
    g = torch.ones(4, device=DEVICE)
    loss.entmax_loss_vjp(whole[:, :7], index, given[0][1], g, 1.5, 0.0, True)
    torch.testing.assert_close(whole[:, :7].sum(1), torch.zeros(4, device=DEVICE), rtol=0, atol=1e-6)
    empty = loss.entmax_loss(whole[:0], index[:0], 1.5, 0.0, True)
    assert [tuple(t.shape) for t in empty] == [(0,), (0, 3), (0,)]
    assert loss.entmax_loss_vjp(whole[:0], index[:0], empty[1], g[:0], 1.5, 0.0, False).shape == (0, 20)


@pytest.mark.parametrize(
    ("alpha", "smoothing"), [(1.0, 0.0), (4 / 3, 0.1), (1.5, 0.0), (2.0, 0.1), (3.0, 0.0), ("rows", 0.1)]
)
def test_probabilities_as_target(size: int, alpha, smoothing: float):
    z, _ = rows(size)
    z = z.clamp(min=-4) if smoothing else z
    y = omegamax.sparsemax(torch.randn_like(z))
    y[4] = 0
    y[4, -1] = 1
    if alpha == "rows":
        alpha = torch.tensor([1.5, 2.0, 1.0, 1.3, 1.2, 1.9], device=DEVICE)
    by_row = torch.as_tensor(alpha, dtype=torch.float64, device=DEVICE).reshape(-1, 1).expand(len(z), 1).clone()
    exact, by_row = z.double().requires_grad_(), by_row.requires_grad_()
    smooth = (1 - smoothing) * y.double() / y.double().sum(-1, keepdim=True) + smoothing / size
    wanted = omegamax.fenchel_young_loss(exact, smooth, Tsallis(by_row), "none")
    dz, d_alpha = torch.autograd.grad(wanted.sum(), (exact, by_row))
    learnt = isinstance(alpha, Tensor)
    value, state, slope = loss.entmax_loss(z, y, alpha, smoothing, learnt)
    torch.testing.assert_close(value.double(), wanted, rtol=1e-6, atol=2e-6)
    found = loss.entmax_loss_vjp(z, y, state, torch.ones_like(value), alpha, smoothing, False)
    torch.testing.assert_close(found.double(), dz, rtol=0, atol=6e-7)
    if learnt:
        torch.testing.assert_close(slope.double(), d_alpha[:, 0], rtol=2e-6, atol=2e-6)


def test_loss_of_the_map_itself_is_none(size: int):
    z, _ = rows(size)
    z[4] = z[4].clamp(min=-3)
    for alpha in (4 / 3, 1.5, 2.0):
        value, _, _ = loss.entmax_loss(z, omegamax.entmax(z, alpha), alpha, 0.0, False)
        assert value.abs().max() < 2e-6
    y = omegamax.entmax15(z)
    y[0, y[0].argmax()] = -1.0  # a target that sums to less than one
    z[0] += 100
    value, _, _ = loss.entmax_loss(z, y, 1.5, 0.0, False)
    y, z = y.double(), z.double()
    torch.testing.assert_close(value[0].double(), _gap(z[0], y[0]), rtol=1e-6, atol=1e-5)
    # A score that is absent costs what the target has there.
    z[1, 0], y[1] = -INF, 1 / size
    assert loss.entmax_loss(z.float(), y.float(), 1.5, 0.0, False)[0][1] == INF


def _gap(z: Tensor, y: Tensor) -> Tensor:
    """The loss of 1.5-entmax as it is defined, for a target of any sum; negative entries count for nothing."""
    p, power = omegamax.entmax15(z), 4 / 3
    return (
        (p * z).sum()
        - (y * z).sum()
        - power * (p.pow(1.5).sum() - p.sum())
        + power * (y.clamp(min=0).pow(1.5) - y).sum()
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "weight": True}])
def test_public_loss_is_that_of_plain_torch(fused, reduction: str, options: dict):
    z = torch.randn(4, 9, 2, device=DEVICE, requires_grad=True)
    alpha = torch.tensor([1.3, 2.5], device=DEVICE).reshape(1, 1, 2).requires_grad_()
    target = torch.randint(9, (4, 2), device=DEVICE)
    target[2, 1] = -100
    options = {**options, "reduction": reduction}
    if options.get("weight"):
        options["weight"] = torch.rand(9, device=DEVICE)
    for a in (1.5, alpha):
        found = omegamax.entmax_loss(z, target, a, **options)
        exact_options = {k: v.double() if isinstance(v, Tensor) else v for k, v in options.items()}
        wanted = omegamax.entmax_loss(z.double(), target, a.double() if isinstance(a, Tensor) else a, **exact_options)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
        inputs = (z, alpha) if a is alpha else (z,)
        g = torch.rand_like(found)
        for ours, theirs in zip(
            torch.autograd.grad(found, inputs, g), torch.autograd.grad(wanted, inputs, g.double()), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)


def test_no_probabilities_are_kept(fused):
    z = torch.randn(4, 9, device=DEVICE, requires_grad=True)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        omegamax.entmax_loss(z, torch.zeros(4, dtype=torch.long, device=DEVICE))
    assert [t for t in saved if t.numel() >= z.numel() and t.data_ptr() != z.data_ptr()] == []


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_public_loss_takes_probabilities(fused, reduction: str):
    z = torch.randn(4, 9, 2, device=DEVICE, requires_grad=True)
    y = torch.rand(4, 9, 2, device=DEVICE).softmax(1)
    alpha = torch.tensor([1.3, 2.5], device=DEVICE).reshape(1, 1, 2).requires_grad_()
    options = {"reduction": reduction, "label_smoothing": 0.1}
    found = omegamax.entmax_loss(z, y, alpha, **options)
    wanted = omegamax.entmax_loss(z.double(), y.double(), alpha.double(), **options)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
    g = torch.rand_like(found)
    ours, theirs = (torch.autograd.grad(loss, (z, alpha), g.to(loss.dtype)) for loss in (found, wanted))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
    learnt = y.requires_grad_()
    value = omegamax.entmax_loss(z, learnt, alpha)
    assert torch.autograd.grad(value, learnt)[0].isfinite().all()  # a target that learns goes the long way


def test_second_derivatives_go_through_the_map(fused):
    z = torch.randn(3, 6, device=DEVICE, requires_grad=True)
    alpha = torch.tensor(1.4, device=DEVICE, requires_grad=True)
    index = torch.tensor([0, 2, 5], device=DEVICE)
    double = [x.detach().double().requires_grad_() for x in (z, alpha)]
    found = []
    y = torch.rand(3, 6, device=DEVICE).softmax(-1)
    for inputs in ((z, alpha), double):
        for target in (index, y.to(inputs[0].dtype)):
            first = torch.autograd.grad(omegamax.entmax_loss(inputs[0], target, inputs[1]), inputs, create_graph=True)
            found.append((*first, *torch.autograd.grad(first[0].square().sum() + first[1], inputs)))
    for ours, theirs in zip((*found[0], *found[1]), (*found[2], *found[3]), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


def test_maps_over_rows_and_forward_derivatives_go_the_long_way(fused):
    z, index = torch.randn(3, 6, device=DEVICE), torch.tensor([0, 2, 5], device=DEVICE)
    each = torch.func.vmap(torch.func.grad(lambda z, y: omegamax.entmax_loss(z, y, 1.5)))(z, index)
    wanted = omegamax.entmax15(z) - torch.nn.functional.one_hot(index, 6)
    torch.testing.assert_close(each, wanted, rtol=0, atol=1e-6)
    _, moved = torch.func.jvp(lambda z: omegamax.entmax_loss(z, index, reduction="sum"), (z,), (z,))
    torch.testing.assert_close(moved, (wanted * z).sum(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("learnt", [False, True])
def test_it_compiles_into_one_graph(fused, learnt: bool):
    z = torch.randn(3, 6, device=DEVICE, requires_grad=True)
    alpha = torch.tensor(1.4, device=DEVICE, requires_grad=True) if learnt else 1.5
    index = torch.tensor([0, 2, 5], device=DEVICE)
    torch.compiler.reset()
    compiled = torch.compile(omegamax.entmax_loss, fullgraph=True, backend="aot_eager")
    inputs = (z, alpha) if learnt else (z,)
    value, wanted = compiled(z, index, alpha), omegamax.entmax_loss(z, index, alpha)
    torch.testing.assert_close(value, wanted)
    for ours, theirs in zip(torch.autograd.grad(value, inputs), torch.autograd.grad(wanted, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_plain_tensors_do_without_the_operations(fused, monkeypatch):
    for name in ("_loss", "_loss_vjp"):  # whose first call imports a compiler, for seconds
        monkeypatch.setattr(getattr(_rows, name), "op", None)
    z, index = torch.randn(3, 6, device=DEVICE, requires_grad=True), torch.tensor([0, 2, 5], device=DEVICE)
    wanted = omegamax.entmax15(z.detach()) - torch.nn.functional.one_hot(index, 6)
    omegamax.entmax15_loss(z, index, reduction="sum").backward()
    torch.testing.assert_close(z.grad, wanted, rtol=0, atol=1e-6)


def test_operations_keep_the_rules_of_torch(fused):
    z = torch.randn(3, 6, device=DEVICE)
    index = torch.tensor([0, 2, 5], device=DEVICE)
    tests = ("test_schema", "test_faketensor")
    arguments = (z, index, None, 1.5, 0.0, False)
    torch.library.opcheck(torch.ops.omegamax.entmax_loss_rows.default, arguments, test_utils=tests)
    _, state, _ = torch.ops.omegamax.entmax_loss_rows(*arguments)
    backward = (z, index, state, torch.ones(3, device=DEVICE), None, 1.5, 0.0)
    torch.library.opcheck(torch.ops.omegamax.entmax_loss_rows_vjp.default, backward, test_utils=tests)
