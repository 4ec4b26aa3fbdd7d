"""Error messages name the function, the argument, what is wanted and what came."""

from __future__ import annotations

import math
import re

import pytest
import torch

import omegamax
from omegamax import _arguments, _checks

Z = torch.zeros(2, 5)

REFUSED = {
    "alpha zero": (lambda: omegamax.entmax(Z, 0.0), ValueError, "entmax: alpha must be > 0, got 0"),
    "alpha negative": (lambda: omegamax.entmax(Z, -1.5), ValueError, "entmax: alpha must be > 0, got -1.5"),
    "alpha nan": (lambda: omegamax.entmax(Z, math.nan), ValueError, "entmax: alpha must be > 0, got nan"),
    "alpha nan in a tensor": (
        lambda: omegamax.entmax(Z, torch.tensor([[1.5], [math.nan]])),
        ValueError,
        "entmax: alpha must be > 0 everywhere",
    ),
    "alpha low in a tensor": (
        lambda: omegamax.entmax(Z, torch.tensor([[1.5], [-0.5]])),
        ValueError,
        "entmax: alpha must be > 0 everywhere, got a minimum of -0.5",
    ),
    "alpha a word": (lambda: omegamax.entmax(Z, "1.5"), TypeError, "alpha must be a float or a tensor, got str"),
    "alpha a bool": (lambda: omegamax.entmax(Z, True), TypeError, "alpha must be a float or a tensor, got bool"),
    "alpha for each entry": (
        lambda: omegamax.entmax(Z, torch.full((2, 5), 1.5)),
        ValueError,
        "entmax: alpha must broadcast to scores of shape (2, 5) with size 1 along dim=1, got shape (2, 5)",
    ),
    "alpha for other rows": (
        lambda: omegamax.entmax(Z, torch.full((3, 1), 1.5)),
        ValueError,
        "got shape (3, 1)",
    ),
    "alpha of higher rank": (
        lambda: omegamax.entmax(Z, torch.full((1, 2, 1), 1.5)),
        ValueError,
        "got shape (1, 2, 1)",
    ),
    "norm of one": (lambda: omegamax.normmax(Z, 1.0), ValueError, "normmax: alpha must be > 1, got 1"),
    "norm below one": (
        lambda: omegamax.normmax(Z, torch.tensor(0.5)),
        ValueError,
        "normmax: alpha must be > 1 everywhere, got a minimum of 0.5",
    ),
    "k too large": (lambda: omegamax.k_subsets(Z, 6), ValueError, "k_subsets: k must lie in [0, 5]"),
    "k negative": (lambda: omegamax.k_subsets(Z, -1), ValueError, "k_subsets: k must lie in [0, 5]"),
    "k nan": (lambda: omegamax.k_subsets(Z, math.nan), ValueError, "k_subsets: k must lie in [0, 5]"),
    "k negative, at most": (
        lambda: omegamax.k_subsets(Z, -1, at_most=True),
        ValueError,
        "k_subsets: k must lie in [0, inf]",
    ),
    "k too large in a tensor": (
        lambda: omegamax.k_subsets(Z, torch.tensor([[2.0], [6.0]])),
        ValueError,
        "k_subsets: k must lie in [0, 5] everywhere",
    ),
    "k a word": (lambda: omegamax.k_subsets(Z, "2"), TypeError, "k_subsets: k must be a number or a tensor, got str"),
    "ceilings too low": (
        lambda: omegamax.constrained_softmax(Z, 0.1),
        ValueError,
        "constrained_softmax: upper must sum to at least 1 in every row, got 0.5",
    ),
    "ceiling below zero": (
        lambda: omegamax.constrained_softmax(Z, torch.tensor([1.0, 1, 1, 1, -0.1])),
        ValueError,
        "constrained_softmax: upper must be >= lower",
    ),
    "ceiling nan": (
        lambda: omegamax.constrained_sparsemax(Z, torch.tensor([1.0, 1, 1, 1, math.nan])),
        ValueError,
        "constrained_sparsemax: upper must be >= lower",
    ),
    "ceilings of another shape": (
        lambda: omegamax.constrained_sparsemax(Z, torch.ones(4)),
        ValueError,
        "constrained_sparsemax: upper of shape (4,) does not broadcast to scores of shape (2, 5)",
    ),
    "floors too high": (
        lambda: omegamax.constrained_sparsemax(Z, 1.0, lower=0.3),
        ValueError,
        "constrained_sparsemax: lower must sum to at most 1 in every row, got 1.5",
    ),
    "floor below zero": (
        lambda: omegamax.constrained_sparsemax(Z, 1.0, lower=-0.1),
        ValueError,
        "constrained_sparsemax: lower must be >= 0",
    ),
    "floor above ceiling": (
        lambda: omegamax.constrained_sparsemax(Z, 0.3, lower=torch.tensor([0.4, 0, 0, 0, 0])),
        ValueError,
        "constrained_sparsemax: upper must be >= lower",
    ),
    "ceilings too low once masked": (
        lambda: omegamax.constrained_softmax(Z, 0.3, mask=torch.arange(5) < 2),
        ValueError,
        "constrained_softmax: upper must sum to at least 1 in every row, got 0.6",
    ),
    "axis a word": (lambda: omegamax.softmax(Z, "last"), TypeError, "softmax: dim must be an int, got str"),
    "axis a float": (lambda: omegamax.softmax(Z, 1.0), TypeError, "softmax: dim must be an int, got float"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_argument_is_refused_by_name(case: str):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_bounds_that_sum_to_one_up_to_rounding_are_accepted():
    for size in (3, 7, 1000):
        for dtype in (torch.float32, torch.float64):
            z, share = torch.randn(size, dtype=dtype), torch.full((size,), 1 / size, dtype=dtype)
            for apply in (omegamax.constrained_softmax, omegamax.constrained_sparsemax):
                assert torch.allclose(apply(z, share), share, rtol=0, atol=1e-7)
            assert torch.allclose(omegamax.constrained_sparsemax(z, 1.0, lower=share), share, rtol=0, atol=1e-7)


def test_numpy_scalars_are_taken():
    import numpy as np

    assert torch.equal(omegamax.entmax(Z, np.float64(1.5)), omegamax.entmax15(Z))
    assert torch.equal(omegamax.entmax(Z, np.float32(1.5)), omegamax.entmax15(Z))
    assert torch.equal(omegamax.k_subsets(Z, np.int64(2)), omegamax.k_subsets(Z, 2))


def test_scalar_parameter_fits_scalar_scores():
    z, a = torch.tensor(0.3), torch.tensor(1.5)
    assert omegamax.entmax(z, a) == omegamax.normmax(z, a) == omegamax.k_subsets(z, torch.tensor(1.0)) == 1


def test_unknown_choice_lists_the_known_ones():
    with pytest.raises(ValueError, match="f: mode must be one of 'a', 'b', got 'c'"):
        _arguments.check_choice("f", "mode", "c", ("a", "b"))


def test_traced_and_mapped_tensors_are_not_read():
    assert _checks.readable(Z) and _checks.readable(torch.nn.Parameter(Z))
    assert not _checks.readable(Z.to("meta"))
    seen = []
    torch.func.vmap(lambda z: seen.append(_checks.readable(z)) or z)(Z)
    assert seen == [False]


def test_shape_is_checked_axis_by_axis():
    fitting = (((2, 3), ("B", 3)), ((3,), ("*", 3)), ((4, 2, 3), ("*", "n", 3)), ((), ()))
    for shape, sizes in fitting:
        assert _checks.check_shape("f", "x", torch.zeros(shape), *sizes).shape == shape
    for shape, sizes in (
        ((2, 3), ("B", 4)),
        ((3,), ("B", 3)),
        ((), ("*", 3)),
        ((0, 3), ("B", 3)),
        ((1, 3), ("*", 2, 3)),
    ):
        with pytest.raises(ValueError, match=re.escape(f"got shape {shape}")):
            _checks.check_shape("f", "x", torch.zeros(shape), *sizes)
    with pytest.raises(ValueError, match=re.escape("f: x must be [*, 2], one for each edge, got shape (3,)")):
        _checks.check_shape("f", "x", torch.zeros(3), "*", 2, meaning="one for each edge")


def test_other_dtypes_than_integers_or_bools_are_refused():
    for dtype in (torch.uint8, torch.int16, torch.int64):
        assert _checks.check_integers("f", "x", torch.zeros(2, dtype=dtype)).dtype == dtype
    for value, given in ((torch.zeros(2), "torch.float32"), (torch.zeros(2) > 0, "torch.bool"), ([1], "list")):
        with pytest.raises(TypeError, match=f"f: x must be a tensor of integers, got {given}"):
            _checks.check_integers("f", "x", value)
    assert _checks.check_bools("f", "x", torch.ones(2) > 0, "True keeps").all()
    for value, given in ((torch.zeros(2), "torch.float32"), (True, "bool")):
        with pytest.raises(TypeError, match=re.escape(f"f: x must be a bool tensor (True keeps), got {given}")):
            _checks.check_bools("f", "x", value, "True keeps")
