"""Warnings of a command: ours are one line each, those of others say where they come from."""

import warnings
from pathlib import Path

from omegamax.cli import _warnings
from omegamax.cli._warnings import show_plainly
from omegamax.data.text import TextWarning


def test_warning_of_this_package_is_one_line_without_its_place():
    before, ours = warnings.formatwarning, str(Path(_warnings.__file__).parent / "main.py")
    with show_plainly("text fit"):
        assert warnings.formatwarning("no\nwords", TextWarning, "mine.py", 3) == (
            "omegamax text fit: warning: no words\n"
        )
        assert warnings.formatwarning("odd \x1b[31m", UserWarning, ours, 3) == (
            "omegamax text fit: warning: odd \\x1b[31m\n"
        )
        assert warnings.formatwarning("theirs", UserWarning, "theirs.py", 3) == "theirs.py:3: UserWarning: theirs\n"
    assert warnings.formatwarning is before
