"""The error about a file that cannot be used."""

from __future__ import annotations

from omegamax.data._text import printable


class DataError(ValueError):
    """A file of a dataset that cannot be used: the message names the file, the entry and what to do.

    The message is one line, whatever characters the names of files and the texts in them have.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))
