"""Continuous attention by the kernels of a GPU, on one or interpreted, against plain torch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

pytest.importorskip("triton", minversion="3.4")

from nn.launches import launched as launched
from omegamax import kernels
from omegamax.basis import GaussianRBF
from omegamax.nn import ContinuousAttention, MultimodalAttention

F32, F64 = torch.float32, torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LINE, PLANE = GaussianRBF.grid(6, 1, 0.02, dtype=F64), GaussianRBF.grid(3, 2, 0.05, dtype=F64)
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning")


def run(layer: torch.nn.Module, values: Tensor, weights: Tensor, **where: Any) -> tuple[Tensor, ...]:
    """Return context, mean and covariance, and the gradients of a sum that hangs on all three."""
    values, weights = (t.detach().to(DEVICE).requires_grad_() for t in (values, weights))
    where = {name: t.to(DEVICE) if isinstance(t, Tensor) else t for name, t in where.items()}
    context, density = layer(values, weights, **where)
    parts = (context, density.mean, density.covariance_matrix)
    generator = torch.Generator(DEVICE).manual_seed(0)
    total = sum((torch.randn(t.shape, generator=generator, device=DEVICE) * t).nan_to_num().sum() for t in parts)
    return *parts, *torch.autograd.grad(total, (values, weights))


def compare(launched: list[str], layer: torch.nn.Module, *given: Tensor, within: float = 1e-11, **where: Any) -> None:
    """Compare with plain torch, which counts every kernel as missing."""
    layer.to(DEVICE)
    ours = run(layer, *given, **where)
    ahead = launched.count("moments") + sum(op.endswith("_of_weights") for op in launched)
    assert ahead == launched.count("moments_vjp") + launched.count("weights_vjp") == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "is_compiled", lambda op, z: False)
        patch.setattr(kernels, "solve", lambda op, *given: kernels.load(op, "reference")(*given))
        plain = run(layer, *given, **where)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=within, atol=within * 10, equal_nan=True)


def draw(width: int, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, width, 2, dtype=dtype), torch.rand(3, width, dtype=F64).to(dtype)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("basis, size", [(LINE, (7,)), (PLANE, (3, 4))])
def test_context_moments_and_gradients(launched, basis, size, alpha, combined):
    layer = ContinuousAttention(basis, alpha, positions=size, combined=combined)
    compare(launched, layer, *draw(7 if len(size) == 1 else 12))


@pytest.mark.parametrize("combined", [False, True])
def test_what_is_absent_and_rows_that_are_lost(launched, combined):
    values, weights = draw(12)
    mask = torch.rand(3, 12) < 0.6
    mask[0] = False
    weights[1], weights[2, 0], mask[2, 0] = 0.0, torch.nan, False
    layer = ContinuousAttention(PLANE, 1.0, positions=(3, 4), combined=combined)
    compare(launched, layer, values, weights, mask=mask)
    launched.clear()
    weights[2] = torch.inf
    compare(launched, layer, values, weights)


@pytest.mark.parametrize("lengths", [[7, 3, 1], [4, 4, 4]])
def test_lengths(launched, lengths):
    layer = ContinuousAttention(LINE, 1.0, combined=True)
    compare(launched, layer, *draw(7), lengths=torch.tensor(lengths))


def test_images_of_any_size(launched):
    compare(launched, ContinuousAttention(PLANE, 1.0), *draw(12), lengths=torch.tensor([[3, 4], [2, 2], [1, 5]]))


def test_given_positions(launched):
    places, mask = torch.rand(3, 9, 2, dtype=F64), torch.rand(3, 9) < 0.7
    places[~mask] = torch.nan
    compare(launched, ContinuousAttention(PLANE, 1.0), *draw(9), positions=places, mask=mask)
    launched.clear()
    compare(launched, ContinuousAttention(PLANE, 1.0), *draw(9), positions=torch.rand(9, 2, dtype=F64))
    launched.clear()
    sides = torch.rand(3, 9, 2, dtype=F64)  # which add to the covariance what has a gradient: only weights are launched
    places = torch.rand(3, 9, 2, dtype=F64)
    compare(launched, ContinuousAttention(PLANE, 1.0), *draw(9), positions=places, extents=sides)


def test_positions_with_a_gradient_are_left_to_autograd(launched):
    values, weights = (t.to(DEVICE) for t in draw(9))
    places = torch.rand(9, 2, dtype=F64, device=DEVICE, requires_grad=True)
    context, _ = ContinuousAttention(PLANE, 1.0).to(DEVICE)(values, weights, places)
    assert torch.autograd.grad(context.sum(), places)[0].abs().sum() > 0


def test_batches_broadcast(launched):
    torch.manual_seed(0)
    values, weights = torch.randn(2, 1, 12, 3, dtype=F64), torch.rand(4, 12, dtype=F64)
    mask = torch.rand(2, 1, 12) < 0.7
    compare(launched, ContinuousAttention(PLANE, 1.0, positions=(3, 4), combined=True), values, weights, mask=mask)


@pytest.mark.parametrize("dtype, within", [(F32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_lower_precision(launched, dtype, within, alpha):
    layer = ContinuousAttention(GaussianRBF.grid(3, 2, 0.05), alpha, positions=(3, 4), combined=True)
    compare(launched, layer, *draw(12, dtype), within=within)
    with torch.no_grad():
        values, weights = (t.to(DEVICE) for t in draw(12, dtype))
        assert layer.match(weights).loc.dtype == F32 and layer(values, weights)[0].dtype == dtype


def test_first_and_second_derivatives(launched):
    layer = ContinuousAttention(GaussianRBF.grid(2, 2, 0.1, dtype=F64), 1.0, positions=(2, 2), combined=True).to(DEVICE)
    values = torch.randn(4, 1, dtype=F64, device=DEVICE, requires_grad=True)
    weights = torch.rand(4, dtype=F64, device=DEVICE, requires_grad=True)
    assert gradcheck(lambda v, w: layer(v, w)[0], (values, weights), check_batched_grad=True)
    assert gradgradcheck(lambda v, w: layer(v, w)[0], (values, weights))
    assert "moments_vjp" in launched


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_gradients_in_batches(launched, alpha):
    layer = ContinuousAttention(PLANE, alpha, positions=(3, 4)).to(DEVICE)
    values, weights = (t[0].to(DEVICE).requires_grad_() for t in draw(12))
    context = layer(values, weights)[0]
    unit = torch.eye(len(context), dtype=F64, device=DEVICE)
    together = torch.autograd.grad(context, weights, unit, retain_graph=True, is_grads_batched=True)[0]
    mapped = torch.vmap(lambda g: torch.autograd.grad(context, weights, g, retain_graph=True)[0])(unit)
    alone = [torch.autograd.grad(context, weights, g, retain_graph=True)[0] for g in unit]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(mapped, together, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_leaves_nothing_behind(request, fused):
    if fused:
        request.getfixturevalue("launched")
    layer = ContinuousAttention(PLANE, 2.0, positions=(3, 4), combined=True).to(DEVICE)
    gc.collect()
    gc.disable()
    try:
        values, weights = (t.to(DEVICE).requires_grad_() for t in draw(12))
        probe = weights * 1
        seen = weakref.ref(probe)
        context, density = layer(values, probe)
        assert context.requires_grad and density.scale.requires_grad
        del probe
        assert seen() is not None  # the graph holds it
        del context, density
        assert seen() is None
    finally:
        gc.enable()


def test_transforms_and_compilers_see_plain_torch(launched):
    layer = ContinuousAttention(PLANE, 2.0, positions=(3, 4)).to(DEVICE)
    values, weights = (t.to(DEVICE) for t in draw(12))
    wanted = layer(values, weights)[0]
    launched.clear()
    torch.testing.assert_close(torch.func.vmap(lambda v, w: layer(v, w)[0])(values, weights), wanted)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(values, weights)[0], wanted)
    assert "moments" not in launched
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weights, torch.ones_like(weights))
        context = layer(values, dual)[0]
        assert torch.autograd.forward_ad.unpack_dual(context).tangent.isfinite().all()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("combined", [False, True])
def test_one_component_is_continuous_attention(launched, alpha, combined):
    many = MultimodalAttention(PLANE, 1, alpha, positions=(3, 4), combined=combined).to(DEVICE)
    one = ContinuousAttention(PLANE, alpha, positions=(3, 4), combined=combined).to(DEVICE)
    values, weights = (t.to(DEVICE) for t in draw(12))
    (context, p), (wanted, density) = many(values, weights), one(values, weights)
    assert len(launched) == 2 * (2 if combined else 1)
    torch.testing.assert_close(context, wanted, rtol=1e-13, atol=1e-14)
    assert torch.equal(p.components.mean.squeeze(-2), density.mean)
    assert torch.equal(p.components.scale.squeeze(-3), density.scale)


def test_several_components(launched):
    compare(launched, MultimodalAttention(PLANE, 2, positions=(3, 4), combined=True, iterations=1), *draw(12))
