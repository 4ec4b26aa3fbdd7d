"""The first call of a kind: all kernels that it will need are compiled at the same time, not each at its launch."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from torch import Tensor

from omegamax.kernels.triton.layout import on_device

_done: set[Hashable] = set()
known = _done.__contains__


class Launch(NamedTuple):
    """A kernel with what it runs on."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple
    constants: dict[str, Any]

    def run(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.constants)


def ahead(key: Hashable, launches: Iterable[Launch], like: Tensor) -> None:
    """Compile for these launches, in threads: most of it is not Python's work. Nothing is launched.

    Args:
        key: of all calls that need the same kernels, more or less: one that needs another compiles it by itself.
        launches: of which only the types, alignments and constants count.
        like: a tensor on the device in question.
    """
    _done.add(key)
    if not like.is_cuda:
        return

    def compiled(launch: Launch) -> None:
        with on_device(like):
            # The second half is C that passes the arguments, compiled when somebody asks for it.
            launch.kernel.warmup(*launch.arguments, grid=launch.grid, **launch.constants).run  # noqa: B018

    several: dict[int, Launch] = {}
    for launch in launches:
        several.setdefault(id(launch.kernel), launch)
    with ThreadPoolExecutor(min(len(several), os.cpu_count() or 1)) as threads:
        # What does not compile says so when it is launched.
        for future in [threads.submit(compiled, launch) for launch in several.values()]:
            future.exception()
