"""Contexts over the plane in one operation, on a GPU or interpreted, against the way by way of densities."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

pytest.importorskip("triton", minversion="3.4")

import omegamax
from nn.launches import launched as launched
from omegamax import kernels
from omegamax.basis import GaussianRBF, TruncatedParaboloidRBF
from omegamax.kernels import _dispatch
from omegamax.nn import ContinuousAttention, MultimodalAttention
from omegamax.nn._plane_table import PlaneTables

F32, F64 = torch.float32, torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PLANE = GaussianRBF.grid(3, 2, 0.05, dtype=F64).to(DEVICE)
pytestmark = [
    pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning"),
    pytest.mark.usefixtures("launched"),
]


def make(components: int, alpha: float = 1.0, **settings: Any) -> torch.nn.Module:
    """Continuous attention with no components, multimodal with some; values on a grid of 12 cells."""
    settings = {"positions": (3, 4), **settings}
    basis = copy.deepcopy(PLANE)
    if components == 0:
        return ContinuousAttention(basis, alpha, **settings)
    return MultimodalAttention(basis, components, alpha, iterations=1, **settings)


def draw(*batch: int, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    values, weights = torch.randn(*batch, 12, 2, dtype=F64), torch.rand(*batch, 12, dtype=F64)
    return values.to(DEVICE, dtype), weights.to(DEVICE, dtype)


def find(layer: torch.nn.Module, values: Tensor, weights: Tensor) -> Any:
    return layer._find_table(values, weights)


def both_ways(patch: pytest.MonkeyPatch, call: Any) -> tuple[Any, Any]:
    """Return what a call gives in one operation and without it."""
    ours = call()
    with patch.context() as without:
        without.setattr(PlaneTables, "find", lambda *given: None)
        return ours, call()


def gradients(layer: torch.nn.Module, values: Tensor, weights: Tensor, wanted: str) -> tuple[Tensor, ...]:
    """Return the context and the gradients of sums that hang on it, on the density, or on both."""
    values, weights = values.detach().requires_grad_(), weights.detach().requires_grad_()
    context, density = layer(values, weights)
    generator = torch.Generator(DEVICE).manual_seed(0)
    parts = {"context": [context], "mean": [density.mean], "covariance": [density.covariance_matrix]}
    parts["all"] = [t for part in parts.values() for t in part]
    total = sum(
        (torch.randn(t.shape, generator=generator, device=DEVICE) * t).nan_to_num().sum() for t in parts[wanted]
    )
    given = (values, weights) if wanted in ("context", "all") else (weights,)
    return (context, density.mean, density.covariance_matrix, *torch.autograd.grad(total, given))


# The interpreter takes its time over the integrals of several components.
LAYERS = [
    pytest.param(components, alpha, marks=[pytest.mark.slow] if components == 2 and alpha > 1 else [])
    for components in (0, 1, 2)
    for alpha in (1.0, 1.5, 2.0)
]


@pytest.mark.parametrize("wanted", ["context", "mean", "covariance", "all"])
@pytest.mark.parametrize("components, alpha", LAYERS)
def test_values_and_gradients(monkeypatch, components, alpha, wanted):
    layer = make(components, alpha)
    given = draw(3)
    assert find(layer, *given) is not None
    ours, others = both_ways(monkeypatch, lambda: gradients(layer, *given, wanted))
    torch.testing.assert_close(ours, others, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (2, 1), (2, 3), (0,)])
@pytest.mark.parametrize("components", [0, 1, 2])
def test_batches(monkeypatch, components, batch):
    layer, given = make(components), draw(*batch)
    ours, others = both_ways(monkeypatch, lambda: gradients(layer, *given, "all"))
    torch.testing.assert_close(ours, others, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("components", [0, 1, 2])
def test_rows_that_are_lost(monkeypatch, components):
    layer, (values, weights) = make(components), draw(5)
    weights[0], weights[1, 0], weights[2, 3] = 0.0, torch.nan, torch.inf
    ours, others = both_ways(monkeypatch, lambda: gradients(layer, values, weights, "all"))
    torch.testing.assert_close(ours, others, rtol=1e-11, atol=1e-12, equal_nan=True)
    assert (ours[0][0] == 0).all() and ours[0][1:3].isnan().all() and (ours[-1][:3] == 0).all()


@pytest.mark.parametrize("kinds", [(torch.float16, F32), (F32, torch.bfloat16), (torch.bfloat16,) * 2])
@pytest.mark.parametrize("components", [0, 2])
def test_half_precision_is_computed_in_single(monkeypatch, components, kinds):
    layer, (values, weights) = make(components), draw(3)
    given = values.to(kinds[0]), weights.to(kinds[1])
    ours, others = both_ways(monkeypatch, lambda: gradients(layer, *given, "context"))
    assert ours[0].dtype == ours[-2].dtype == kinds[0] and ours[-1].dtype == kinds[1]
    for mine, theirs in zip(ours, others, strict=True):
        within = 2 * torch.finfo(mine.dtype).eps if mine.dtype.itemsize == 2 else 1e-5
        torch.testing.assert_close(mine, theirs, rtol=within, atol=max(within, 1e-5))


@pytest.mark.parametrize("components", [0, 2])
def test_autocast_rounds_nothing(components):
    layer, given = make(components), draw(3, dtype=F32)
    wanted = gradients(layer, *given, "context")
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        ours = gradients(layer, *given, "context")
    for i in (0, -2, -1):  # the context and its gradients
        torch.testing.assert_close(ours[i], wanted[i], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("components", [0, 2])
def test_a_gradient_that_is_not_wanted_is_not_computed(launched, components):
    layer, (values, weights) = make(components), draw(3)
    context, _ = layer(values.requires_grad_(), weights)
    launched.clear()
    context.sum().backward()
    assert not launched and values.grad is not None
    context, _ = layer(values.detach(), weights.requires_grad_())
    context.sum().backward()
    assert weights.grad.isfinite().all() and values.grad.isfinite().all()
    assert launched[-1] == ("weights_vjp" if components == 0 else "moments_vjp")


@pytest.mark.parametrize("components", [0, 2])
def test_nothing_is_recorded_where_nothing_needs_a_gradient(components):
    layer, (values, weights) = make(components), draw(3)
    wanted = layer(values, weights)[0]
    assert not wanted.requires_grad
    with torch.no_grad():
        assert torch.equal(layer(values.requires_grad_(), weights)[0], wanted)


@pytest.mark.parametrize("components, alpha", [(0, 1.0), (1, 1.0), (2, 1.0)])
def test_second_derivatives(components, alpha):
    layer, (values, weights) = make(components, alpha), draw()

    def mean(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        context, density = layer(values, weights)
        return context, density.mean

    given = values[..., :1].requires_grad_(), (weights + 0.1).requires_grad_()
    assert find(layer, *given) is not None
    assert gradcheck(mean, given, fast_mode=True)
    assert gradgradcheck(mean, given, fast_mode=True)


@pytest.mark.parametrize("components", [0, 1, 2])
def test_the_way_back_may_run_under_another_backend(monkeypatch, components):
    """As in a thread of autograd's own, which does not know of the block that the way there was in."""
    layer, (values, weights) = make(components), (t.requires_grad_() for t in draw(3))
    context = layer(values, weights)[0].sum()
    wanted = torch.autograd.grad(context, (values, weights), retain_graph=True)
    monkeypatch.setattr(kernels, "solve", _dispatch.solve)
    with omegamax.backend("reference"):
        found = torch.autograd.grad(context, (values, weights))
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("components", [0, 2])
def test_gradients_in_batches(components):
    layer, (values, weights) = make(components), (t.requires_grad_() for t in draw())
    context = layer(values, weights)[0]
    unit = torch.eye(2, dtype=F64, device=DEVICE)
    together = torch.autograd.grad(context, (values, weights), unit, retain_graph=True, is_grads_batched=True)
    alone = [torch.autograd.grad(context, (values, weights), g, retain_graph=True) for g in unit]
    for mine, theirs in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(mine, torch.stack(theirs), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("components", [0, 1, 2])
def test_a_step_leaves_nothing_behind(components):
    layer = make(components, 2.0)
    gc.collect()
    gc.disable()
    try:
        values, weights = (t.requires_grad_() for t in draw(3))
        probe = weights * 1
        seen = weakref.ref(probe)
        context, density = layer(values, probe)
        del probe
        assert seen() is not None and context.requires_grad  # the graph holds it
        del context, density
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("components", [0, 2])
def test_other_ways_are_left_to_them(components):
    values, weights = draw(3)
    assert find(make(components, combined=True), values, weights) is None
    assert find(make(components, learnable=True, alpha=1.5), values, weights) is None
    assert find(make(components), values.unsqueeze(0), weights) is None
    assert find(make(components), values.float(), weights) is None
    assert find(make(components), values, weights.long()) is None
    assert find(make(components), values, None) is None
    for basis in (GaussianRBF.grid(3, 2, 0.05, normalised=False), TruncatedParaboloidRBF.grid(3, 2, 0.05)):
        assert find(ContinuousAttention(basis.to(DEVICE), positions=(3, 4)), values, weights) is None
    wide = GaussianRBF(torch.rand(4, 2), torch.eye(2).expand(4, 2, 2) * torch.rand(4, 1, 1)).to(DEVICE)
    tilted = GaussianRBF(torch.rand(4, 2), torch.tensor([[[0.1, 0.05], [0.05, 0.2]]])).to(DEVICE)
    assert find(ContinuousAttention(wide, 1.0, positions=(3, 4)), values, weights) is not None
    assert find(ContinuousAttention(tilted, 1.0, positions=(3, 4)), values, weights) is not None
    assert find(ContinuousAttention(tilted, 2.0, positions=(3, 4)), values, weights) is None
    assert find(ContinuousAttention(tilted, 1.0, positions=torch.rand(12, 2)).to(DEVICE), values, weights) is None


@pytest.mark.parametrize("components", [0, 2])
def test_what_is_kept_follows_the_layer(monkeypatch, components):
    layer, given = make(components), draw(3)
    first = find(layer, *given)
    assert find(layer, *given) is first
    layer.float()  # which rounds the basis
    assert find(layer, *given) is not first
    layer.floor = 0.2
    layer.fit.penalty = 1.0
    ours, others = both_ways(monkeypatch, lambda: layer(*given)[0])
    torch.testing.assert_close(ours, others, rtol=1e-11, atol=1e-12)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(*given)[0], ours, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("components", [0, 2])
def test_errors_are_those_of_the_layer(components):
    values, weights = draw(3)
    name = "ContinuousAttention" if components == 0 else "MultimodalAttention"
    with pytest.raises(ValueError, match=rf"{name}: weights must be \[\*, 12\]"):
        make(components)(values, weights[:, :5])
    with pytest.raises(ValueError, match="RidgeFit: values must have 12 rows"):
        make(components)(values[:, :5], weights[:, :5])
    with pytest.raises(TypeError, match=rf"{name}: weights must be a floating-point tensor"):
        make(components)(values, weights.long())
