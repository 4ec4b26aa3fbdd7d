"""The demonstration in seconds: few steps, and no process beside this one."""

from concurrent.futures import Future
from contextlib import contextmanager
from queue import Queue

import pytest
import torch

from omegamax.tasks.vqa import demo

RECIPE = demo.Recipe(
    samples=(128, 16, 16),
    pictures=128,
    feature_steps=4,
    start_steps=4,
    steps=4,
    every=2,
    image_size=32,
    grid=(4, 4),
)


class Here:
    """In place of processes, their context and their pool: calls are made at once."""

    def __init__(self, *unused, **settings):
        pass

    Manager = __enter__ = lambda self: self
    Queue = staticmethod(Queue)

    def __exit__(self, *unused):
        pass

    def submit(self, function, *arguments):
        torch.seed()  # a new process knows no seed
        future = Future()
        future.set_result(function(*arguments))
        return future


@contextmanager
def in_this_process():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "ProcessPoolExecutor", Here)
        patch.setattr(demo, "get_context", Here)
        yield patch
