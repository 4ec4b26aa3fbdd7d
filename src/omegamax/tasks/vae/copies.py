"""Auto-encoders of one make, trained side by side: seeds, rates, temperatures, sets of pictures."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax.models.latents.concrete import ConcreteLatent
from omegamax.models.vae import VAE, Bound
from omegamax.tasks.captured import CapturedStep
from omegamax.tasks.stacked import RatedAdam, Stacked
from omegamax.tasks.vae.data import black_and_white
from omegamax.tasks.vae.usage import CodeUsage


class VAECopies:
    """Auto-encoders that differ in their weights, and in the temperature of their codes if they have one.

    Pictures of all of them are one batch for the codes, so that a step takes about as long as that of one.

    Args:
        networks: M of them, of the same make.
        device: to compute on.

        >>> from omegamax.models.latents import latent
        >>> make = lambda t: VAE(latent("gumbel_softmax", 3, temperature=t), pixels=16, hidden=8)
        >>> copies = VAECopies([make(0.5), make(1.0)])
        >>> copies.bound(torch.ones(2, 5, 16)).value.shape
        torch.Size([2, 5])
    """

    def __init__(self, networks: Sequence[VAE], device: torch.device | str = "cpu") -> None:
        self.networks, self.device = list(networks), torch.device(device)
        self.size = len(self.networks)
        self.one = copy.deepcopy(self.networks[0]).to(self.device)  # its code is that of all; its layers are not used
        self.encoders = Stacked([network.encoder for network in self.networks]).to(self.device)
        self.decoders = Stacked([network.decoder for network in self.networks]).to(self.device)
        joined = (torch.nn.Sequential(_Joined(layers)) for layers in (self.encoders, self.decoders))
        self.one.encoder, self.one.decoder = joined
        own = [network.latent.temperature for network in self.networks if isinstance(network.latent, ConcreteLatent)]
        self._temperatures = torch.tensor(own, device=self.device)

    def bound(self, pictures: Tensor) -> Bound:
        """Return the bounds of pictures ``[M, B, *]``, ``[M, B]``."""
        return Bound(*(part.unflatten(0, (self.size, -1)) for part in self._ready(pictures)(pictures.flatten(0, 1))))

    def weighted_bound(self, pictures: Tensor, samples: int = 100, chunk: int = 10) -> Tensor:
        """Return the importance-weighted bounds of pictures ``[M, B, *]``, ``[M, B]``."""
        found = self._ready(pictures).weighted_bound(pictures.flatten(0, 1), samples, chunk)
        return found.unflatten(0, (self.size, -1))

    def train(
        self,
        pictures: Sequence[Tensor],
        rates: Sequence[float],
        epochs: int,
        batch_size: int = 256,
        warm_up: float = 0.3,
        seed: int = 0,
        graph: bool = False,
    ) -> None:
        """Train as :class:`VAETask` does, each network with its rate and its pictures.

        Args:
            pictures: bytes ``[N, *]`` of each network, equally many; the same tensor may be given again.
            rates: of Adam at the start, one for each.
            epochs: over all pictures; each network goes through them in an order of its own.
            batch_size: pictures of each network in a step.
            warm_up: share of the steps in which the weight of the divergence grows from 0 to 1.
            seed: of the order and of all draws.
            graph: capture the step of a whole batch as a CUDA graph, which not all distributions allow.
        """
        torch.manual_seed(seed)
        sets, which = _distinct(pictures, self.device)
        for number, network in enumerate(self.networks):  # the decoders start from the mean picture of each
            network.centre(sets[which[number]].float().mean(0) / 255)
            last = list(network.decoder.parameters())[-1]
            self.decoders.weights[-1].data[number].copy_(last.detach())
        generator = torch.Generator(self.device).manual_seed(seed)
        weights, peak = [*self.encoders.weights, *self.decoders.weights], max(rates)
        adam = RatedAdam(weights, rates, fused=True, **({"capturable": True} if graph else {}))
        (group,) = adam.optimiser.param_groups
        group["lr"] = torch.tensor(peak, device=self.device)  # read where it lies, also by a captured step

        def step(batch: Tensor, weight: Tensor) -> None:
            bound = self.bound(black_and_white(batch, generator))
            (weight * bound.divergence - bound.reconstruction).mean(1).sum().backward()
            adam.step()

        count, one = len(sets[0]), torch.ones((), device=self.device)
        every, own = torch.stack(sets), torch.tensor(which, device=self.device)[:, None]
        steps, done = epochs * -(-count // batch_size), 0
        first = every[own, torch.arange(min(batch_size, count), device=self.device)]
        captured = CapturedStep(step, (first, one), adam.optimiser, [generator]) if graph else step
        for _ in range(epochs):
            order = torch.rand(self.size, count, device=self.device, generator=generator).argsort(1)
            for chosen in order.split(batch_size, 1):
                group["lr"].fill_(peak / 2 * (1 + math.cos(math.pi * done / steps)))
                weight = one * (min(1.0, done / (warm_up * steps)) if warm_up else 1.0)
                (captured if chosen.shape[1] == first.shape[1] else step)(every[own, chosen], weight)
                done += 1
        self.encoders.hand_back([network.encoder for network in self.networks])
        self.decoders.hand_back([network.decoder for network in self.networks])

    @torch.no_grad()
    def measure_bound(self, pictures: Sequence[Tensor], batch_size: int = 512) -> list[dict[str, float]]:
        """Return ``bound``, ``reconstruction`` and ``divergence`` of each network, means over its pictures."""
        total: dict[str, Any] = {"bound": 0.0, "reconstruction": 0.0, "divergence": 0.0}
        for batch in self._batches(pictures, batch_size):
            for name, part in zip(total, self.bound(batch), strict=True):
                total[name] = total[name] + part.double().sum(1)
        return self._each({name: value / len(pictures[0]) for name, value in total.items()})

    @torch.no_grad()
    def measure(self, pictures: Sequence[Tensor], samples: int = 100, batch_size: int = 500) -> list[dict[str, float]]:
        """Return the bound and its parts, ``weighted``, and how much of the simplex is used: :class:`CodeUsage`."""
        found = self.measure_bound(pictures, batch_size)
        latent = self.one.latent
        usages = [CodeUsage(latent.variables, latent.vertices).to(self.device) for _ in self.networks]
        weighted: Any = 0.0
        for batch in self._batches(pictures, batch_size):
            weighted = weighted + self.weighted_bound(batch, samples).double().sum(1)
            if latent.vertices > 1:
                codes = self._ready(batch).reconstruct(batch.flatten(0, 1))[1].unflatten(0, (self.size, -1))
                for usage, code in zip(usages, codes, strict=True):
                    usage.update(code)
        for number, row in enumerate(found):
            row["weighted"] = float(weighted[number]) / len(pictures[0])
            if latent.vertices > 1:
                row |= {name: float(value) for name, value in usages[number].compute().items()}
        return found

    def _batches(self, pictures: Sequence[Tensor], batch_size: int) -> Any:
        sets, which = _distinct(pictures, self.device)
        for start in range(0, len(sets[0]), batch_size):
            parts = [each[start : start + batch_size].float() for each in sets]
            yield torch.stack([parts[place] for place in which])

    def _ready(self, pictures: Tensor) -> VAE:
        """Return the network of all, with the temperature of each picture of a batch ``[M, B, *]``."""
        if len(self._temperatures):
            given = self._temperatures[:, None].expand(self.size, pictures.shape[1])
            self.one.latent.temperature = given.reshape(-1, 1)
        return self.one

    def _each(self, columns: dict[str, Tensor]) -> list[dict[str, float]]:
        return [{name: float(value[number]) for name, value in columns.items()} for number in range(self.size)]


class _Joined(torch.nn.Module):
    """Stacked layers for a batch in which the pictures of one network follow those of another: ``[*, M B, D]``."""

    def __init__(self, layers: Stacked) -> None:
        super().__init__()
        self._layers = [layers]  # in a list: its weights are trained elsewhere

    def forward(self, x: Tensor) -> Tensor:
        (layers,) = self._layers
        size = len(layers.weights[0])
        apart = x.unflatten(-2, (size, -1)).movedim(-3, 0)  # [M, *, B, D]
        out = layers(apart.reshape(size, math.prod(apart.shape[1:-1]), apart.shape[-1]))
        return out.reshape(*apart.shape[:-1], out.shape[-1]).movedim(0, -3).flatten(-3, -2)


def _distinct(pictures: Sequence[Tensor], device: torch.device) -> tuple[list[Tensor], list[int]]:
    """Return the different tensors, flat and on the device, and which of them each network has."""
    sets: list[Tensor] = []
    known: dict[int, int] = {}
    which = []
    for each in pictures:
        if id(each) not in known:
            known[id(each)] = len(sets)
            sets.append(each.flatten(1).to(device))
        which.append(known[id(each)])
    if len({len(each) for each in sets}) > 1:
        raise ValueError(f"VAECopies: sets must have equally many pictures, got {[len(each) for each in sets]}")
    return sets, which
