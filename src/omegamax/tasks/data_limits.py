"""Limits of the settings of data: the file of a network says what it was trained on, and may come from anyone."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from omegamax._arguments import is_number
from omegamax.data.files import short


class Limit(NamedTuple):
    """What a setting may be: one number or several, from ``least`` to ``most``, integers unless ``real``."""

    least: int
    most: int
    numbers: int = 1
    real: bool = False

    def wanted(self, value: Any) -> str | None:
        """Say what is wanted in place of a value; None if it is within the limit."""
        number = "number" if self.real else "whole number"
        what = f"a {number}" if self.numbers == 1 else f"{self.numbers} {number}s"
        values = (value,) if self.numbers == 1 else value
        sequence = isinstance(values, (tuple, list)) and len(values) == self.numbers
        if sequence and all(is_number(each) and (self.real or isinstance(each, Integral)) for each in values):
            if any(each < self.least for each in values):
                return f"{what} >= {self.least:,}"
            if all(each <= self.most for each in values):  # NaN is not
                return None
        return f"{what} from {self.least:,} to {self.most:,}"


def check_limits(name: str, settings: Mapping[str, Any], limits: Mapping[str, Limit]) -> None:
    """Refuse a setting beyond its limit before anything of its size is made; None stands for what is not known.

    >>> limits = {"workers": Limit(0, 512), "size": Limit(1, 8192, numbers=2)}
    >>> check_limits("MyData", {"workers": 4, "size": (64, 96), "folder": "here"}, limits)
    >>> check_limits("MyData", {"workers": 10**6}, limits)
    Traceback (most recent call last):
        ...
    ValueError: MyData: workers must be a whole number from 0 to 512, got 1000000
    """
    for key, limit in limits.items():
        given = settings.get(key)
        if given is not None and (wanted := limit.wanted(given)):
            raise ValueError(f"{name}: {key} must be {wanted}, got {short(given)}")
