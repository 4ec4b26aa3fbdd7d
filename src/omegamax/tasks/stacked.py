"""Networks of one make with their weights stacked: several are trained in the time of one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap


class Stacked(torch.nn.Module):
    """Networks that differ in their weights alone, each with a batch of its own: ``[M, B, *] -> [M, B, *]``.

    What takes small networks long is the number of operations, not their size. Here those of all networks are one.

    Args:
        networks: M of them, of the same make. Their weights are copied; :meth:`hand_back` returns them.

        >>> both = Stacked([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)])
        >>> both(torch.randn(2, 5, 3)).shape
        torch.Size([2, 5, 2])
    """

    def __init__(self, networks: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        weights, buffers = stack_module_state(list(networks))  # type: ignore[arg-type]
        if buffers:
            raise ValueError(f"Stacked: networks must have no buffers, got {', '.join(buffers)}")
        self.names = list(weights)
        self.weights = torch.nn.ParameterList(weights.values())
        # In a list, so that it is no part of this module: it has the make of the networks, not their weights.
        self._make = [copy.deepcopy(networks[0]).to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        def one(weights: list[Tensor], mine: Tensor) -> Tensor:
            return functional_call(self._make[0], dict(zip(self.names, weights, strict=True)), (mine,))

        return vmap(one)(list(self.weights), x)

    @torch.no_grad()
    def hand_back(self, networks: Sequence[torch.nn.Module]) -> None:
        """Copy the weights back into M networks of this make."""
        for number, network in enumerate(networks):
            own = dict(network.named_parameters())
            for name, weight in zip(self.names, self.weights, strict=True):
                own[name].copy_(weight[number])


class RatedAdam:
    """Adam with a rate for each of M networks whose weights ``[M, *]`` are stacked.

    A step of Adam is proportional to its rate, and what it remembers of gradients does not depend on it. So a step of
    the largest rate is made, and each network goes its share of the way.

    Args:
        weights: each ``[M, *]``.
        rates: M of them.
        options: of :class:`torch.optim.Adam`.

        >>> weight = torch.nn.Parameter(torch.zeros(2, 3))
        >>> adam = RatedAdam([weight], [0.1, 0.2])
        >>> weight.sum().backward()
        >>> adam.step()
        >>> weight[:, 0].detach()
        tensor([-0.1000, -0.2000])
    """

    def __init__(self, weights: Iterable[Tensor], rates: Sequence[float], **options: Any) -> None:
        self.weights = list(weights)
        self.optimiser = torch.optim.Adam(self.weights, max(rates), **options)
        like = self.weights[0]
        self.shares = torch.tensor([rate / max(rates) for rate in rates], dtype=like.dtype, device=like.device)
        self._same = min(rates) == max(rates)

    def step(self) -> None:
        """Make a step, and forget the gradients."""
        before = [] if self._same else [weight.detach().clone() for weight in self.weights]
        self.optimiser.step()
        for old, new in zip(before, self.weights, strict=not self._same):
            share = self.shares.reshape(-1, *[1] * (new.dim() - 1))
            new.data.copy_(torch.lerp(old, new.detach(), share))
        self.optimiser.zero_grad(set_to_none=True)
