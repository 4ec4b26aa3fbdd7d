"""Batches in an order that processes share and that can be taken up again in mid-epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from omegamax.data import DataError

Batch = dict[str, Any]


class Order(Sampler[list[int]]):
    """Which samples make the batches of an epoch.

    With a seed they are shuffled, by seed and epoch alone. Several processes take turns with the samples, so that
    their batches together are the batch of one process whose ``batch_size`` is theirs together. Shuffled, all have
    as many: up to ``processes - 1`` samples at the front occur again at the end. In order, each sample occurs once, and
    some processes may have one fewer.

    Args:
        count: how many samples there are.
        batch_size: of each process.
        seed: None leaves them in order.
        processes, rank: how many there are, and which one this is.

        >>> list(Order(5, 2)), list(Order(5, 1, processes=2, rank=1))
        ([[0, 1], [2, 3], [4]], [[1], [3]])
        >>> one, two = Order(6, 4, seed=3), [Order(6, 2, seed=3, processes=2, rank=rank) for rank in (0, 1)]
        >>> [sorted(batch) for batch in one] == [sorted(a + b) for a, b in zip(*two)]
        True
    """

    def __init__(
        self, count: int, batch_size: int, seed: int | None = None, *, processes: int = 1, rank: int = 0
    ) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.processes, self.rank = processes, rank
        self.epoch = self.first = 0

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; Lightning calls this before each."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""
        return -(-self._mine // self.batch_size)

    @property
    def _mine(self) -> int:
        extra = 0 if self.seed is None else self.rank
        return max(0, -(-(self.count - self.rank + extra) // self.processes))

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches of the epoch, from index ``first`` on."""
        samples = self.arrange()
        if self.seed is not None:
            samples = samples.repeat(1 + -(-(self.processes - 1) // max(1, self.count)))  # enough to fill up with
        mine = samples[self.rank :: self.processes][: self._mine]
        return iter([batch.tolist() for batch in mine.split(self.batch_size)[self.first :]] if len(mine) else [])

    def arrange(self) -> Tensor:
        """Return the indices of all samples in the order in which processes take turns with them."""
        generator = self.draws()
        return torch.arange(self.count) if generator is None else torch.randperm(self.count, generator=generator)

    def draws(self) -> torch.Generator | None:
        """Return the random numbers of the epoch; None where samples stay in order."""
        if self.seed is None:
            return None
        mixed = int(np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)[0])
        return torch.Generator().manual_seed(mixed)


class LengthOrder(Order):
    """Which samples make batches where these have lengths: such as are about as long stand together.

    With a seed, samples are shuffled, cut into pools of ``pool`` batches, sorted by length within a pool, and the
    batches are shuffled. Without one, the longest come first: what does not fit into memory is found out at once.

    Args:
        lengths: of the samples, ``[N]``.
        batch_size, seed, processes, rank: as for :class:`Order`.
        pool: batches that are sorted together.

        >>> order = LengthOrder(torch.tensor([9, 1, 8, 2, 7, 3]), 2, seed=0)
        >>> sorted(sorted(batch) for batch in order)
        [[0, 2], [1, 3], [4, 5]]
    """

    def __init__(
        self,
        lengths: Tensor,
        batch_size: int,
        seed: int | None = None,
        *,
        processes: int = 1,
        rank: int = 0,
        pool: int = 50,
    ) -> None:
        super().__init__(len(lengths), batch_size, seed, processes=processes, rank=rank)
        self.lengths, self.pool = lengths, pool

    def arrange(self) -> Tensor:
        generator = self.draws()
        if generator is None:
            return self.lengths.argsort(stable=True, descending=True)
        whole = self.batch_size * self.processes
        shuffled = torch.randperm(self.count, generator=generator)
        pools = shuffled.split(whole * self.pool)
        batches = torch.cat([each[self.lengths[each].argsort(stable=True)] for each in pools]).split(whole)
        full = len(batches) - (self.count % whole > 0)  # the last may be short, and stays the last
        order = [*torch.randperm(full, generator=generator).tolist(), *range(full, len(batches))]
        return torch.cat([batches[place] for place in order])


class Batches:
    """Batches of samples, whose place in the epoch is part of a checkpoint.

    Args:
        samples: a dataset with a length.
        order: of its samples.
        collate: makes a batch.
        workers: processes that read samples; they live as long as this object.

        >>> numbers = Batches(torch.arange(6), Order(6, 2), torch.stack)
        >>> loop = iter(numbers)
        >>> next(loop), numbers.state_dict()["batch"]
        (tensor([0, 1]), 1)
        >>> again = Batches(torch.arange(6), Order(6, 2), torch.stack)
        >>> again.load_state_dict(numbers.state_dict())
        >>> list(again), len(list(again))
        ([tensor([2, 3]), tensor([4, 5])], 3)
    """

    def __init__(self, samples: Dataset[Any], order: Order, collate: Callable[[Any], Batch], workers: int = 0) -> None:
        # By these names Lightning looks for shuffling, and for what wants to know the epoch.
        self.sampler = self.batch_sampler = order
        self.loader: DataLoader[Any] = DataLoader(
            samples,
            batch_sampler=order,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            generator=torch.Generator().manual_seed(0),  # of its own: the draws of training stay as they are
        )
        self._batch = 0
        self._resume: tuple[int, int] | None = None  # epoch and batch

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Batch]:
        # As a generator, it asks for the order when the first batch is wanted: by then the epoch is set.
        order = self.sampler
        epoch, batch = self._resume or (order.epoch, 0)
        self._resume = None
        self._batch = order.first = batch if epoch == order.epoch else 0
        loop = iter(self.loader)
        order.first = 0
        for each in loop:
            self._batch += 1
            yield each

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the batch, with the settings that give these numbers a meaning."""
        order = self.sampler
        whole = {"samples": order.count, "batch_size": order.batch_size * order.processes, "seed": order.seed}
        return {**whole, "epoch": order.epoch, "batch": self._batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position the next time batches are asked for."""
        mine = self.state_dict()
        keys = [key for key in ("samples", "batch_size", "seed") if state.get(key) != mine[key]]
        differ = [f"{key} {state.get(key)}, not {mine[key]}" for key in keys]
        if differ:
            raise DataError(
                f"the checkpoint is from the middle of an epoch over other batches ({'; '.join(differ)}, of all "
                "processes together); give the settings of the data that were saved with it"
            )
        self._resume = int(state["epoch"]), int(state["batch"])
