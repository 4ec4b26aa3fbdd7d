"""Codes that start from Gumbel noise: relaxed, discrete, stretched."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Dirichlet, Distribution, kl_divergence

from omegamax import mixed
from omegamax.functional import sparsemax
from omegamax.models.latents.base import Latent


class ConcreteLatent(Latent):
    """What the laws of this file have in common: logits from the encoder, and a temperature."""

    def __init__(self, variables: int, vertices: int, temperature: float = 0.5) -> None:
        if vertices < 2:
            raise ValueError(f"{type(self).__name__}: vertices must be at least 2, got {vertices}")
        if not temperature > 0:
            raise ValueError(f"{type(self).__name__}: temperature must be positive, got {temperature!r}")
        super().__init__(variables, vertices, each=1 if vertices == 2 else vertices)
        self.temperature = temperature

    def _logits(self, numbers: Tensor) -> Tensor:
        return self._scores(self._parts(numbers, 1)[0])

    def _relaxed(self, numbers: Tensor) -> mixed.GumbelSoftmax:
        return mixed.GumbelSoftmax(self.temperature, logits=self._logits(numbers), validate_args=False)

    def _uniform_inside(self) -> Distribution:
        return Dirichlet(torch.ones_like(self._like).expand(self.vertices), validate_args=False)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature:g}"


class GumbelSoftmaxLatent(ConcreteLatent):
    """Gumbel-softmax (Concrete) points: inside the simplex, never on its border; uniform there before.

    The density is continuous inside, so that the mean of the log-ratio at draws is the divergence, and gradients of
    both terms of the bound go through draws.

    References: Jang et al., Maddison et al. (ICLR 2017).
    """

    def law(self, numbers: Tensor) -> mixed.GumbelSoftmax:
        return self._relaxed(numbers)

    @property
    def prior(self) -> Distribution:
        return self._uniform_inside()

    def divergence(self, law: Any, point: Tensor) -> Tensor:
        return -self.log_ratio(law, point).mean(0)


class StraightThroughLatent(ConcreteLatent):
    """Vertices, chosen by Gumbel noise; all alike before. The divergence is closed.

    The bound is that of a discrete code. The gradient through a draw is that of the relaxed point it was made from: it
    is biased, unlike those of all other laws.
    """

    def law(self, numbers: Tensor) -> mixed.GumbelSoftmax:
        return self._discrete(self._logits(numbers))

    @property
    def prior(self) -> mixed.GumbelSoftmax:
        return self._discrete(self._like.expand(self.vertices))

    def divergence(self, law: Any, point: Tensor) -> Tensor:
        return kl_divergence(law, self.prior).sum(-1)

    def _discrete(self, logits: Tensor) -> mixed.GumbelSoftmax:
        return mixed.GumbelSoftmax(self.temperature, logits=logits, hard=True, validate_args=False)


class HardConcreteLatent(ConcreteLatent):
    """Two vertices: Gumbel-softmax points, stretched beyond the edge and cut off; one density on all faces before.

    Gradients of the reconstruction go through draws. The divergence is two masses and a quadrature over the edge, whose
    integrand is smooth (1e-6 with 12 nodes at temperatures from 0.3 to 1), with its gradient.

    Reference: Louizos et al. (ICLR 2018).
    """

    order = 12

    def __init__(self, variables: int, vertices: int = 2, temperature: float = 0.5, stretch: float = 1.2) -> None:
        if vertices != 2:
            raise ValueError(f"HardConcreteLatent: vertices must be 2, got {vertices}; else take StretchedLatent")
        super().__init__(variables, vertices, temperature)
        self.stretch = stretch

    def law(self, numbers: Tensor) -> mixed.HardConcrete:
        logits = self._logits(numbers)
        return mixed.HardConcrete(self.temperature, logits=logits, stretch=self.stretch, validate_args=False)

    @property
    def prior(self) -> mixed.MaxEntropyMixed:
        return self._same_everywhere()

    def divergence(self, law: Any, point: Tensor) -> Tensor:
        return mixed.kl_divergence(law, self.prior, order=self.order).value.sum(-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, stretch={self.stretch:g}"


class StretchedLatent(ConcreteLatent):
    """Any number of vertices: Gumbel-softmax points, stretched and projected back (K-dimensional Hard Concrete).

    With more than two vertices the projected points have no density that can be computed. So the points of the law are
    those before, uniform inside the simplex if nothing is seen, and stretching and projecting belong to the decoder.
    That is a bound of the same model as that of the projected points with the prior projected likewise; it is lower,
    by what the points before tell of the picture and the projected ones do not.
    """

    def __init__(self, variables: int, vertices: int, temperature: float = 0.5, stretch: float = 1.2) -> None:
        super().__init__(variables, vertices, temperature)
        self.stretch = stretch

    def law(self, numbers: Tensor) -> mixed.GumbelSoftmax:
        return self._relaxed(numbers)

    @property
    def prior(self) -> Distribution:
        return self._uniform_inside()

    def code(self, point: Tensor) -> Tensor:
        return sparsemax(self.stretch * point)

    def divergence(self, law: Any, point: Tensor) -> Tensor:
        return -self.log_ratio(law, point).mean(0)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, stretch={self.stretch:g}"
