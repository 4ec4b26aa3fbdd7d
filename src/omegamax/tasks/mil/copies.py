"""Bag classifiers of one make, trained side by side: the folds of a cross-validation, seeds, or values of beta."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from omegamax.data.bags import BagTable
from omegamax.metrics import roc_auc
from omegamax.models.bag_classifier import BagAnswer, BagClassifier, DigitEncoder
from omegamax.tasks.mil.measures import inside, zeros


@dataclass(frozen=True)
class Training:
    """How networks are trained: AdamW, gradients clipped, the rate falling by ``decay`` with each epoch.

    Training stops after ``epochs``, or when none of the networks has been better on its validation bags for
    ``patience`` of them. Better is a larger area under the ROC curve; where that is the same, a smaller loss.
    """

    rate: float = 1e-3
    decay: float = 0.98
    weight_decay: float = 1e-4
    batch_size: int = 64
    epochs: int = 50
    patience: int = 10
    clip: float = 1.0


class Measures(NamedTuple):
    """Measures of each network, ``[M]``; ``inside`` only where it is known which instances count."""

    loss: Tensor
    accuracy: Tensor
    auc: Tensor
    zero: Tensor
    inside: Tensor | None


class Copies:
    """Networks that differ in their numbers alone, each with its own bags, in one pass.

    What takes a small network long is the number of operations, not their size. Here those of all networks are one.

    Args:
        networks: of the same make; beta may differ where it is a tensor.
        device: to compute on.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> copies = Copies([BagClassifier(VectorEncoder(5, 8), "sparsemax") for _ in range(3)])
        >>> copies(torch.randn(3, 4, 6, 5), torch.ones(3, 4, 6, dtype=torch.bool)).logits.shape
        torch.Size([3, 4])
    """

    def __init__(self, networks: Sequence[BagClassifier], device: torch.device | str = "cpu") -> None:
        self.size, self.device = len(networks), torch.device(device)
        moved = [network.to(self.device) for network in networks]
        self.parameters, self.buffers = stack_module_state(moved)  # type: ignore[arg-type]
        self.network = copy.deepcopy(moved[0]).to("meta")

    def __call__(self, instances: Tensor, mask: Tensor, training: bool = False) -> BagAnswer:
        """Return answers ``[M, B]`` to instances ``[M, B, n, *]``."""
        members = torch.arange(mask.numel(), device=mask.device).reshape(mask.shape)
        return self.answer(instances.flatten(0, 2), members, mask, training)

    def answer(
        self, instances: Tensor, members: Tensor, mask: Tensor, training: bool = False, room: int | None = None
    ) -> BagAnswer:
        """Return answers ``[M, B]`` to bags ``members [M, B, n]`` of ``instances [I, *]``.

        Only what the mask ``[M, B, n]`` has is encoded: up to ``room`` instances of the bags of a network. Without
        ``room`` they are counted, which a GPU has to be waited for.
        """
        self.network.train(training)
        there = mask.flatten(1)
        room = int(there.sum(1).max()) if room is None else room
        # Slots of what is there, one after the other. Padding takes its features from any slot, each from another one:
        # else gradients of all of it, which are zero, would be added up in one place.
        place = torch.arange(there.shape[1], device=there.device).expand_as(there)
        slot = torch.where(there, there.cumsum(1) - 1, place % max(room, 1))
        source = members.new_zeros(self.size, room + 1)
        source.scatter_(1, torch.where(there, slot, room), members.flatten(1))
        features = self._encode(_pictures(instances[source[:, :room]]))
        features = features.gather(1, slot[..., None].expand(-1, -1, features.shape[-1]))
        return self._pool(features.unflatten(1, mask.shape[1:]), mask)

    def _encode(self, instances: Tensor) -> Tensor:
        """Return the features ``[M, T, D]`` of instances ``[M, T, *]``."""
        own = {name.removeprefix("encoder."): w for name, w in self.parameters.items() if name.startswith("encoder.")}
        encoder = self.network.encoder
        if isinstance(encoder, DigitEncoder):
            # Stacked convolutions are convolutions of groups, and those take longer than one after the other.
            apart = {name: weight.unbind(0) for name, weight in own.items()}
            each = [{name: weights[number] for name, weights in apart.items()} for number in range(self.size)]
            found = [functional_call(encoder, weights, (x,)) for weights, x in zip(each, instances, strict=True)]
            return torch.stack(found)
        return vmap(lambda weights, x: functional_call(encoder, weights, (x,)))(own, instances)

    def _pool(self, features: Tensor, mask: Tensor) -> BagAnswer:
        def one(*given: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            *state, x, there = given
            return tuple(functional_call(self.network, tuple(state), (x, there), {"encoded": True}))  # type: ignore

        return BagAnswer(*vmap(one, randomness="different")(self.parameters, self.buffers, features, mask))

    def train(self, train: BagTable, val: BagTable, how: Training, seed: int = 0) -> tuple[Tensor, Measures, int]:
        """Train each network, and leave it as it was at its best validation.

        Args:
            train, val: bags of each network, ``members [M, N, n]`` and so on, or the same bags for all.
            how: settings.
            seed: of the order of the bags, and of dropout.

        Returns:
            The epoch of the best validation of each, from 1; what was found there; the number of epochs.
        """
        torch.manual_seed(seed)
        train, val = self._here(train), self._here(val)
        weights = list(self.parameters.values())
        optimiser = torch.optim.AdamW(weights, how.rate, weight_decay=how.weight_decay, fused=True)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, how.decay)
        best = torch.full((self.size,), -torch.inf, dtype=torch.float64, device=self.device)
        kept = [w.detach().clone() for w in weights]
        when, found, epoch = torch.zeros(self.size, dtype=torch.long), None, 0
        for epoch in range(1, how.epochs + 1):
            order = torch.rand(train.label.shape, device=self.device).argsort(1)
            batches = order.split(how.batch_size, 1)
            sizes = train.mask.sum(-1)
            room = _round_up(int(torch.stack([sizes.gather(1, bags).sum(1).max() for bags in batches]).max()))
            for bags in batches:
                self._step(train, bags, optimiser, weights, how.clip, room)
            schedule.step()
            now = self.measure(val)
            value = now.auc.double() - 1e-6 * now.loss.clamp(max=100)
            better = value > best
            best = torch.where(better, value, best)
            for old, new in zip(kept, weights, strict=True):
                old.copy_(torch.where(_like(better, new), new.detach(), old))
            found = now if found is None else _where(better, now, found)
            when = torch.where(better.cpu(), epoch, when)
            if epoch - int(when.max()) >= how.patience:
                break
        for old, new in zip(kept, weights, strict=True):
            new.data.copy_(old)
        assert found is not None
        return when, found, epoch

    def _step(
        self,
        table: BagTable,
        bags: Tensor,
        optimiser: torch.optim.Optimizer,
        weights: list[Tensor],
        clip: float,
        room: int,
    ) -> None:
        rows = bags[..., None].expand(*bags.shape, table.members.shape[-1])
        members, mask = table.members.gather(1, rows), table.mask.gather(1, rows)
        logits, _ = self.answer(table.instances, members, mask, training=True, room=room)
        label = table.label.gather(1, bags).to(logits.dtype)
        loss = F.binary_cross_entropy_with_logits(logits, label, reduction="none").mean(1).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        gradients = [w.grad for w in weights if w.grad is not None]
        norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
        factor = (clip / (norm + 1e-6)).clamp(max=1)
        for g in gradients:
            g.mul_(_like(factor, g))
        optimiser.step()

    @torch.no_grad()
    def measure(self, table: BagTable, batch_size: int = 250) -> Measures:
        """Measure loss, accuracy, area under the ROC curve, and where the weights are."""
        table = self._here(table)
        parts = []
        for first in range(0, table.label.shape[1], batch_size):
            rows = slice(first, first + batch_size)
            room = _round_up(int(table.mask[:, rows].sum((1, 2)).max()))
            parts.append(self.answer(table.instances, table.members[:, rows], table.mask[:, rows], room=room))
        logits, weights = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        label = table.label.to(logits.dtype)
        loss = F.binary_cross_entropy_with_logits(logits, label, reduction="none").mean(1)
        right = ((logits > 0) == (label > 0)).to(logits.dtype).mean(1)
        where = None if table.positive is None else inside(weights, table.positive, table.label)
        area = roc_auc(logits, table.label == 1, reduction="none").to(logits.dtype)
        return Measures(loss, right, area, zeros(weights, table.mask), where)

    def _here(self, table: BagTable) -> BagTable:
        """Return the bags of each network, on the device."""

        def each(part: Tensor, dim: int) -> Tensor:
            return part.to(self.device) if part.dim() == dim else part.to(self.device).expand(self.size, *part.shape)

        positive = None if table.positive is None else each(table.positive, 3)
        members, mask, label = each(table.members, 3), each(table.mask, 3), each(table.label, 2)
        return BagTable(table.instances.to(self.device), members, mask, label, positive)


def _pictures(instances: Tensor) -> Tensor:
    """Return bytes as pictures ``[*, 1, H, W]`` in [0, 1]; vectors as they are."""
    return instances.unsqueeze(-3).float() / 255 if instances.dtype == torch.uint8 else instances


def _round_up(count: int) -> int:
    """Return a number from ``count`` to an eighth more, of which there are few: a GPU tunes itself to each."""
    step = max(1, 2 ** count.bit_length() // 16)
    return -(-count // step) * step


def _like(values: Tensor, other: Tensor) -> Tensor:
    """Reshape ``[M]`` so that it broadcasts with ``[M, *]``."""
    return values.reshape(-1, *[1] * (other.dim() - 1))


def _where(better: Tensor, new: Measures, old: Measures) -> Measures:
    return Measures(*(None if a is None else torch.where(better, a, b) for a, b in zip(new, old, strict=True)))  # type: ignore
