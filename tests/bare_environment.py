"""A pytest plugin that hides packages: nothing is left but what omegamax cannot do without.

``OMEGAMAX_HIDDEN`` names them, separated by commas.
"""

from __future__ import annotations

import os
import sys

HIDDEN = frozenset(filter(None, os.environ.get("OMEGAMAX_HIDDEN", "").split(",")))


class Hiding:
    """A finder that does not find the hidden packages, as if they were not installed."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


if HIDDEN:
    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
