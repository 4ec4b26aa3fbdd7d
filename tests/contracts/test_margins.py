"""At its margin and beyond, a map is exactly one-hot and its loss exactly zero."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax import KSubsets, NormEntropy, Omega, Tsallis, losses, normmax

F32, F64 = torch.float32, torch.float64
STEEP = [1.75, 2.0, 2.5, 3.0, 5.0, 10.0, 20.0, 50.0, 1e3, 1e6, math.inf]
every_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
both_backends = pytest.mark.parametrize("backend", ["auto", "reference"])


def leading(gap: float, size: int, lead: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scores of which one leads tied others by at least ``gap``, as float64 sees them, and its one-hot vector."""
    z = torch.full((size,), lead - gap, dtype=dtype)
    low = torch.tensor(-math.inf, dtype=dtype)
    while lead - z[0].item() < gap:
        z = torch.nextafter(z, low)
    z[size // 2] = lead
    return z, torch.nn.functional.one_hot(torch.tensor(size // 2), size).to(dtype)


@pytest.mark.parametrize("alpha", [1.001, 1.1, 1.3, 1.5, *STEEP])
@every_dtype
@both_backends
def test_normmax_is_one_hot_from_its_margin_on(alpha: float, dtype: torch.dtype, backend: str):
    with omegamax.backend(backend):
        for size in (2, 3, 7, 100):
            for lead in (0.0, 1.0, -7.25, 1e3):
                for gap in (1.0, 1.5, 100.0):
                    z, wanted = leading(gap, size, lead, dtype)
                    for a in (alpha, torch.tensor(alpha, dtype=dtype)):
                        assert torch.equal(normmax(z, a), wanted)
                        assert torch.equal(normmax(z[:, None].repeat(1, 5), a, 0), wanted[:, None].repeat(1, 5))


@pytest.mark.parametrize("alpha", [2.5, 3.0, 5.0, 20.0, 100.0])
@both_backends
def test_normmax_is_continuous_inside_its_margin(alpha: float, backend: str):
    previous = 1.0
    for i in range(10, 50, 5):
        z = torch.tensor([0.0, 2.0**-i - 1], dtype=F64)
        with omegamax.backend(backend):
            p = normmax(z, alpha)
        # Close to the margin the height h of the second solves h + h^q / q = 2^-i to first order, and p ~ h^(q - 1).
        q = alpha / (alpha - 1)
        low, high = 0.0, 2.0**-i
        for _ in range(200):
            middle = (low + high) / 2
            fall = -math.expm1(math.log1p(-(middle**q)) / q)  # of the first: (1 - l)^q + h^q = 1
            low, high = (low, middle) if middle + fall > 2.0**-i else (middle, high)
        share = low ** (q - 1) / (low ** (q - 1) + (1 - low**q) ** ((q - 1) / q))
        assert p[1].item() == pytest.approx(share, rel=1e-12)
        assert p[1] < previous
        previous = p[1].item()


OMEGAS = [
    *(Tsallis(a) for a in (1.05, 1.1, 1.25, 1.3, 4 / 3, 1.5, *STEEP[:-1])),
    *(NormEntropy(a) for a in (1.1, 1.5, *STEEP)),
    KSubsets(1),
]


@pytest.mark.parametrize("omega", OMEGAS, ids=repr)
@every_dtype
@both_backends
def test_loss_is_zero_from_the_margin_on(omega: Omega, dtype: torch.dtype, backend: str):
    margin = omega.margin
    # 1 / (alpha - 1) may be rounded down, and the probabilities at it be powers of a rounding error.
    margin = margin if margin in (1.0, 2.0) else math.nextafter(margin, math.inf)
    for size in (2, 3, 7, 100):
        for lead in (0.0, 1.0, 3.5):
            for factor in (1.0, 1.5):
                z, y = leading(factor * margin, size, lead, dtype)
                target = y.argmax()[None]
                with omegamax.backend(backend):
                    assert torch.equal(omega.argmax(z), y)
                    assert losses.fenchel_young_loss(z[None], y[None], omega) == 0
                    if isinstance(omega, Tsallis):
                        assert losses.entmax_loss(z[None], target, omega.alpha) == 0
                    elif isinstance(omega, NormEntropy):
                        assert losses.normmax_loss(z[None], target, omega.alpha) == 0
                    else:
                        assert losses.k_subsets_loss(z[None], target, k=1) == 0
