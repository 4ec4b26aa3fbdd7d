"""Integers, numbers and types given as arguments are taken or refused by one rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omegamax._arguments import check_integer, check_number, check_type


def test_integer_may_be_a_float_or_of_numpy():
    assert [check_integer("f", "n", n, least=0) for n in (3, 3.0, np.int64(3))] == [3, 3, 3]
    assert type(check_integer("f", "n", 3.0)) is int


def test_integer_outside_its_interval_is_refused():
    for value, least, most in ((0, 1, None), (5, 1, 4), (2.5, 1, None), (math.inf, None, None), (math.nan, None, None)):
        with pytest.raises(ValueError, match="f: n must be an integer"):
            check_integer("f", "n", value, least, most)


def test_non_numbers_raise_a_type_error():
    for value in (True, "3", None, [3]):
        with pytest.raises(TypeError, match="f: n must be an integer"):
            check_integer("f", "n", value)
        with pytest.raises(TypeError, match="f: x must be a finite number"):
            check_number("f", "x", value)


def test_number_outside_its_interval_is_refused():
    cases = ((0, {"above": 0}), (-1, {"least": 0}), (2, {"least": 0, "most": 1}), (math.inf, {}), (math.nan, {}))
    for value, bounds in cases:
        with pytest.raises(ValueError, match="f: x must be a finite number"):
            check_number("f", "x", value, **bounds)
    assert check_number("f", "x", math.inf, above=0, finite=False) == math.inf


def test_wrong_type_is_named():
    with pytest.raises(TypeError, match="f: basis must be a str, got int"):
        check_type("f", "basis", 3, str)
