"""``python -m omegamax``."""

import os
import sys

import omegamax


def _leave_folder() -> None:
    """Take the current folder, which ``-m`` puts first, off the path: no file that lies there is to pass for a module.

    It stays where the package itself is imported from it.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(omegamax.__file__)))
    here = os.getcwd()
    if sys.path and os.path.realpath(sys.path[0] or here) == os.path.realpath(here) != os.path.realpath(package):
        del sys.path[0]


if __name__ == "__main__":
    _leave_folder()

    from omegamax.cli.main import main

    sys.exit(main())
