"""Datasets in which a few files are broken."""

from __future__ import annotations

from collections.abc import Sized
from typing import cast

from torch.utils.data import Dataset

from omegamax._arguments import check_integer
from omegamax._warnings import warn_user
from omegamax.data.files import DataError
from omegamax.data.sample import Sample


class BrokenSampleWarning(UserWarning):
    """A sample was passed over; the message counts them and names the file."""


class SkipBroken(Dataset[Sample]):
    """A dataset whose broken samples are passed over: the next readable one takes the at of each.

    The stand-in keeps its own id, so that results collected by id count it once. Each broken sample is warned of, with
    their number so far (in each worker process, where there are several), and listed in ``broken``.

    Args:
        dataset: any that yields samples.
        limit: the most samples that may be broken; with one more its error is raised, since then the folder is more
            likely to be the wrong one.
    """

    def __init__(self, dataset: Dataset[Sample], limit: int = 100) -> None:
        check_integer("SkipBroken", "limit", limit, least=0)
        self.dataset, self.limit = dataset, limit
        self.broken: dict[int, str] = {}

    def __len__(self) -> int:
        return len(cast(Sized, self.dataset))

    def __getitem__(self, index: int) -> Sample:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"SkipBroken: index {index} is out of range for {count} samples")
        for step in range(count):
            at = (index + step) % count
            if at in self.broken:
                continue
            try:
                return self.dataset[at]
            except (DataError, FileNotFoundError) as error:
                if len(self.broken) == self.limit:
                    before = f"{self.limit} samples before it were broken, as many as limit allows"
                    raise type(error)(f"{error} ({before})") from error
                self.broken[at] = str(error)
                message = f"sample {at} is passed over ({len(self.broken)} so far, of {count}): {error}"
                warn_user(message, BrokenSampleWarning)
        raise DataError(f"SkipBroken: none of {count} samples can be read; the last error: {self.broken[at]}")
