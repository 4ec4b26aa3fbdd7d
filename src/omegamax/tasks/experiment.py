"""The run script of an experiment: arguments that all have, and how a job trains without a word."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from omegamax.tasks.quiet import quiet
from omegamax.tasks.threads import one_thread
from omegamax.tasks.trials import Job, Trials

VARIABLE = "OMEGAMAX_DATA"  # the folder with the folders of the sets
_LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")


class Arguments(argparse.ArgumentParser):
    """The parser of a run script, with what all take: seeds, data, results, workers, device, how long jobs are begun.

    Rows go into CSV files below ``--results`` as they are done, see :class:`~omegamax.tasks.trials.Trials`.

    Args:
        description: the docstring of the script.
        results: folder of the rows.
        seeds: to run by default.
        workers: runs at a time by default; None: as many as there are processors.
        needs_data: whether nothing can be run without the folder of the sets.

        >>> options = Arguments("", "results", needs_data=False).parse_args(["--seeds", "3"])
        >>> options.seeds, options.results.name
        ([3], 'results')
    """

    def __init__(
        self,
        description: str | None,
        results: str | os.PathLike[str],
        *,
        seeds: Sequence[int] = (0, 1, 2),
        workers: int | None = None,
        needs_data: bool = True,
    ) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.needs_data = needs_data
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
        self.add_argument("--data", default=os.environ.get(VARIABLE), help="folder with the folders of the sets")
        self.add_argument("--results", type=Path, default=Path(results), help="folder of the rows")
        self.add_argument("--workers", type=int, default=workers or os.cpu_count(), help="runs at a time")
        self.add_argument("--device", default=device)
        self.add_argument("--seconds", type=float, help="begin no further job after so many; by default all are done")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        """Parse, and refuse to begin without the folder of the sets."""
        options, rest = super().parse_known_args(args, namespace)
        if self.needs_data and options.data is None:
            self.error(f"give the folder with the sets, --data or the variable {VARIABLE}")
        return options, rest


def tell_end(table: Trials, failed: Sequence[Job]) -> int:
    """Say how many rows there are and how many jobs failed; return the exit status."""
    print(f"{len(table.rows())} rows, {len(failed)} failed: {table.path}")
    return 1 if failed else 0


def name_device(device: str) -> str:
    """Return the name of a device, for the row of a table.

    >>> name_device("cpu")
    'cpu'
    """
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


@contextmanager
def silent_training(single: bool = True) -> Iterator[None]:
    """Train without messages and advice of Lightning; ``single``: with one thread, for jobs that run side by side."""
    before = [(logger, logger.level) for logger in map(logging.getLogger, _LOGGERS)]
    for logger, _ in before:
        logger.setLevel(logging.ERROR)
    try:
        with quiet(), one_thread() if single else nullcontext(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on loaders and loggers
            yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
