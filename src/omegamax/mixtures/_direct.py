"""Expectation-maximisation in kernels that take the arguments as they are, for GPUs: two launches, and one back.

What is small by itself (checks, sums, boxes, starts, units) takes longer to launch there than to compute.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._custom_op import refuse_forward_mode, refuse_second_derivative
from omegamax._operation import Operation
from omegamax._torch_internals import is_legacy_batched
from omegamax.kernels.mixtures.batches import count_starts, find_sharing, make_choice, make_results
from omegamax.maps import Shannon
from omegamax.mixtures import _fused
from omegamax.mixtures._criteria import NO_PENALTY, Criterion, find_penalty
from omegamax.mixtures._draws import Source, StartDraws
from omegamax.mixtures._fitter import Fitter
from omegamax.mixtures._init import count_draws, one_hot
from omegamax.mixtures._points import GivenPoints
from omegamax.mixtures._step import Iteration

Moments = tuple[Tensor, Tensor, Tensor]  # weights [*, K], means [*, K, n], covariances [*, K, n, n]


def applies(fitter: Fitter, components: int) -> bool:
    """Tell whether there are kernels for this, and for the gradients that are wanted."""
    given = fitter.given
    if not fitter.is_unrolled or find_sharing(given.positions.shape[:-2], given.batch_shape) is None:
        return False
    return _fused.suits(given, fitter.rule, components) and kernels.is_compiled("fit_mixtures", given.weights)


def fit(fitter: Fitter, components: int, init: str, restarts: int, used: Tensor | None, source: Source) -> Moments:
    """Return the mixtures that the best of the starts lead to."""
    given = fitter.given
    counts = [components] if used is None else range(1, components + 1)
    draws = _draw(given, sum(count_draws(given, k, init, restarts) for k in counts), source)
    if restarts > 1:
        return _search(fitter, None, components, init, restarts, used, draws)[1]
    how = (components, 1, False, init, fitter.iterations, given.least_floor, False)
    return _take_first(_fit_mixtures(*_tensors(given), None, None, draws, used, *how))


def select(
    fitter: Fitter, components: int, criterion: Criterion, init: str, restarts: int, source: Source
) -> tuple[Tensor, Moments]:
    """Return the scores of 1, 2 and so on components, ``[*, K]``, and the mixtures with as many as score best."""
    given = fitter.given
    counts = range(2, components + 1)  # one needs no search
    draws = _draw(given, sum(count_draws(given, k, init, restarts) for k in counts), source)
    table, moments = _search(fitter, criterion, components, init, restarts, None, draws)
    return table.movedim(0, -1).to(given.dtype), moments


def _search(
    fitter: Fitter,
    criterion: Criterion | None,
    components: int,
    init: str,
    restarts: int,
    used: Tensor | None,
    draws: Tensor | None,
) -> tuple[Tensor, Moments]:
    """Return the scores of 1, 2 and so on components, and the mixtures of the best start; None: of all ``components``.

    The mixtures have derivatives where they are wanted.
    """
    given, growing = fitter.given, criterion is not None
    n, tensors, rest = given.dimension, _tensors(given), (fitter.iterations, given.least_floor)
    with torch.no_grad():
        how = (components, restarts, growing, init, *rest, True)
        pi, mean, cov, values, labels, sums, *_ = _fit_mixtures(*tensors, None, None, draws, used, *how)
        penalty, scores = NO_PENALTY if criterion is None else find_penalty(criterion, n), None
        if criterion is not None and penalty is None:
            scores = criterion.score(values, sums[..., 1].expand(values.shape), pi.to(values.dtype), n)
        numbers = (components if growing else 1, restarts, [float(rate) for rate in penalty or NO_PENALTY])
        taken, table, *moments = _choose_start(values, scores, sums, pi, mean, cov, *numbers, not fitter.differentiable)
    if fitter.differentiable:  # the way there once more; what is a member of no component leaves it empty
        how = (components, 1, False, init, *rest, False)
        return table, _take_first(_fit_mixtures(*tensors, labels, taken, None, None, *how))
    return table, tuple(moments)


def _take_first(results: tuple[Tensor, ...]) -> Moments:
    pi, mean, cov = (t.squeeze(0) for t in results[:3])
    return pi, mean, cov


def _draw(given: GivenPoints, count: int, source: Source) -> Tensor | None:
    like = given.weights.new_empty(0, dtype=torch.float64)
    return StartDraws(source, count, like).take((count,)) if count else None


def _tensors(given: GivenPoints) -> tuple[Tensor | None, ...]:
    return given.positions, given.weights, given.mask, given.floor_tensor(), given.spread_tensor()


def _forward(*given):
    return kernels.load("fit_mixtures", "triton")(*given)


def _shape(x, weights, *rest):
    components, restarts, growing, _, iterations, _, search = rest[-7:]
    return make_results(x, weights, components, count_starts(components, restarts, growing), iterations, search)


def _save(ctx, inputs, results):
    ctx.components, _, _, _, ctx.iterations, _, _ = inputs[-7:]
    *_, labels, _, p, near, sides, states = results
    ctx.mark_non_differentiable(*results[3:])
    return [*inputs[:5], labels, p, near, sides, states]


def _backward(ctx, *gradients):
    x, weights, mask, floor, spread, labels, *kept = ctx.saved_tensors
    first = next(g for g in gradients[:3] if g is not None)
    # A graph that is being traced is not differentiated again.
    if is_legacy_batched(first) or (torch.is_grad_enabled() and is_plain(first)):
        given = GivenPoints("weighted_em", x, weights, mask, _or_zero(floor), _or_zero(spread))
        slope = _differentiable(given, labels.reshape(weights.shape), ctx.components, ctx.iterations, gradients[:3])
    else:
        shapes = [(1, *weights.shape[:-1], ctx.components, *(x.shape[-1],) * rank) for rank in range(3)]
        nothing = first.new_zeros(()) if any(g is None for g in gradients[:3]) else first
        whole = [nothing.expand(s) if g is None else g for g, s in zip(gradients, shapes, strict=False)]
        slope = _fit_mixtures_vjp(weights, mask, labels, *kept, *whole)
    return None, slope, *(None,) * 14


def _or_zero(variance: Tensor | None) -> Tensor | float:
    return 0.0 if variance is None else variance


def _differentiable(given: GivenPoints, labels: Tensor, components: int, iterations: int, gradients) -> Tensor:
    """Compute the gradient in operations that have derivatives of their own, for those of second order."""
    with torch.enable_grad():
        points, rule = given.bring_to_frame(), Iteration(Shannon())
        state = rule.maximise(points, one_hot(labels, components, points.x.dtype), rule.fit_one(points))
        results = rule.run(points, state, iterations).in_units(points)
        pairs = [(t, g[0]) for t, g in zip(results, gradients, strict=True) if g is not None]
        ends, slopes = zip(*pairs, strict=True)
    return torch.autograd.grad(ends, given.weights, slopes, create_graph=torch.is_grad_enabled())[0]


def _gradient(*given):
    return kernels.load("fit_mixtures_vjp", "triton")(*given)


_POINTS = "Tensor x, Tensor weights, Tensor? mask, Tensor? floor, Tensor? spread, Tensor? labels, Tensor? taken"
_NUMBERS = "int components, int restarts, bool growing, str init, int iterations, float least, bool search"
_jvp = refuse_forward_mode("weighted_em", 'call it inside omegamax.backend("reference")')
_fit_mixtures = Operation(
    "fit_mixtures",
    f"({_POINTS}, Tensor? draws, Tensor? used, {_NUMBERS}) -> ({', '.join(['Tensor'] * 10)})",
    _forward,
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap="loop",
)
_fit_mixtures_vjp = Operation(
    "fit_mixtures_vjp",
    "(Tensor weights, Tensor? mask, Tensor labels, Tensor p, Tensor near, Tensor sides, Tensor states, "
    "Tensor g_weights, Tensor g_mean, Tensor g_cov) -> Tensor",
    _gradient,
    lambda weights, *rest: torch.empty_like(weights, memory_format=torch.contiguous_format),
    save=lambda ctx, inputs, results: (),
    backward=refuse_second_derivative("weighted_em", "its kernel can be differentiated once where it is traced"),
    jvp=_jvp,
    vmap="loop",
)
_choose_start = Operation(
    "choose_start",
    "(Tensor values, Tensor? scores, Tensor sums, Tensor weights, Tensor mean, Tensor cov, int candidates, "
    "int restarts, float[] penalty, bool copy) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda *given: kernels.load("choose_start", "triton")(*given),
    lambda values, scores, sums, pi, mean, cov, candidates, restarts, penalty, copy: make_choice(
        values, pi, mean, cov, candidates, copy
    ),
    vmap="loop",
)
