"""The parser of settings, with errors that fit on a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from omegamax.cli._config import REFUSAL
from omegamax.data._text import printable

# How jsonargparse tells that it tried one type after the other; what remains names the setting and what it wants.
_NOISE = (
    "Does not validate",
    "- Does not validate",
    "Subtypes:",
    "Errors:",
    "Given value type:",
    "Given value: NestedArg",
    "- Expected a <class 'NoneType'>",
)


class Parser(LightningArgumentParser):
    """A LightningArgumentParser that says in one line what is wrong."""

    def error(self, message: str, *more: Any, **settings: Any) -> Any:
        super().error(printable(one_line(message, self.sets())), *more, **settings)

    def sets(self) -> Sequence[str]:
        """Names that ``--data`` takes."""
        return ()


def one_line(message: str, sets: Sequence[str] = ()) -> str:
    """The setting, what was wanted, and what was given; of a class of data, the names that there are.

    >>> one_line("Parser key: \\n  Subtypes: [int, float]\\n  Errors:\\n    - Expected an int")
    'Parser key: - Expected an int'
    """
    lines = [line.strip() for line in message.splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith(_NOISE))
    if refused := REFUSAL.search(text):  # not the other types that were tried, too
        return f"{text.split(':')[0]}: {refused[0]}"
    if "Expected a dot import path string" in text and 'key "data"' in text and sets:
        text = f"{text.split(':')[0]}: there is no such set; known: {', '.join(sets)}"
    return text
