"""Call the compiled expectation-maximisation: C++ in ``cpp/em.h``."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor, get_num_threads

from omegamax.kernels._library import make_dense, open_library


@functools.cache
def _entry(name: str) -> Callable[..., None]:
    function = getattr(open_library("mixtures"), name)
    pointers = 7 if name == "omegamax_em" else 8
    # Stride of the points, examples, rows, points, components, iterations, dimensions; threads.
    function.argtypes = [*[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * 7, ctypes.c_int]
    function.restype = None
    return function


def em(
    x: Tensor, weights: Tensor, labels: Tensor, floor: Tensor, spread: Tensor, components: int, iterations: int
) -> tuple[Tensor, Tensor]:
    """Fit mixtures to weighted points, from the components that their members begin with.

    Args:
        x: ``[B, L, n]`` or ``[1, L, n]``, in one or two dimensions.
        weights: ``[B, L]``, rows that sum to one.
        labels: components of the points at the start, integers ``[R, L]``; row r is of example r modulo B.
        floor: ``[B]``, least variance.
        spread: ``[B, n]``, variance of a point along each axis.

    Returns:
        The states at the start and after each iteration, ``[iterations + 1, R, K, F]``, and the weighted
        log-likelihood of the last, ``[R]``.
    """
    rows, n = len(labels), x.shape[-1]
    states = x.new_empty(iterations + 1, rows, components, 1 + n + n * (n + 1) // 2)
    values = x.new_empty(rows)
    given = _lay_out(x, weights, labels, floor, spread)
    pointers = [t.data_ptr() for t in (*given, states, values)]
    _entry("omegamax_em")(*pointers, *_sizes(x, weights, labels, components, iterations), get_num_threads())
    return states, values


def em_vjp(
    x: Tensor, weights: Tensor, labels: Tensor, floor: Tensor, spread: Tensor, states: Tensor, gradient: Tensor
) -> Tensor:
    """Return the gradient by the weights, for each row ``[R, L]``, from that by the last state, ``[R, K, F]``."""
    out = x.new_empty(labels.shape)
    given = _lay_out(x, weights, labels, floor, spread)
    gradient = gradient.resolve_neg().clone(memory_format=torch.contiguous_format)  # is written over
    pointers = [t.data_ptr() for t in (*given, make_dense(states), gradient, out)]
    sizes = _sizes(x, weights, labels, states.shape[2], len(states) - 1)
    _entry("omegamax_em_vjp")(*pointers, *sizes, get_num_threads())
    return out


def _lay_out(x: Tensor, weights: Tensor, labels: Tensor, floor: Tensor, spread: Tensor) -> list[Tensor]:
    """Return coordinate after coordinate, and the others as they are."""
    return [make_dense(x.mT), *(make_dense(t) for t in (weights, labels, floor, spread))]


def _sizes(x: Tensor, weights: Tensor, labels: Tensor, components: int, iterations: int) -> tuple[int, ...]:
    shared, length, n = len(x) == 1, *x.shape[1:]
    return 0 if shared else n * length, len(weights), len(labels), length, components, iterations, n
