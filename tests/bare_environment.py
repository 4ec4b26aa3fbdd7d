"""A pytest plugin that hides packages: nothing is left but what omegamax cannot do without.

``OMEGAMAX_HIDDEN`` names them, separated by commas. ``OMEGAMAX_CASES``: run each test with so many of its parameters
at most, drawn by its name; all of them run where nothing is hidden.
"""

from __future__ import annotations

import os
import random
import sys
from collections import defaultdict

HIDDEN = frozenset(filter(None, os.environ.get("OMEGAMAX_HIDDEN", "").split(",")))

CASES = int(os.environ.get("OMEGAMAX_CASES", "0"))


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


def pytest_collection_modifyitems(config, items):
    if not CASES:
        return
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            continue
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = set()
    for name, each in cases.items():
        kept.update(random.Random(name).sample(each, min(CASES, len(each))))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
