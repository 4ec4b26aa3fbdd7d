"""The parser of settings, with errors that fit on a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

# How jsonargparse tells that it tried one type after the other; what remains names the setting and what it wants.
_NOISE = (
    "Does not validate",
    "- Does not validate",
    "Subtypes:",
    "Errors:",
    "Given value type:",
    "Given value: NestedArg",
    "Given value: Namespace",
    "- Expected a <class 'NoneType'>",
)
_MISSING = re.compile(r"given class_path '([\w.]+)': the following arguments are required: ([\w, ]+)")


class Parser(LightningArgumentParser):
    """A LightningArgumentParser that says in one line what is wrong."""

    def error(self, message: str, *more: Any, **settings: Any) -> Any:
        text = one_line(message, self.sets())
        if not self.exit_on_error:
            super().error(text, *more, **settings)
        prog = getattr(settings.get("ex") or next(iter(more), None), "subcommand_parser", self).prog
        self.exit(2, f"{prog.replace(' [options]', '')}: error: {text} (see --help)\n")

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
    missing = _MISSING.search(text)
    if missing:
        options = " and ".join(f"--data.{name.strip()}" for name in missing[2].split(","))
        return f"{missing[1].rpartition('.')[2]} needs {options}"
    if "Expected a dot import path string" in text and 'key "data"' in text and sets:
        text = f"{text.split(':')[0]}: there is no such set; known: {', '.join(sets)}"
    return text
