"""Launch the kernels of expectation-maximisation."""

from __future__ import annotations

from torch import Tensor

from omegamax.kernels.mixtures.triton.em import em_kernel, em_vjp_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch

TILE = 1024  # components times points of a block: in float64, 8 for each of 128 threads
WARPS = 4


def em(
    x: Tensor, weights: Tensor, labels: Tensor, floor: Tensor, spread: Tensor, components: int, iterations: int
) -> tuple[Tensor, Tensor]:
    """Fit like :func:`omegamax.kernels.mixtures.cpu.em`."""
    rows, n = len(labels), x.shape[-1]
    states = x.new_empty(iterations + 1, rows, components, 1 + n + n * (n + 1) // 2)
    values = x.new_empty(rows)
    if rows:
        tensors = (*_lay_out(x, weights, labels, floor, spread), states, values)
        launch(em_kernel, rows, tensors, _arguments(x, weights, labels, components, iterations), WARPS)
    return states, values


def em_vjp(
    x: Tensor, weights: Tensor, labels: Tensor, floor: Tensor, spread: Tensor, states: Tensor, gradient: Tensor
) -> Tensor:
    """Differentiate like :func:`omegamax.kernels.mixtures.cpu.em_vjp`."""
    rows = len(labels)
    out = x.new_zeros(labels.shape)
    if rows:
        tensors = (*_lay_out(x, weights, labels, floor, spread), states.contiguous(), gradient.contiguous(), out)
        arguments = _arguments(x, weights, labels, states.shape[2], len(states) - 1)
        launch(em_vjp_kernel, rows, tensors, arguments, WARPS)
    return out


def _lay_out(*tensors: Tensor) -> list[Tensor]:
    return [t.contiguous() for t in tensors]


def _arguments(x: Tensor, weights: Tensor, labels: Tensor, components: int, iterations: int) -> tuple[int, ...]:
    shared, length, n = len(x) == 1, *x.shape[1:]
    padded = power_of_2(components)
    block = min(max(TILE // padded, 1), power_of_2(length))
    sizes = (0 if shared else n * length, len(weights), len(labels), length, iterations)
    return (*sizes, n, components, padded, block)
