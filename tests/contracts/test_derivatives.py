"""Every derivative of entmax and normmax, over all alphas and the rows that are hard for some, against 80 digits.

One tensor holds all alphas, one for each row; numbers and other backends have to give the same.
"""

from __future__ import annotations

import functools
import math

import mpmath
import pytest
import torch
from maps.exact_derivatives import DIGITS, Entmax, Normmax
from torch import Tensor
from torch.func import jvp

import omegamax
from omegamax import NormEntropy, Tsallis, entmax, normmax
from omegamax.losses import entmax_loss, fenchel_young_loss, normmax_loss

F32, F64 = torch.float32, torch.float64
STEEP = [2.5, 3, 5, 10, 20, 50, 100, 1e3]
ALPHAS = {
    "entmax": [0.1, 0.3, 0.5, 0.9, 0.999, 1, 1 + 1e-6, 1.001, 1.1, 1.25, 1.5, 1.75, 1.999, 2, *STEEP],
    "normmax": [1.01, 1.1, 1.3, 1.5, 1.75, 1.999, 2, *STEEP],
}
ROWS = {
    "spread": [0.3, -1.2, 2.1, 0.9, -0.4, 1.7],
    "tied": [0.961, 0.961, 0.961, 1.0],
    "one billionth apart": [0.5, 0.5 + 1e-9, 0.5 - 1e-9, 0.3],
    "one millionth apart": [0.5, 0.5 + 1e-6, 0.5 - 1e-6, 0.3],
    "one thousandth apart": [0.5, 0.501, 0.499, 0.3, 0.3],
    "underflowing": [0.0, -1.0, -710.0, -720.0, -2000.0],
    "far": [0.0, -2.0, -690.0, -1e4],
    "of huge scores": [2.0**20, 2.0**20 - 0.5, 2.0**20 - 1.0, -(2.0**20)],
    "masked": [0.2, -math.inf, 0.1, 0.15, -math.inf],
    "single": [0.7],
    "of two": [0.3, 0.28],
    "of two equals": [1.0, 1.0],
    "at many edges": [0.0, -0.001, -0.002, -0.0499, -0.0499],
    "flat": [0.25] * 4,
}
MAPS = {"entmax": (entmax, Entmax), "normmax": (normmax, Normmax)}
every_row = pytest.mark.parametrize("row", ROWS)
every_map = pytest.mark.parametrize("name", MAPS)
every_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
both_backends = pytest.mark.parametrize("backend", ["auto", "reference"])


