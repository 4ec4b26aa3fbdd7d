"""What torch.compile must not look into, or must take for a constant; without loading the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable)


def disable_compile(function: Function) -> Function:
    """Do what :func:`torch.compiler.disable` does, which however loads the compiler at once: that takes a second."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def fix_number(value: float) -> float:
    """Return the same number, which the compiler takes for a constant from then on, and compiles anew for another.

    A float that differs from one module to the next becomes a symbol. What special functions make of a symbol cannot be
    guarded. As the key of a dict it has to have a value.

    >>> fix_number(1.5)
    1.5
    """
    return next(iter({value: None}))
