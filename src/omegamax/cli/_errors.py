"""What goes wrong on the command line without being a fault of the library."""

from __future__ import annotations


class CommandError(Exception):
    """A request that cannot be met; the user sees its message and no traceback.

    Args:
        message: what is wrong, and what to do about it.
        status: exit status of the command, 2 where the request itself makes no sense.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def os_reason(error: OSError) -> str:
    """Put an error of the operating system into words: what is wrong, and with which file.

    >>> os_reason(OSError(28, "No space left on device", "demo/report.html"))
    'No space left on device: demo/report.html'
    """
    if error.strerror is None:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
