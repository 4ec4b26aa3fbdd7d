"""Expectation-maximisation in one kernel of the CPU: all iterations of all examples, and the gradient through them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._custom_op import refuse_forward_mode, refuse_second_derivative
from omegamax._operation import Operation, is_exporting
from omegamax._torch_internals import in_forward_mode, in_transform, is_legacy_batched
from omegamax.maps import Shannon
from omegamax.mixtures._init import one_hot
from omegamax.mixtures._points import GivenPoints, Points
from omegamax.mixtures._step import Iteration, MixtureParameters

MOST = 1 << 18  # points times components that one program of a GPU is not slower with than the whole GPU in plain torch


def applies(given: GivenPoints, rule: Iteration, components: int) -> bool:
    """Tell whether there is a kernel for these points and this iteration, and for the gradients that are wanted."""
    return suits(given, rule, components) and kernels.is_compiled("em", given.weights)


def suits(given: GivenPoints, rule: Iteration, components: int) -> bool:
    """Tell whether these points and this iteration, and the gradients that are wanted, are what kernels compute."""
    if not isinstance(rule.omega, Shannon) or isinstance(rule.e, Tensor) or rule.e != 0 or rule.mix is not None:
        return False
    length, n = given.positions.shape[-2:]
    if n > 2 or given.exact_dtype is not torch.float64:
        return False
    if not given.weights.is_cpu and length * components > MOST:
        return False
    others = (given.positions, given.floor, given.spread)
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in others):
        return False
    # Maps over examples and forward derivatives go the long way, and what is exported is made of torch alone.
    return not (in_forward_mode() or in_transform() or is_exporting())


def fit(points: Points, labels: Tensor, components: int, iterations: int) -> tuple[MixtureParameters, Tensor]:
    """Return the mixtures that members ``labels [*, L]`` lead to, and J in units of the frame, ``[*]``.

    The batch of the labels is that of the points, or ends in it; gradients are those of one start for each example.
    """
    n, batch = points.dimension, points.batch_shape
    examples, length = math.prod(batch), labels.shape[-1]
    x = points.x.unsqueeze(0) if points.x.dim() == 2 else points.x.expand((*batch, length, n)).reshape(-1, length, n)
    spread = points.x.new_zeros(()) if points.spread is None else points.spread
    state, _, values = _em(
        x,
        points.weights.reshape(examples, length),
        labels.reshape(-1, length),
        points.floor.expand(batch).reshape(examples),
        spread.expand((*batch, n)).reshape(examples, n),
        components,
        iterations,
    )
    shape = labels.shape[:-1]
    weights, mean, cov = state.reshape((*shape, *state.shape[1:])).split([1, n, state.shape[-1] - 1 - n], -1)
    return MixtureParameters(weights.squeeze(-1), mean, cov), values.reshape(shape)


def _forward(x, weights, labels, floor, spread, components, iterations):
    states, values = kernels.load("em", "cpu")(x, weights, labels, floor, spread, components, iterations)
    return states[-1].clone(), states, values  # an operation's results share no memory


def _shape(x, weights, labels, floor, spread, components, iterations):
    rows, n = labels.shape[0], x.shape[-1]
    state = (rows, components, 1 + n + n * (n + 1) // 2)
    return x.new_empty(state), x.new_empty((iterations + 1, *state)), x.new_empty((rows,))


def _save(ctx, inputs, results):
    *tensors, ctx.components, ctx.iterations = inputs
    _, states, values = results
    ctx.mark_non_differentiable(states, values)
    return [*tensors, states]


def _backward(ctx, g, *_):
    *tensors, states = ctx.saved_tensors
    # A graph that is being traced is not differentiated again.
    if is_legacy_batched(g) or (torch.is_grad_enabled() and is_plain(g)):
        gradient = _differentiable(g, *tensors, ctx.components, ctx.iterations)
    else:
        gradient = _em_vjp(*tensors, states, g)
    return None, gradient, None, None, None, None, None


def _differentiable(g, x, weights, labels, floor, spread, components, iterations):
    """Compute the gradient in operations that have derivatives of their own, for those of second order."""
    with torch.enable_grad():
        origin, broken = x.new_zeros(x.shape[-1]), torch.zeros_like(floor, dtype=torch.bool)
        points = Points(x, weights, origin, x.new_ones(()), floor, spread, broken, x.dtype)
        rule = Iteration(Shannon())
        state = rule.maximise(points, one_hot(labels, components, x.dtype), rule.fit_one(points))
        state = rule.run(points, state, iterations)
        end = torch.cat([state.weights.unsqueeze(-1), state.mean, state.cov], -1)
    return torch.autograd.grad(end, weights, g, create_graph=torch.is_grad_enabled())[0]


def _gradient(x, *rest):
    return kernels.load("em_vjp", "cpu")(x, *rest)


_TENSORS = "Tensor x, Tensor weights, Tensor labels, Tensor floor, Tensor spread"
_jvp = refuse_forward_mode("weighted_em", 'call it inside omegamax.backend("reference")')
_em = Operation(
    "weighted_em",
    f"({_TENSORS}, int components, int iterations) -> (Tensor, Tensor, Tensor)",
    _forward,
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap="loop",
)
_em_vjp = Operation(
    "weighted_em_vjp",
    f"({_TENSORS}, Tensor states, Tensor g) -> Tensor",
    _gradient,
    lambda x, weights, *rest: torch.empty_like(weights, memory_format=torch.contiguous_format),
    save=lambda ctx, inputs, results: (),
    backward=refuse_second_derivative("weighted_em", "its kernel can be differentiated once where it is traced"),
    jvp=_jvp,
    vmap="loop",
)
