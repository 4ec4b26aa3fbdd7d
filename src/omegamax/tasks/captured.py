"""A step of training as a CUDA graph: hundreds of small kernels are launched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
_WARM = 3  # steps before the capture, in which kernels are compiled and memory is found


class CapturedStep(Generic[T]):
    """A step that reads some tensors and changes weights, captured once and replayed with other contents.

    Weights and random states are left as they were found, and the optimiser as if it had made no step.

    Args:
        step: of the tensors ``inputs``; it must make no choice by values that are on the device. What it returns, a
            tensor or nothing, is returned by each replay, and is overwritten by the next.
        inputs: of the shapes that all steps have.
        optimiser: with ``capturable``, whose weights the step changes.
        generators: on the device, from which the step draws besides the default one.
        pool: memory of another graph, :attr:`pool`, to share; steps of several shapes, of which one is replayed at a
            time, then take the memory of the largest. What they returned is overwritten by any of them.
    """

    def __init__(
        self,
        step: Callable[..., T],
        inputs: Sequence[Tensor],
        optimiser: torch.optim.Optimizer,
        generators: Sequence[torch.Generator] = (),
        pool: Any = None,
    ) -> None:
        self._inputs = [each.clone() for each in inputs]
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        before = [weight.detach().clone() for weight in weights]
        device = weights[0].device
        random = torch.cuda.get_rng_state(device), [generator.get_state() for generator in generators]
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM):
                step(*self._inputs)
        torch.cuda.current_stream(device).wait_stream(side)
        optimiser.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph, pool=pool):
            self._found = step(*self._inputs)
        with torch.no_grad():
            for weight, value in zip(weights, before, strict=True):
                weight.copy_(value)
            for state in optimiser.state.values():
                for value in state.values():
                    value.zero_()
        torch.cuda.set_rng_state(random[0], device)
        for generator, state in zip(generators, random[1], strict=True):
            generator.set_state(state)

    @property
    def pool(self) -> Any:
        """Return the memory of the graph."""
        return self._graph.pool()

    def __call__(self, *inputs: Tensor) -> T:
        """Make the step with these contents."""
        for own, given in zip(self._inputs, inputs, strict=True):
            own.copy_(given)
        self._graph.replay()
        return self._found
