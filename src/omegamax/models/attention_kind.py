"""The kind of an attention: what the configurations of all applications say of it, and the layers that makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax import functional, nn
from omegamax._arguments import check_choice, check_integer, check_number
from omegamax.basis import Basis
from omegamax.maps import Omega, get

CONTINUOUS = ("continuous_softmax", "continuous_sparsemax", "continuous_entmax", "multimodal")
SOURCES_OF_WEIGHTS = ("softmax", "sparsemax", "entmax15")
# Alpha of the kinds that have one: as set by their name, or by default.
_SET = {"softmax": 1.0, "sparsemax": 2.0, "continuous_softmax": 1.0, "continuous_sparsemax": 2.0}
_DEFAULT = {"entmax": 1.5, "continuous_entmax": 1.5, "multimodal": 1.0}
_PENALISED = {"tvmax": nn.TVmax, "fusedmax": nn.Fusedmax}


@dataclass(frozen=True)  # or a command line would take what is derived from it for a choice of classes
class AttentionKind:
    """A base of configurations of an attention: what those over words and over images have in common.

    Args:
        kind: of the weights, the name of a map; or of a density with their moments, ``"continuous_softmax"`` (a
            Gaussian), ``"continuous_sparsemax"`` (a truncated paraboloid), ``"continuous_entmax"`` (any alpha); or
            ``"multimodal"``, a mixture fitted to the weights.
        alpha: of entmax (1.5 by default), continuous entmax (1.5), or the components of a mixture (1: Gaussians).
        learnable: learn alpha, or the strength of a penalty, from there on.
        strength: of the penalty of tvmax or fusedmax.
        discrete: name of the map that gives a continuous kind its weights.
        penalty: of the ridge regression, see :class:`~omegamax.basis.RidgeFit`.
        padding: let the regression see zeros around the image, or before and after the text.
        floor: variance added to that of the weights; None: that of a cell or a word, see
            :class:`~omegamax.nn.ContinuousAttention`.
        components: ``"fixed"`` (K-MCA), ``"random"``, ``"test"`` (test-MCA) or ``"selected"``, see
            :class:`~omegamax.nn.MultimodalAttention`.
        max_components: K, or the most there may be.
        combined: add the discrete context, the mean of the features under the weights, to that of a continuous kind.
    """

    maps: ClassVar[tuple[str, ...]] = ()  # the kinds without a density

    kind: str = "softmax"
    alpha: float | None = None
    learnable: bool = False
    strength: float = 0.01
    discrete: str = "softmax"
    penalty: float = 0.01
    padding: bool = True
    floor: float | None = None
    components: str = "random"
    max_components: int = 4
    combined: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_choice(name, "kind", self.kind, self.maps + CONTINUOUS)
        check_choice(name, "discrete", self.discrete, SOURCES_OF_WEIGHTS)
        if self.alpha is not None and self.kind not in _DEFAULT:
            raise ValueError(f"{name}: alpha goes with {', '.join(_DEFAULT)}, got alpha={self.alpha} for {self.kind!r}")
        learnt = (*_DEFAULT, *(kind for kind in _PENALISED if kind in self.maps))
        if self.learnable and self.kind not in learnt:
            raise ValueError(f"{name}: learnable goes with {', '.join(learnt)}, got {self.kind!r}")
        if self.combined and not self.continuous:
            raise ValueError(
                f"{name}: combined goes with a continuous kind, {', '.join(CONTINUOUS)}, got {self.kind!r}"
            )
        check_number(name, "strength", self.strength, least=0)
        check_number(name, "penalty", self.penalty, least=0)
        if self.floor is not None:
            check_number(name, "floor", self.floor, least=0)
        check_integer(name, "max_components", self.max_components, least=1)

    @property
    def exponent(self) -> float | None:
        """Alpha; None for the kinds that have none."""
        return _SET.get(self.kind, _DEFAULT.get(self.kind)) if self.alpha is None else self.alpha

    @property
    def continuous(self) -> bool:
        """Tell whether there is a density."""
        return self.kind in CONTINUOUS

    def make_transform(self) -> Omega | torch.nn.Module | None:
        """Return the map of the scores; None for those of k entries, where k hangs on how many scores there are."""
        if self.kind == "entmax":
            assert self.exponent is not None
            return nn.Entmax(self.exponent, learnable=self.learnable)
        if self.kind in _PENALISED:
            return _PENALISED[self.kind](self.strength, learnable=self.learnable)
        if self.kind.endswith("k_subsets"):
            return None
        return get(self.discrete if self.continuous else self.kind)

    def make_density(
        self, basis: Basis, query_dim: int | None, **mixture: Any
    ) -> nn.ContinuousAttention | nn.MultimodalAttention:
        """Return the layer of a continuous kind; the rest are settings of a mixture."""
        assert self.exponent is not None
        settings: dict[str, Any] = {
            "penalty": self.penalty,
            "padding": self.padding,
            "floor": self.floor,
            "learnable": self.learnable,
            "combined": self.combined,
            "query_dim": query_dim,
        }
        if self.kind != "multimodal":
            return nn.ContinuousAttention(basis, self.exponent, **settings)
        settings |= {"components": self.components, **mixture}
        return nn.MultimodalAttention(basis, self.max_components, self.exponent, **settings)


def say_kind(kind: str) -> str:
    """Return a kind of attention in words.

    >>> say_kind("continuous_softmax"), say_kind("k_subsets")
    ('continuous softmax', 'k-subsets')
    """
    return kind.replace("_", " ").replace("k subsets", "k-subsets")


def weigh_subset(
    z: Tensor, k: float, mask: Tensor | None, choose: Callable[[Tensor, Any], Tensor] = functional.k_subsets
) -> Tensor:
    """Return the probabilities of k entries, ``[*, L]``, divided by k; a row with fewer has them all.

    >>> weigh_subset(torch.zeros(2, 4), 3, torch.tensor([[True] * 4, [True, False, False, False]]))[0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    k = min(k, z.shape[-1])
    p = choose(z, k)
    if mask is None:
        return p / k
    return p / mask.sum(-1, keepdim=True).to(p.dtype).clamp(min=1, max=k)
