"""Modules that are called like the function whose name they share."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable


def make_callable(name: str, function: Callable) -> None:
    """Let module ``name`` be called as ``function``: importing it replaces the package's function of that name."""

    class CallableModule(types.ModuleType):
        def __call__(self, *args, **options):
            return function(*args, **options)

    module = sys.modules[name]
    module.__class__ = CallableModule
    module.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
