"""Launch the kernels of expectation-maximisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax.kernels.mixtures.batches import count_starts, find_sharing, make_choice, make_results
from omegamax.kernels.mixtures.triton.choose import choose_kernel
from omegamax.kernels.mixtures.triton.em import em_kernel
from omegamax.kernels.mixtures.triton.em_vjp import em_vjp_kernel
from omegamax.kernels.mixtures.triton.weights import weigh_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch_kept

TILE = 1024  # components times points of a block: in float64, 8 for each of 128 threads
WARPS = 4
BLOCK = 128  # examples of a program that chooses: one for each thread
GIVEN, SPLIT = 0, 1
INITS = {"split": SPLIT, "kmeans++": 2, "random": 3}  # as the kernel numbers them
ALL, USED, GROWING = 0, 1, 2


def fit_mixtures(
    x: Tensor,
    weights: Tensor,
    present: Tensor | None,
    floor: Tensor | None,
    spread: Tensor | None,
    labels: Tensor | None,
    taken: Tensor | None,
    draws: Tensor | None,
    used: Tensor | None,
    components: int,
    restarts: int,
    growing: bool,
    init: str,
    iterations: int,
    least: float,
    search: bool,
) -> tuple[Tensor, ...]:
    """Fit mixtures to weighted points as they are given, on a line or in the plane.

    Args:
        x: ``[*, L, n]``, with a batch that :func:`~omegamax.kernels.mixtures.batches.find_sharing` knows.
        weights: ``[*, L]``, in any precision.
        present: bool, which points there are; ``floor [*]`` and ``spread [*, n]``: variances in squared units of the
            points. They broadcast; None: all, and 0.
        labels, taken: members of the components at several starts, int32 ``[S, *, L]``, and the number of the one to go
            on from, int32 ``[*]``; None: they are made here, as ``init`` says.
        draws: random numbers in [0, 1), float64, in the order in which :mod:`omegamax.mixtures` draws them.
        used: how many components an example starts with, integers that broadcast to the batch; None: all.
        restarts: starts for each number of components.
        growing: whether these numbers are 1 (once), 2 and so on to ``components``, or just this.
        least: the least floor in the frame.
        search: whether log-likelihoods are wanted, and not the states, which a gradient needs.

    Returns:
        Of S starts weights ``[S, *, K]``, means and covariances, log-likelihoods ``[S, *]`` and labels ``[S, *, L]``;
        sums of the weights and effective numbers of points, ``[*, 2]``; and for :func:`fit_mixtures_vjp` weights that
        sum to one, points in the frame, scalars of the rows and states.
    """
    batch, (length, n) = weights.shape[:-1], x.shape[-2:]
    examples, starts = math.prod(batch), count_starts(components, restarts, growing)
    results = make_results(x, weights, components, starts, iterations, search)
    pi, mean, cov, values, made, sums, p, near, sides, states = results
    if not examples:
        return results
    sharing = find_sharing(x.shape[:-2], batch)
    assert sharing is not None
    inner, sets = sharing
    marked = torch.zeros(sets, length, dtype=torch.int8, device=x.device)  # points that have weight anywhere
    mask, mask_step = _as_mask(present, batch, p)
    block = min(TILE, power_of_2(length))
    weighed = (weights.contiguous(), mask, p, sums, marked)
    launch_kept(weigh_kernel, examples, weighed, (mask_step, inner, sets, length, present is not None, block), WARPS)

    known = labels is not None and taken is not None
    drawn = draws is not None and not known
    floors, floor_step = _by_example(floor, batch, 0, p)
    axes = None if spread is None else spread.expand((*spread.shape[:-1], n))
    spreads, spread_step = _by_example(axes, batch, 1, p)
    counts, count_step = _by_example(None if used is None else used.to(x.device), batch, 0, p)
    given = (p if labels is None else labels.contiguous(), p if taken is None else taken.contiguous(), made)
    points = (x.contiguous(), marked, p, sums, floors, spreads, counts, p if draws is None else draws.contiguous())
    kept = (torch.empty_like(near[..., 0]) if drawn else p, near, sides, states, values)
    steps = (floor_step, spread_step, count_step, inner, sets, examples, starts * examples, restarts, iterations)
    count = GROWING if growing else ALL if used is None else USED
    ways = (least, floor is not None, spread is not None, GIVEN if known else INITS[init], count, drawn, search)
    padded, block = _tile(components, length)
    constants = (*ways, n, components, padded, (components - 1).bit_length(), block)
    tensors = (*points, *given, *kept, pi, mean, cov)
    launch_kept(em_kernel, starts * examples, tensors, (*steps, length, *constants), WARPS)
    return results


def fit_mixtures_vjp(
    weights: Tensor,
    present: Tensor | None,
    labels: Tensor,
    p: Tensor,
    near: Tensor,
    sides: Tensor,
    states: Tensor,
    *gradients: Tensor,
) -> Tensor:
    """Return the gradient by the weights, ``[*, L]``, from those by the mixtures, ``[1, *, K]`` and so on."""
    batch, length = weights.shape[:-1], weights.shape[-1]
    components, n = gradients[1].shape[-2:]
    examples = math.prod(batch)
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    if examples:
        rows = [g.resolve_neg().reshape(examples, *g.shape[1 + len(batch) :]) for g in gradients]
        mask, mask_step = _as_mask(present, batch, p)
        tensors = (near, p, labels, sides, states, mask, *rows, torch.empty_like(p), out)
        steps = [step for g in rows for step in g.stride()]
        padded, block = _tile(components, length)
        sizes = (*steps, mask_step, examples, len(states) - 1, length)
        constants = (present is not None, n, components, padded, block)
        launch_kept(em_vjp_kernel, examples, tensors, (*sizes, *constants), WARPS)
    return out


def choose_start(
    values: Tensor,
    scores: Tensor | None,
    sums: Tensor,
    pi: Tensor,
    mean: Tensor,
    cov: Tensor,
    candidates: int,
    restarts: int,
    penalty: Sequence[float],
    copy: bool,
) -> tuple[Tensor, ...]:
    """Choose one of the starts that :func:`fit_mixtures` has tried.

    A candidate has the score of its start with the largest value; that with the least score counts. Of equal ones, but
    for rounding, the first.

    Args:
        values: of all starts, ``[S, *]``: after those of the first candidate ``restarts`` for each of the others.
        scores: ``[S, *]``; None: as the penalty says.
        penalty: whether values count for each point, the price of a parameter (inf: the logarithm of the number
            of points), parameters of a component, and how many fewer there are in all.
        copy: whether the mixtures are returned, and not the number of the start alone.

    Returns:
        The number of the start, int32 ``[*]``, scores of the candidates ``[candidates, *]``, and the mixtures.
    """
    starts, *batch = values.shape
    examples, (components, n) = math.prod(batch), mean.shape[-2:]
    results = make_choice(values, pi, mean, cov, candidates, copy)
    index, table, *_ = results
    if examples:
        block = min(BLOCK, power_of_2(examples))
        per_point, price, each, fewer = penalty
        given = [t.contiguous() for t in (values, values if scores is None else scores, sums, pi, mean, cov)]
        tensors = (*given, index, table, torch.empty_like(table, dtype=torch.int32), *results[2:])
        first = starts - (candidates - 1) * restarts
        rates = (int(each), int(fewer), bool(per_point), float(price))
        constants = (n, components, *rates, scores is not None, copy, block)
        sizes = (examples, candidates, first, restarts)
        launch_kept(choose_kernel, -(-examples // block), tensors, (*sizes, *constants), max(block // 32, 1))
    return results


def _as_mask(present: Tensor | None, batch: Sequence[int], stand_in: Tensor) -> tuple[Tensor, int]:
    mask, step = _by_example(present, batch, 1, stand_in)
    return mask if present is None else mask.view(torch.int8), step


def _by_example(given: Tensor | None, batch: Sequence[int], rank: int, stand_in: Tensor) -> tuple[Tensor, int]:
    """Return a tensor with ``rank`` axes for each example, and how far these are apart: 0 if all share one."""
    if given is None:
        return stand_in, 0
    shape = given.shape[given.dim() - rank :]
    if math.prod(given.shape[: given.dim() - rank]) == 1:
        return given.contiguous(), 0
    return given.expand((*batch, *shape)).contiguous(), math.prod(shape)


def _tile(components: int, length: int) -> tuple[int, int]:
    """Return components as a power of two, and the points of a block."""
    padded = power_of_2(components)
    return padded, min(max(TILE // padded, 1), power_of_2(length))
