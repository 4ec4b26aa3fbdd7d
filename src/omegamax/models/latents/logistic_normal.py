"""Codes inside a simplex: softmax of Gaussian vectors."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import kl_divergence

from omegamax import mixed
from omegamax.models.latents.base import Latent, positive


class LogisticNormalLatent(Latent):
    """Softmax of Gaussian vectors: inside the simplex, never on its border; softmax of standard normal ones before.

    The counterpart of :class:`GaussianSparsemaxLatent` without zeros, from the same numbers of an encoder. The
    divergence is closed, gradients of the reconstruction go through draws.

    Reference: Aitchison & Shen (Biometrika 1980), for the distribution.
    """

    def __init__(self, variables: int, vertices: int = 2) -> None:
        super().__init__(variables, vertices, each=2 if vertices == 2 else 2 * vertices)

    def distribution(self, numbers: Tensor) -> mixed.LogisticNormal:
        loc, scale = self._parts(numbers, 2)
        return mixed.LogisticNormal(self._scores(loc), positive(scale), validate_args=False)

    @property
    def prior(self) -> mixed.LogisticNormal:
        return mixed.LogisticNormal(self._like.expand(self.vertices), 1.0, validate_args=False)

    def divergence(self, distribution: Any, point: Tensor) -> Tensor:
        return kl_divergence(distribution, self.prior).sum(-1)
