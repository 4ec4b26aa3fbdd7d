"""The kind of an attention: what the configurations of all applications say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omegamax._arguments import check_choice

CONTINUOUS = ("continuous_softmax", "continuous_sparsemax", "continuous_entmax", "multimodal")
SOURCES_OF_WEIGHTS = ("softmax", "sparsemax", "entmax15")
# Alpha of the kinds that have one: as set by their name, or by default.
_SET = {"softmax": 1.0, "sparsemax": 2.0, "continuous_softmax": 1.0, "continuous_sparsemax": 2.0}
_DEFAULT = {"entmax": 1.5, "continuous_entmax": 1.5, "multimodal": 1.0}


@dataclass(frozen=True)  # or a command line would take what is derived from it for a choice of classes
class AttentionKind:
    """A base of configurations of an attention, whose fields these are.

    Attributes:
        kind: of the weights, a map; or of a density, ``"continuous_softmax"`` and its like; or ``"multimodal"``.
        alpha: of entmax, continuous entmax or the components of a mixture; None: the default.
        learnable: learn alpha, or the strength of a penalty, from there on.
        discrete: name of the map that gives a continuous kind its weights.
        combined: add the discrete context to that of a continuous kind.
    """

    if TYPE_CHECKING:  # each configuration declares them itself, with its defaults and in its order
        kind: str
        alpha: float | None
        learnable: bool
        discrete: str
        combined: bool

    def check_kind(self, discrete: tuple[str, ...], penalised: str) -> None:
        """Refuse a kind that there is not, and settings that do not go with it.

        Args:
            discrete: the kinds without a density.
            penalised: that of them whose strength can be learnt.
        """
        name = type(self).__name__
        check_choice(name, "kind", self.kind, discrete + CONTINUOUS)
        check_choice(name, "discrete", self.discrete, SOURCES_OF_WEIGHTS)
        learnt = ", ".join(_DEFAULT)
        if self.alpha is not None and self.kind not in _DEFAULT:
            raise ValueError(f"{name}: alpha goes with {learnt}, got alpha={self.alpha} for {self.kind!r}")
        if self.learnable and self.kind not in (*_DEFAULT, penalised):
            raise ValueError(f"{name}: learnable goes with {learnt} and {penalised}, got {self.kind!r}")
        if self.combined and not self.continuous:
            raise ValueError(
                f"{name}: combined goes with a continuous kind, {', '.join(CONTINUOUS)}, got {self.kind!r}"
            )

    @property
    def exponent(self) -> float | None:
        """Alpha; None for the kinds that have none."""
        return _SET.get(self.kind, _DEFAULT.get(self.kind)) if self.alpha is None else self.alpha

    @property
    def continuous(self) -> bool:
        """Tell whether there is a density."""
        return self.kind in CONTINUOUS
