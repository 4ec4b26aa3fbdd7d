"""The memories that the tests go through: Omegas with the name and parameters of their naive twin."""

from __future__ import annotations

import pytest
import torch

from omegamax import KSubsets, NormEntropy, SequentialKSubsets, Shannon, Tsallis
from omegamax.hopfield import Exponential, Power

OMEGAS = {
    "classic": (Power(2, rectified=False), ("power", 2.0, False)),
    "power3": (Power(3), ("power", 3.0, True)),
    "power1.5": (Power(1.5), ("power", 1.5, True)),
    "signed power": (Power(4.5, rectified=False), ("power", 4.5, False)),
    "exponential": (Exponential(), ("exponential",)),
    "softmax": (Shannon(), ("softmax",)),
    "entmax1.2": (Tsallis(1.2), ("entmax", 1.2)),
    "entmax15": (Tsallis(1.5), ("entmax", 1.5)),
    "sparsemax": (Tsallis(2.0), ("entmax", 2.0)),
    "entmax4": (Tsallis(4.0), ("entmax", 4.0)),
    "normmax2": (NormEntropy(2.0), ("normmax", 2.0)),
    "normmax5": (NormEntropy(5.0), ("normmax", 5.0)),
    "k_subsets": (KSubsets(2), ("k_subsets", 2)),
    "sequential": (SequentialKSubsets(2, 0.6), ("sequential_k_subsets", 2, 0.6)),
}
PSIS = ["identity", "l2_norm", "layer_norm", "sign"]

every_omega = pytest.mark.parametrize("name", OMEGAS)
every_psi = pytest.mark.parametrize("psi", PSIS)


def on_sphere(*shape: int, generator: torch.Generator | None = None) -> torch.Tensor:
    x = torch.randn(*shape, dtype=torch.float64, generator=generator)
    return x / x.norm(dim=-1, keepdim=True)