def inputs(name: str, row: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores ``[A, K]``, alphas ``[A, 1]``, and two directions ``[A, K]``."""
    alpha = torch.tensor(ALPHAS[name], dtype=dtype)[:, None]
    z = torch.tensor(ROWS[row], dtype=dtype).repeat(len(alpha), 1)
    source = torch.Generator().manual_seed(1)
    g, v = (torch.randn(z.shape[1], dtype=F64, generator=source).to(dtype).expand_as(z) for _ in range(2))
    return z, alpha, g, v


@functools.cache
def truth(name: str, row: str, dtype: torch.dtype, order: int = 1) -> dict[str, Tensor]:
    """The derivatives of an order in float64, infinite where ``dtype`` has no number as large."""
    z, alpha, g, v = inputs(name, row, dtype)
    most = torch.finfo(dtype).max
    found: dict[str, list[list[float]]] = {}
    with mpmath.workdps(DIGITS):
        for scores, (a,), first, second in zip(*(x.tolist() for x in (z, alpha, g, v)), strict=True):
            row_of = MAPS[name][1](scores, a)
            left, right = row_of.on_support(first), row_of.on_support(second)
            if order == 1:
                values = {"p": row_of.p, "dz": row_of.times(left), "dp/dalpha": row_of.in_alpha()}
            else:
                values = {
                    "dz dz": row_of.twice(left, right),
                    "dz dalpha": row_of.mixed(left),
                    "d2p/dalpha2": row_of.twice_in_alpha(),
                }
            for key, value in values.items():
                entries = [float(x) if abs(x) <= most else math.copysign(math.inf, x) for x in row_of.everywhere(value)]
                found.setdefault(key, []).append(entries)
    return {key: torch.tensor(value, dtype=F64) for key, value in found.items()}


def assert_near(got: Tensor, wanted: Tensor, alpha: Tensor, absolute: float = 0.0) -> None:
    """Within what the rounding of a probability does to its power ``2 - alpha``, compared with the largest entry.

    ``absolute`` is in units of rounding. Rows with an entry beyond the range of the dtype are left out.
    """
    eps = torch.finfo(got.dtype).eps
    rows = wanted.isfinite().all(-1)
    error = (got.double() - wanted)[rows].abs().amax(-1)
    allowed = eps * ((128 + 64 * alpha.double()[rows, 0]) * wanted[rows].abs().amax(-1) + absolute)
    wrong = ~(error <= allowed)  # NaN is
    assert not wrong.any(), [x[wrong].tolist() for x in (alpha[rows, 0], error, allowed)]


def assert_sum_near(got: Tensor, terms: Tensor, alpha: Tensor) -> None:
    """The same for one sum of each row, compared with its terms."""
    eps = torch.finfo(got.dtype).eps
    rows = terms.isfinite().all(-1)
    error = (got.double()[rows, 0] - terms[rows].sum(-1)).abs()
    allowed = eps * ((128 + 64 * alpha.double()[rows, 0]) * terms[rows].abs().sum(-1) + 64)
    wrong = ~(error <= allowed)
    assert not wrong.any(), [x[wrong].tolist() for x in (alpha[rows, 0], error, allowed)]


@every_map
@every_row
@every_dtype
@both_backends
def test_first_derivatives(name: str, row: str, dtype: torch.dtype, backend: str):
    z, alpha, g, _ = inputs(name, row, dtype)
    wanted, function = truth(name, row, dtype), MAPS[name][0]
    leaf, a = z.clone().requires_grad_(), alpha.clone().requires_grad_()
    with omegamax.backend(backend):
        p = function(leaf, a)
        assert_near(p.detach(), wanted["p"], alpha)
        for create_graph in (False, True):
            dz, dalpha = torch.autograd.grad(p, (leaf, a), g, create_graph=create_graph, retain_graph=True)
            assert_in_scores(dz.detach(), wanted["dz"], alpha)
            # Probabilities of nearly equal scores hold the difference to a rounding error, and with it what alpha does.
            assert_sum_near(dalpha.detach(), g * wanted["dp/dalpha"], alpha)
        assert_in_scores(jvp(lambda z: function(z, alpha), (z,), (g,))[1], wanted["dz"], alpha)
        tangent = jvp(lambda a: function(z, a), (alpha,), (torch.ones_like(alpha),))[1]
        assert_near(tangent, wanted["dp/dalpha"], alpha, 64)
        numbers = []
        for i, number in enumerate(alpha[:, 0].tolist()):
            numbers.append(torch.autograd.grad(function(leaf, number), leaf, g)[0][i])
        assert_in_scores(torch.stack(numbers), wanted["dz"], alpha)


def assert_in_scores(got: Tensor, wanted: Tensor, alpha: Tensor) -> None:
    """Entries beyond the range of the dtype are infinite, with their sign; none is NaN."""
    assert_near(got, wanted, alpha)
    assert torch.equal(got.double()[wanted.isinf()], wanted[wanted.isinf()])
    assert not got.isnan().any()


@every_row
@every_dtype
@both_backends
def test_second_derivatives_of_entmax(row: str, dtype: torch.dtype, backend: str):
    z, alpha, g, v = inputs("entmax", row, dtype)
    wanted = truth("entmax", row, dtype, order=2)
    leaf, a = z.clone().requires_grad_(), alpha.clone().requires_grad_()
    with omegamax.backend(backend):
        dz, dalpha = torch.autograd.grad(entmax(leaf, a), (leaf, a), g, create_graph=True)
        twice, back = torch.autograd.grad(dz, (leaf, a), v, retain_graph=True)
        mixed, curve = torch.autograd.grad(dalpha, (leaf, a), torch.ones_like(alpha))
    assert_near(twice, wanted["dz dz"], 2 * alpha, 64)
    assert_near(mixed, wanted["dz dalpha"], 2 * alpha, 64)
    assert_sum_near(curve, g * wanted["d2p/dalpha2"], 2 * alpha)
    assert_sum_near(back, v * wanted["dz dalpha"], 2 * alpha)


@every_map
@every_row
@every_dtype
@both_backends
def test_gradient_of_the_loss_in_alpha(name: str, row: str, dtype: torch.dtype, backend: str):
    """By the envelope theorem, minus that of Omega at the probabilities, plus that at the target."""
    z, alpha, *_ = inputs(name, row, dtype)
    solution = MAPS[name][1]
    omega, loss = {"entmax": (Tsallis, entmax_loss), "normmax": (NormEntropy, normmax_loss)}[name]
    kept = (z[0] > -math.inf).nonzero()[:, 0]
    # Halves, so that the target sums to one exactly.
    y = torch.zeros_like(z)
    y[:, kept[0]] += 0.5
    y[:, kept[-1]] += 0.5
    terms = []
    with mpmath.workdps(DIGITS):
        for scores, (a,), target in zip(*(x.tolist() for x in (z, alpha, y)), strict=True):
            at_p = _omega_in_alpha(name, solution(scores, a).p, mpmath.mpf(a))
            at_y = _omega_in_alpha(name, [mpmath.mpf(x) for x in target if x > 0], mpmath.mpf(a))
            terms.append([-float(at_p), float(at_y)])
    wanted = torch.tensor(terms, dtype=F64)
    a, b = alpha.clone().requires_grad_(), alpha.clone().requires_grad_()
    with omegamax.backend(backend):
        fenchel_young_loss(z, y, omega(a), reduction="sum").backward()
        loss(z, kept[:1].expand(len(z)), b, reduction="sum").backward()
    assert_sum_near(a.grad, wanted, alpha)
    assert_sum_near(b.grad, wanted[:, :1], alpha)


def _omega_in_alpha(name: str, p: list[mpmath.mpf], a: mpmath.mpf) -> mpmath.mpf:
    """The derivative of Omega at ``p`` in alpha, by a central difference that keeps forty digits."""

    def value(a: mpmath.mpf) -> mpmath.mpf:
        power = mpmath.fsum(x**a for x in p)
        return power ** (1 / a) if name == "normmax" else (power - 1) / (a * (a - 1))

    h = mpmath.mpf(10) ** -20
    return (value(a + h) - value(a - h)) / (2 * h)
