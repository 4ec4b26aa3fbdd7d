"""Functions that torch.compile must not look into, marked without loading the compiler."""

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
