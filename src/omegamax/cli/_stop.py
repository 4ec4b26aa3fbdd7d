"""Signals that end a command: Ctrl-C, and the request to terminate."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopped(BaseException):
    """A signal asked the command to end; as no Exception, it is not mistaken for an error on its way up.

    Args:
        number: of the signal.
        advice: what is left, and how to go on.

        >>> Stopped(signal.SIGTERM).status
        143
    """

    def __init__(self, number: int, advice: str = "") -> None:
        super().__init__(number, advice)
        self.number, self.advice = number, advice

    @property
    def status(self) -> int:
        """Return the exit status that shells give to a command ended by the signal."""
        return 128 + self.number

    @property
    def message(self) -> str:
        """Return one line that says what happened."""
        what = "interrupted" if self.number == signal.SIGINT else "terminated"
        return f"{what}; {self.advice}" if self.advice else what


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into :class:`Stopped`, where nobody else handles them.

    Under Slurm, SIGTERM is left to Lightning, which takes it for the announcement that a job is queued again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    wanted: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    if "SLURM_JOB_ID" not in os.environ:
        wanted[signal.SIGTERM] = signal.SIG_DFL
    for number, default in wanted.items():
        if signal.getsignal(number) == default:
            before[number] = signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def advise_on_stop(advice: Callable[[], str]) -> Iterator[None]:
    """Let the line that tells of a stop say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(signal.SIGINT, advice()) from None
    except Stopped as stop:
        raise Stopped(stop.number, stop.advice or advice()) from None


def _raise(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
