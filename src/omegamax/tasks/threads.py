"""The number of threads that small networks are trained with: one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

SMALL = 1_000_000  # learnt parameters, below which threads wait more than they compute
VARIABLE = "OMP_NUM_THREADS"  # whoever sets it has decided


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block.

    Threads that share a small operation wait for each other by spinning. Where other programs want the processors too,
    a step of a small network takes several times as long with two threads as with one.

        >>> before = torch.get_num_threads()
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Threads(Callback):
    """Trains a small network on the CPU with one thread, unless ``OMP_NUM_THREADS`` says how many.

    The number depends on the network alone, not on what else the machine does: sums of several threads round
    otherwise, and a run can be repeated to the last bit.
    """

    def __init__(self) -> None:
        self.before: int | None = None

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        learnt = sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
        if module.device.type == "cpu" and learnt < SMALL and VARIABLE not in os.environ:
            self.before = torch.get_num_threads()
            torch.set_num_threads(1)

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if self.before is not None:
            torch.set_num_threads(self.before)
            self.before = None
