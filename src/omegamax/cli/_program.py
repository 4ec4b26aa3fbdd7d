"""How the user calls this program from where they are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """Return the word, or words, that start this program in the user's shell.

    That is ``omegamax`` where the shell finds the one that runs, the path to it where the shell does not, and the
    interpreter with ``-m omegamax`` where it was started as a module.
    """
    here = Path(sys.executable).parent / "omegamax"
    script = Path(sys.argv[0]) if Path(sys.argv[0]).name == "omegamax" else here
    if not script.is_file():
        return f"{shlex.quote(_short(Path(sys.executable)))} -m omegamax"
    found = shutil.which("omegamax")
    if found is not None and os.path.samefile(found, script):
        return "omegamax"
    return shlex.quote(_short(script))


def _short(path: Path) -> str:
    """Return the path from the working folder where it is below it, else in full."""
    # Not resolved: the interpreter of an environment is a link out of it.
    full = Path(os.path.abspath(path))
    try:
        return str(full.relative_to(Path.cwd()))
    except ValueError:
        return str(full)
