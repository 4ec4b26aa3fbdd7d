"""Densities of every family, repeated and mixed, compile without a break."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    Density,
    Gaussian,
    GridDensity,
    LocationScale,
    Mixture,
    Triangular,
    TruncatedParaboloid,
)

F64 = torch.float64
NODES = torch.linspace(-3, 3, 20, dtype=F64)
FAMILIES = {
    "full": lambda loc, scale: BetaGaussian(loc, scale.unsqueeze(-1), 1.7),
    "diagonal": lambda loc, scale: Gaussian(loc, scale_diag=scale),
    "factor": lambda loc, scale: BetaGaussian(loc, scale_tril=scale.unsqueeze(-1)),
    "alpha": lambda loc, scale: BetaGaussian(loc, scale_diag=scale, alpha=1 + scale.squeeze(-1)),
    "moments": lambda loc, scale: TruncatedParaboloid.from_moments(loc, scale.unsqueeze(-1)),
    "BetaLaplace": lambda loc, scale: BetaLaplace(loc, scale, 1 + scale.squeeze(-1)),
    "Triangular": Triangular,
    "LocationScale": lambda loc, scale: LocationScale(torch.cosh, loc, scale),
    "grid": lambda loc, scale: GridDensity(
        -(NODES - loc).square() / scale, NODES.unsqueeze(-1), torch.full_like(NODES, 0.3)
    ),
}


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "LocationScale" else []) for name in FAMILIES],
)
def test_densities_are_repeated_mixed_and_stacked(family: str):
    make = FAMILIES[family]

    def through(weights: Tensor, loc: Tensor, scale: Tensor) -> list[Tensor]:
        p: Density = make(loc, scale)
        mixture = Mixture(weights, p)
        stacked = Mixture.stack([mixture, Mixture(weights[:1] / weights[:1], make(loc[:1], scale[:1]))])
        return [each.log_prob(loc[0]) for each in (p.expand((2, 3)), mixture, mixture.expand((2,)), stacked)]

    torch._dynamo.reset()
    weights = torch.tensor([0.6, 0.4, 0.0], dtype=F64)
    given = weights, torch.tensor([[0.2], [0.5], [0.9]], dtype=F64), torch.tensor([[0.5], [0.7], [0.4]], dtype=F64)
    compiled = torch.compile(through, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given), through(*given), rtol=1e-13, atol=1e-13)
