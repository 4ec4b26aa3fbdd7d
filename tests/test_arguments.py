"""Integers, numbers and types given as arguments are taken or refused by one rule."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from omegamax._arguments import check_count, check_integer, check_interval, check_number, check_type


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


def test_count_is_an_int():
    assert check_count("f", "n", 2, least=2) == 2
    for value in (1, 2.0, True, "2", None):
        with pytest.raises(ValueError, match="f: n must be an int of at least 2, got"):
            check_count("f", "n", value, least=2)


def test_interval_is_open_or_closed_at_either_end():
    inside = ((0, "[0, 1)"), (0.5, "(0, 1)"), (1, "(0, 1]"), (np.float32(1), "[0, 1]"))
    assert [check_interval("f", "x", value, interval) for value, interval in inside] == [0, 0.5, 1, 1]
    for value, interval in ((1, "[0, 1)"), (0, "(0, 1)"), (0, "(0, 1]"), (1.5, "[0, 1]"), (math.nan, "[0, 1]")):
        with pytest.raises(ValueError, match=re.escape(f"f: x must lie in {interval}, got {value!r}")):
            check_interval("f", "x", value, interval)
    for value in (True, "0", None):
        with pytest.raises(TypeError, match=re.escape("f: x must be a number in [0, 1], got")):
            check_interval("f", "x", value, "[0, 1]")
