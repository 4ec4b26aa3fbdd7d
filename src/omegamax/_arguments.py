"""Checks of arguments that are no tensors: integers, numbers, words and types.

Each names the function, the argument, what is wanted and what was given. A wrong type raises ``TypeError``, a wrong
value ``ValueError``. Checks of tensors are in :mod:`omegamax._checks`.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, TypeVar

T = TypeVar("T")


def check_integer(name: str, argument: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Refuse what is no integer in ``[least, most]``; return it as an int, a float like 3.0 too.

    >>> check_integer("Hopfield", "steps", 3, least=1)
    3
    >>> check_integer("Hopfield", "steps", 0, least=1)
    Traceback (most recent call last):
    ValueError: Hopfield: steps must be an integer >= 1, got 0
    """
    wanted = f"an integer{_interval(least, most)}"
    if not is_number(value):
        raise TypeError(f"{name}: {argument} must be {wanted}, got {_shown(value)}")
    if not is_integer(value) or (least is not None and value < least) or (most is not None and value > most):
        raise ValueError(f"{name}: {argument} must be {wanted}, got {_shown(value)}")
    return value if isinstance(value, int) else int(value)  # a compiler's symbol for an int stays one


def check_number(
    name: str,
    argument: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    finite: bool = True,
) -> float:
    """Refuse what is no real number with ``above < value`` or ``least <= value <= most``; return it as a float.

    NaN is refused always, infinity if ``finite``.

    >>> check_number("RidgeFit", "penalty", -1, least=0)
    Traceback (most recent call last):
    ValueError: RidgeFit: penalty must be a finite number >= 0, got -1
    """
    kind = "a finite number" if finite else "a number"
    wanted = kind + (f" > {above:g}" if above is not None else _interval(least, most))
    if not is_number(value):
        raise TypeError(f"{name}: {argument} must be {wanted}, got {_shown(value)}")
    outside = (
        math.isnan(value)
        or (finite and math.isinf(value))
        or (above is not None and not value > above)
        or (least is not None and not value >= least)
        or (most is not None and not value <= most)
    )
    if outside:
        raise ValueError(f"{name}: {argument} must be {wanted}, got {_shown(value)}")
    return float(value)


def check_count(name: str, argument: str, value: Any, least: int = 1) -> int:
    """Refuse what is no int of at least ``least``, or is a float that happens to be one; return it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: {argument} must be an int of at least {least}, got {value!r}")
    return value


def check_interval(name: str, argument: str, value: Any, interval: str) -> float:
    """Refuse what is no number in an interval, written as in mathematics; return it.

    >>> check_interval("Hopfield", "dropout", 1, "[0, 1)")
    Traceback (most recent call last):
    ValueError: Hopfield: dropout must lie in [0, 1), got 1
    """
    low, high = map(float, interval[1:-1].split(","))
    if not is_number(value):
        raise TypeError(f"{name}: {argument} must be a number in {interval}, got {_shown(value)}")
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    if not (above and below):
        raise ValueError(f"{name}: {argument} must lie in {interval}, got {value!r}")
    return value


def check_sizes(name: str, argument: str, size: object, n: int | None = None) -> tuple[int, ...]:
    """Refuse what is no tuple of positive ints, one for each of n axes; an int counts for every axis."""
    is_int = isinstance(size, int) and not isinstance(size, bool)
    sizes = (size,) * (n or 1) if is_int else size
    if not isinstance(sizes, tuple | list) or not sizes or not all(type(k) is int for k in sizes):
        raise TypeError(f"{name}: {argument} must be an int or a tuple of ints, got {size!r}")
    if n is not None and len(sizes) != n:
        raise ValueError(f"{name}: {argument} must have one entry for each of {n} axes, got {size!r}")
    if not all(k >= 1 for k in sizes):
        raise ValueError(f"{name}: {argument} must be at least 1 along every axis, got {size!r}")
    return tuple(sizes)


def check_choice(name: str, argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}: {argument} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_type(name: str, argument: str, value: Any, kind: type[T], wanted: str | None = None) -> T:
    """Refuse what is no instance of ``kind``, in words ``wanted``; return it.

    >>> check_type("RidgeFit", "basis", 3, str, "the name of a basis")
    Traceback (most recent call last):
    TypeError: RidgeFit: basis must be the name of a basis, got int
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}: {argument} must be {wanted or f'a {kind.__name__}'}, got {type(value).__name__}")
    return value


def is_number(value: object) -> bool:
    """Tell whether this is one real number, Python's or NumPy's; True and False are not."""
    return isinstance(value, (float, int, Real)) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Tell whether this is one integer, as an int or as a float; True and False are not."""
    if isinstance(value, int):  # first: a compiler's symbol for an int has no other property
        return not isinstance(value, bool)
    return is_number(value) and math.isfinite(value) and int(value) == value  # type: ignore[arg-type, call-overload]


def _interval(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f" <= {_bound(most)}"
    return f" >= {_bound(least)}" if most is None else f" from {_bound(least)} to {_bound(most)}"


def _bound(value: float) -> str:
    return f"{value}" if isinstance(value, int) else f"{value:g}"  # all digits of an integer


def _shown(value: Any) -> str:
    return f"{value!r}" if is_number(value) or isinstance(value, str) else type(value).__name__
