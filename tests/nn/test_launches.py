"""How much a step of continuous attention launches on a GPU, and that nothing waits for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nn.launches import count_launches
from omegamax.basis import GaussianRBF
from omegamax.mixtures import AIC, BIC, INITS, Linear, weighted_em
from omegamax.nn import ContinuousAttention, MultimodalAttention

PLANE = GaussianRBF.grid(10, 2, 0.001)


def step(layer: torch.nn.Module, width: int, **settings: Any) -> tuple:
    torch.manual_seed(0)
    values, weights = torch.randn(3, width, 4, requires_grad=True), torch.rand(3, width, requires_grad=True)
    return lambda: layer(values, weights, **settings)[0], (values, weights)


def check(layer: torch.nn.Module, width: int, most: tuple[int, int], fused: bool = False) -> None:
    """Hold the operations of both ways to what they were when this was written."""
    ahead, back = count_launches(*step(layer, width), fused)
    assert ahead.total <= most[0] and back.total <= most[1], (ahead.kernels, back.kernels)
    assert not ahead.waits and not back.waits, (ahead.waits, back.waits)


@pytest.mark.parametrize("alpha, most", [(1.0, (43, 14)), (1.5, (139, 196)), (2.0, (71, 20)), (4 / 3, (155, 227))])
def test_over_the_line(alpha, most):
    check(ContinuousAttention(GaussianRBF.grid(16, 1, 0.01), alpha), 50, most)


@pytest.mark.parametrize("alpha, most", [(1.0, (51, 19)), (2.0, (79, 25))])
def test_lengths_that_differ_are_sent_once(alpha, most):
    layer = ContinuousAttention(GaussianRBF.grid(16, 1, 0.01), alpha, combined=True)
    ahead, back = count_launches(*step(layer, 50, lengths=[50, 40, 30]))
    assert ahead.total <= most[0] and back.total <= most[1], (ahead.kernels, back.kernels)
    # The list of lengths as a tensor of the host; which values are present; which operators. Cells are kept.
    assert dict(ahead.waits) == {"aten::lift_fresh": 3} and not back.waits


@pytest.mark.parametrize("alpha, most", [(1.0, (69, 19)), (1.5, (258, 306)), (2.0, (244, 283)), (4 / 3, (272, 327))])
def test_over_the_plane_in_plain_torch(alpha, most):
    check(ContinuousAttention(PLANE, alpha, positions=(14, 14)), 196, most)


@pytest.mark.parametrize("combined, most", [(False, (3, 4)), (True, (7, 9))])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 4 / 3])
def test_over_the_plane_with_kernels(alpha, combined, most):
    pytest.importorskip("triton", minversion="3.4")
    layer = ContinuousAttention(PLANE, alpha, positions=(14, 14), combined=combined)
    check(layer, 196, most, fused=True)
    if not combined:  # expectations, weights, and context
        ahead, _ = count_launches(*step(layer, 196), fused=True)
        expect = "gaussian_of_weights_kernel" if alpha == 1 else "contour_of_weights_kernel"
        assert dict(ahead.kernels) == {expect: 1, "aten::mm": 1, "aten::bmm": 1}


def test_one_component_with_kernels():
    pytest.importorskip("triton", minversion="3.4")
    check(MultimodalAttention(PLANE, 1, positions=(14, 14)), 196, (3, 4), fused=True)


def test_weights_are_made_to_sum_to_one_in_one_launch():
    pytest.importorskip("triton", minversion="3.4")
    layer = MultimodalAttention(PLANE, 2, positions=(14, 14))
    ahead, back = count_launches(*step(layer, 196), fused=True)
    assert ahead.kernels["moments_kernel"] == back.kernels["moments_vjp_kernel"] == 1


@pytest.mark.parametrize("components, most", [(2, (9, 8)), (4, (9, 8))])
def test_several_components_with_kernels(components, most):
    pytest.importorskip("triton", minversion="3.4")
    check(MultimodalAttention(PLANE, components, positions=(14, 14)), 196, most, fused=True)


@pytest.mark.parametrize("components", ["selected", "random"])
@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("criterion", [BIC(), AIC(), Linear(5.0)], ids=repr)
def test_numbers_of_components_are_selected_with_kernels(components, init, criterion):
    """As many launches for four numbers as for two: all starts of all of them go together, and the best once more."""
    pytest.importorskip("triton", minversion="3.4")
    for count in (2, 4):
        layer = MultimodalAttention(
            PLANE, count, components=components, init=init, criterion=criterion, positions=(14, 14)
        )
        check(layer.train(components == "selected"), 196, (16, 8), fused=True)


@pytest.mark.parametrize("settings, most", [({"floor": 0.0}, 3), ({"floor": 0.0, "restarts": 3}, 8), ({}, 46)])
def test_mixtures_are_fitted_with_kernels(settings, most):
    pytest.importorskip("triton", minversion="3.4")
    torch.manual_seed(0)
    x, w = torch.rand(196, 2), torch.rand(3, 196, requires_grad=True)
    ahead, back = count_launches(lambda: weighted_em(x, w, 4, **settings).components.mean, (w,), fused=True)
    assert ahead.total <= most and back.total <= 2, (ahead.kernels, back.kernels)
    assert not ahead.waits and not back.waits, (ahead.waits, back.waits)


@pytest.mark.parametrize("components", ["fixed", "selected"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_several_components_wait_for_nothing(components, training):
    layer = MultimodalAttention(PLANE, 2, components=components, positions=(14, 14), iterations=(5, 5))
    check(layer.train(training), 196, (2300, 1100))


def test_the_count_sees_what_waits_and_what_is_launched():
    x = torch.rand(3, 4, requires_grad=True)

    def wait() -> torch.Tensor:
        return x.exp() * float(x.detach().sum()) + x.new_tensor([1.0, 2.0, 3.0, 4.0])

    ahead, back = count_launches(wait, (x,))
    assert dict(ahead.kernels) == {"aten::exp": 1, "aten::sum": 1, "aten::mul": 1, "aten::add": 1}
    assert set(ahead.waits) == {"aten::_local_scalar_dense", "aten::lift_fresh"} and not back.waits
    assert dict(back.kernels) == {"aten::mul": 2}
