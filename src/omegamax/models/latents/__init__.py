"""Distributions of the codes of a variational auto-encoder: Gaussian, relaxed, discrete and mixed ones, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omegamax._arguments import check_choice
from omegamax.models.latents.base import Draw as Draw
from omegamax.models.latents.base import Latent as Latent
from omegamax.models.latents.concrete import GumbelSoftmaxLatent as GumbelSoftmaxLatent
from omegamax.models.latents.concrete import HardConcreteLatent as HardConcreteLatent
from omegamax.models.latents.concrete import StraightThroughLatent as StraightThroughLatent
from omegamax.models.latents.concrete import StretchedLatent as StretchedLatent
from omegamax.models.latents.faces import GaussianSparsemaxLatent as GaussianSparsemaxLatent
from omegamax.models.latents.faces import MixedDirichletLatent as MixedDirichletLatent
from omegamax.models.latents.gaussian import GaussianLatent as GaussianLatent
from omegamax.models.latents.logistic_normal import LogisticNormalLatent as LogisticNormalLatent


def _hard_concrete(variables: int, vertices: int = 2, **options: Any) -> Latent:
    return (HardConcreteLatent if vertices == 2 else StretchedLatent)(variables, vertices, **options)


LATENTS: dict[str, Callable[..., Latent]] = {
    "gaussian": GaussianLatent,
    "gumbel_softmax": GumbelSoftmaxLatent,
    "straight_through": StraightThroughLatent,
    "hard_concrete": _hard_concrete,
    "gaussian_sparsemax": GaussianSparsemaxLatent,
    "mixed_dirichlet": MixedDirichletLatent,
    "logistic_normal": LogisticNormalLatent,
}


def latent(kind: str, variables: int, vertices: int = 2, **options: Any) -> Latent:
    """Make the distribution of codes of a name in ``LATENTS``, with ``temperature`` and ``stretch`` where it has them.

    >>> latent("gaussian_sparsemax", variables=128)
    GaussianSparsemaxLatent(variables=128, vertices=2)
    >>> latent("hard_concrete", variables=1, vertices=10, temperature=0.7)
    StretchedLatent(variables=1, vertices=10, temperature=0.7, stretch=1.2)
    """
    check_choice("latent", "kind", kind, tuple(LATENTS))
    return LATENTS[kind](variables, vertices, **options)
