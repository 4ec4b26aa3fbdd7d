"""The table that chooses kernels for a GPU: every call fits one rule, and every kernel that it names is there."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from omegamax.kernels import choice
from omegamax.kernels.choice import RULES, Case, choose, entmax_case, exponent_of, normmax_case
from omegamax.kernels.kinds import Kind

LENGTHS = (1, 2, 511, 512, 513, 4096, 4097, 8192, 8193, 16384, 16385, 32768, 32769, 10**6)


def test_rules_of_an_operation_exclude_each_other_and_leave_no_gap():
    keys = {(rule.operation, case, size) for rule in RULES for case in rule.cases for size in rule.bytes}
    for operation, case, itemsize in keys:
        longest = [r.longest for r in RULES if r.operation == operation and case in r.cases and itemsize in r.bytes]
        *bounded, last = longest
        assert last is None and None not in bounded and bounded == sorted(set(bounded)), (operation, case, itemsize)


def test_length_from_which_a_rule_holds_is_where_it_is_taken():
    for rule in RULES:
        first = choice.shortest(rule)
        for case, itemsize in itertools.product(rule.cases, rule.bytes):
            assert choose(rule.operation, case, itemsize, first) == rule.kernels
            if rule.longest is not None:
                assert choose(rule.operation, case, itemsize, rule.longest) == rule.kernels


def test_every_call_of_a_map_has_a_kernel():
    alphas = (0.3, 1.0, 1.0001, 1.1, 10 / 9, 1.12, 1.25, 4 / 3, 1.4, 1.5, 1.7, 2 - 1e-9, 2.0, 2.5, math.inf, math.nan)
    for alpha, itemsize, size in itertools.product((*alphas, torch.ones(1)), (2, 4, 8), LENGTHS):
        for operation in ("entmax", "entmax_vjp"):
            assert choose(operation, entmax_case(alpha), itemsize, size)
    for alpha, itemsize, size in itertools.product(
        (1.01, 1.125, 1.5, 2.0, 3.0, 64.0, 65.0, math.inf), (2, 4, 8), LENGTHS
    ):
        for operation in ("normmax", "normmax_vjp"):
            assert choose(operation, normmax_case(alpha), itemsize, size)


@pytest.mark.parametrize(
    ("alpha", "case", "exponent"),
    [
        (2.0, Case.ALPHA_2, (Kind.SPARSEMAX, 1, 0.0)),
        (2 - 1e-9, Case.ALPHA_2, (Kind.SPARSEMAX, 1, 0.0)),
        (1.5, Case.ALPHA_15, (Kind.ENTMAX15, 2, 0.0)),
        (1.5 + 1e-9, Case.ALPHA_15, (Kind.ENTMAX15, 2, 0.0)),
        (4 / 3, Case.INTEGER, (Kind.ENTMAX_POWER, 3, 0.0)),
        (1.8, Case.FRACTION, (Kind.ENTMAX_POWER, 1, 0.25)),
        (1.05, Case.NEAR_1, None),
        (1.0, Case.ALPHA_1, None),
        (0.5, Case.ALPHA_BELOW_1, None),
        (2.5, Case.ALPHA_ABOVE_2, None),
    ],
)
def test_case_and_exponent_of_an_alpha(alpha, case, exponent):
    assert entmax_case(alpha) is case
    found = exponent_of(alpha)
    assert found == exponent if exponent is None else found[:2] == exponent[:2]
    assert exponent is None or found.fraction == pytest.approx(exponent[2])


def test_kernels_of_the_table_are_those_of_the_launchers():
    pytest.importorskip("triton", minversion="3.4")
    from omegamax.kernels.attention.triton import launcher as attention
    from omegamax.kernels.bounds.triton import launcher as bounds
    from omegamax.kernels.contour.triton import launcher as contour
    from omegamax.kernels.gaussian.triton import launcher as gaussian
    from omegamax.kernels.isotonic.triton import launcher as isotonic
    from omegamax.kernels.losses.triton import launcher as losses
    from omegamax.kernels.mixtures.triton import launcher as mixtures
    from omegamax.kernels.moments.triton import launcher as moments
    from omegamax.kernels.plane.triton import launcher as plane
    from omegamax.kernels.rows.triton import launcher as rows
    from omegamax.kernels.variation import cpu as variation_on_host
    from omegamax.kernels.variation.triton import launcher as variation

    modules = (rows, bounds, losses, attention, moments, gaussian, contour, plane, mixtures, isotonic, variation)
    plain = [module.reference for module in (rows, bounds, isotonic)]
    for name in {name for rule in RULES for name in rule.kernels}:
        *where, function = name.split(".")
        places = {"reference": plain, "host": [variation_on_host]}[where[0]] if where else modules
        assert any(hasattr(module, function) for module in places), name
    assert set(rows.FORWARD) == {
        name for rule in RULES if rule.operation in ("entmax", "normmax") for name in rule.kernels if "." not in name
    }


def test_no_rule_is_an_error_that_names_the_call():
    with pytest.raises(LookupError, match="no rule for entmax with a bound or the sum is a tensor, 4 bytes, 3 entries"):
        choose("entmax", Case.TENSORS, 4, 3)
