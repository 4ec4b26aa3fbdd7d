"""Codes on every face of a simplex: projected Gaussian and mixed Dirichlet ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import kl_divergence

from omegamax import mixed
from omegamax.models.latents.base import Draw, Latent, positive


class GaussianSparsemaxLatent(Latent):
    """Gaussian vectors, projected onto the simplex; one density on all faces before.

    Gradients of the reconstruction go through draws. With two vertices (rectified Gaussian numbers) the divergence is
    closed. With more it is the mean over draws of its own, as many as there are points and at least two, with the
    gradient of the score function: a gradient through them would not see mass move from face to face.

    Reference: Farinhas et al. (ICLR 2022).
    """

    order = 16  # of the integral in the density

    def __init__(self, variables: int, vertices: int = 2) -> None:
        super().__init__(variables, vertices, each=2 if vertices == 2 else 2 * vertices)

    def distribution(self, numbers: Tensor) -> mixed.GaussianSparsemax:
        loc, scale = self._parts(numbers, 2)
        return mixed.GaussianSparsemax(self._scores(loc), positive(scale), order=self.order, validate_args=False)

    @property
    def prior(self) -> mixed.MaxEntropyMixed:
        return self._same_everywhere()

    def divergence(self, distribution: Any, point: Tensor) -> Tensor:
        return mixed.kl_divergence(distribution, self.prior, samples=max(2, len(point))).value.sum(-1)


class MixedDirichletLatent(Latent):
    """A face, then a Dirichlet point on it; one density on all faces before. The divergence is closed.

    A point moves on its face with the concentrations. Which face it is, is a choice: the gradient to the scores of
    faces is that of the score function.

    Reference: Farinhas et al. (ICLR 2022).
    """

    def __init__(self, variables: int, vertices: int = 2) -> None:
        super().__init__(variables, vertices, each=2 * vertices)

    def distribution(self, numbers: Tensor) -> mixed.MixedDirichlet:
        scores, concentration = self._parts(numbers, 2)
        return mixed.MixedDirichlet(scores, positive(concentration), validate_args=False)

    @property
    def prior(self) -> mixed.MaxEntropyMixed:
        return self._same_everywhere()

    def draw(self, distribution: mixed.MixedDirichlet, draws: int) -> Draw:
        face = distribution.sample_face((draws,))
        return Draw(distribution.rsample_on(face), distribution.log_face_prob(face).sum(-1))

    def divergence(self, distribution: Any, point: Tensor) -> Tensor:
        return kl_divergence(distribution, self.prior).sum(-1)
