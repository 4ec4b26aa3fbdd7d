"""The parser of settings, with errors that fit on a line."""

from __future__ import annotations

import re
from argparse import SUPPRESS
from collections.abc import Sequence
from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from omegamax.cli._config import REFUSAL
from omegamax.data.errors import printable

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
# Settings that the short help shows: those of the task itself, and of the rest what is changed most.
_USED = re.compile(
    r"help|config|print_config|out|ckpt_path|seed_everything|data|data\.help|model\.\w+|model\.network\.output\.(kind|alpha|strength)|"
    r"model\.rate\.peak|trainer\.(accelerator|devices|max_epochs|max_steps|precision|val_check_interval|gradient_clip_val)"
)
_MORE = (
    "All settings: --help.full. Those of a set: --data.help CLASS, given as --data.NAME VALUE. Their values, as a file "
    "for --config:\n--print_config."
)
# In place of texts that speak to those who write programs.
_HELP = {
    "config": "file of settings, YAML; later files and arguments go above earlier ones",
    "ckpt_path": '"last": go on with the run in --out, or start it; "best" or a file: what to measure or go on from',
    "seed_everything": "seed of weights and draws",
    "trainer.accelerator": "cpu, gpu, ...",
    "trainer.devices": "how many of them, or which, in brackets",
    "trainer.max_epochs": "epochs to train for",
    "trainer.max_steps": "steps to train for, in place of epochs",
    "trainer.precision": "32-true, bf16-mixed, 16-mixed, ...",
    "trainer.val_check_interval": "steps from one validation to the next, or share of an epoch",
    "trainer.gradient_clip_val": "largest norm of a gradient",
}


class Parser(LightningArgumentParser):
    """A LightningArgumentParser that says in one line what is wrong, and shows the settings most used unless asked."""

    full = False  # whether the help has all settings

    def format_help(self, *formatter: Any) -> str:
        """Return the text of ``--help``: the settings most used, or with ``full`` all of them."""
        stage = any(action.dest == "trainer.max_epochs" for action in self._actions)
        before = [(action, action.help) for action in self._actions]
        for action in self._actions:
            action.help = _HELP.get(action.dest, action.help)
            if stage and not self.full and not _USED.fullmatch(action.dest):
                action.help = SUPPRESS
        try:
            text = plain(super().format_help(*formatter))
        finally:
            for action, text_before in before:
                action.help = text_before
        return f"{text}\n{_MORE}\n" if stage and not self.full else text

    def error(self, message: str, *more: Any, **settings: Any) -> Any:
        text = printable(one_line(message, self.sets()))
        if not self.exit_on_error:
            super().error(text, *more, **settings)
        prog = getattr(settings.get("ex") or next(iter(more), None), "subcommand_parser", self).prog
        self.exit(2, f"{prog.replace(' [options]', '')}: error: {text} (see --help)\n")

    def sets(self) -> Sequence[str]:
        """Return names that ``--data`` takes."""
        return ()


def plain(text: str) -> str:
    """Return text of docstrings without the marks that are for those who typeset it.

    >>> plain("a :class:`~omegamax.models.GridCNN`, as ``fit`` writes it")
    'a GridCNN, as fit writes it'
    """
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?([^`]+)`", r"\1", text).replace("``", "")


def one_line(message: str, sets: Sequence[str] = ()) -> str:
    """Return the setting, what was wanted, and what was given; of a class of data, the names that there are.

    >>> one_line("Parser key: \\n  Subtypes: [int, float]\\n  Errors:\\n    - Expected an int")
    'Parser key: - Expected an int'
    """
    lines = [line.strip() for line in message.splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith(_NOISE))
    if refused := REFUSAL.search(text):  # not the other types that were tried, too
        return f"{text.split(':')[0]}: {refused[0]}"
    missing = _MISSING.search(text)
    if missing:
        options = " and ".join(f"--data.{name.strip()}" for name in missing[2].split(","))
        return f"{missing[1].rpartition('.')[2]} needs {options}"
    if "Expected a dot import path string" in text and 'key "data"' in text and sets:
        text = f"{text.split(':')[0]}: there is no such set; known: {', '.join(sets)}"
    return text
