"""A pytest plugin: nothing is installed but what omegamax cannot do without.

``OMEGAMAX_HIDDEN`` names the packages that cannot be imported, separated by commas.
"""

from __future__ import annotations

import importlib.abc
import os
import sys

HIDDEN = frozenset(os.environ["OMEGAMAX_HIDDEN"].split(","))


class Hidden(importlib.abc.MetaPathFinder):
    """Says of hidden packages what Python says of those that are not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN and not asked_by_others():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def asked_by_others() -> bool:
    """Whether one installed package asks for another, rather than omegamax or its tests."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" not in name:
            return "site-packages" in name and "_pytest" not in name
        frame = frame.f_back
    return False


sys.meta_path.insert(0, Hidden())
