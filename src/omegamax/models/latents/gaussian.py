"""Codes of real numbers, the usual ones."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal, kl_divergence

from omegamax.models.latents.base import Draw, Latent, positive


class GaussianLatent(Latent):
    """Real numbers, independent and normal given a picture; standard normal before.

    Not on a simplex: a variable is one number, ``vertices`` is 1. The divergence is closed, gradients go through draws.

    Reference: Kingma and Welling (ICLR 2014).
    """

    def __init__(self, variables: int, vertices: int = 1) -> None:
        if vertices != 1:
            raise ValueError(f"GaussianLatent: vertices must be 1, a variable is a real number; got {vertices}")
        super().__init__(variables, 1, each=2)

    def distribution(self, numbers: Tensor) -> Normal:
        loc, scale = (part.squeeze(-1) for part in self._parts(numbers, 2))
        return Normal(loc, positive(scale), validate_args=False)

    @property
    def prior(self) -> Normal:
        return Normal(self._like, self._like + 1, validate_args=False)

    def draw(self, distribution: Normal, draws: int) -> Draw:
        return Draw(distribution.rsample(torch.Size([draws])).unsqueeze(-1))

    def divergence(self, distribution: Normal, point: Tensor) -> Tensor:
        return kl_divergence(distribution, self.prior).sum(-1)

    def log_ratio(self, distribution: Distribution, point: Tensor) -> Tensor:
        return super().log_ratio(distribution, point.squeeze(-1))
