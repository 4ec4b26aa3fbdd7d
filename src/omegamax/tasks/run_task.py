"""What training and evaluation have in common, whatever the task."""

from __future__ import annotations

import abc
from os import PathLike
from typing import Any

import lightning as L
import torch
from torch.nn.parallel import DistributedDataParallel


class RunTask(L.LightningModule, abc.ABC):
    """A network ``model``, trained by :class:`~omegamax.cli._run.RunCLI`, whose files say what it is.

    A subclass has a name, ``kind``, which is that of its command; :meth:`described` tells in plain data how to build it
    again, and :meth:`load` does so. A checkpoint has the description under the name.
    """

    kind: str
    model: torch.nn.Module

    @abc.abstractmethod
    def described(self) -> dict[str, Any]:
        """What a file says beside the weights: numbers, words, lists and dicts."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | PathLike[str]) -> RunTask:
        """The task of a ``.ckpt`` or ``.safetensors`` file, in evaluation mode."""

    def setup(self, stage: str) -> None:
        # Constants, the same everywhere. Sent around before each batch, they would make a process that has one batch
        # more than others wait for ever.
        constants = [name for name, _ in self.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, constants)
        # Before weights are restored, which single precision would round.
        self.trainer.precision_plugin.convert_module(self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[self.kind] = self.described()
