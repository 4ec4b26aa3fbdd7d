"""The sizes of a network and the attention it ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer, check_interval, check_sizes
from omegamax._checks import check_above
from omegamax.maps import get
from omegamax.mixtures import INITS
from omegamax.models.attention_kind import CONTINUOUS, AttentionKind
from omegamax.models.network_config import NetworkConfig, check_transform

DISCRETE = ("softmax", "sparsemax", "entmax", "tvmax", "k_subsets")
KINDS = DISCRETE + CONTINUOUS
SELECTIONS = ("bic", "aic", "mdl")
BASES = ("gaussian", "paraboloid")
SOURCES = ("weights", "question")
MIXINGS = ("sparsemax", "entmax15")


@dataclass(frozen=True)
class OutputConfig(AttentionKind):
    r"""The attention over the image that the answer is read from.

    No kind has parameters of its own, so that all models have the same number, and weights learnt with one can be
    loaded into another. What adds some: ``learnable`` a single one, ``density_features`` a few for each feature,
    ``heads`` and ``source`` a column for each number that they predict, ``glimpses`` a matrix.

    Args:
        kind: ``"softmax"``, ``"sparsemax"``, ``"entmax"``, ``"tvmax"`` or ``"k_subsets"`` (divided by k); or of a
            density.
        k: cells that k-subsets attends to.
        scale: factor of the scores before they are mapped. Sparse maps answer to small differences: where scores are
            equal, sparsemax moves its weights L times as far as softmax, for L cells.
        functions: basis functions along each side, their centres linearly spaced in :math:`[0, 1]`; 10 for N = 100, 7
            for N = 49.
        basis: ``"gaussian"``, or ``"paraboloid"`` for truncated paraboloids, which are 0 beyond an edge.
        variance: of a basis function, along each axis.
        iterations: of expectation-maximisation, in training and in evaluation.
        init: where it starts: ``"split"``, ``"kmeans++"`` or ``"random"``.
        restarts: starts for each number of components tried by a selection; with ``init="random"`` as many random ones.
        mixing: ``"sparsemax"`` lets small components go, with ``components="fixed"`` and some 50 iterations; None keeps
            them.
        selection: what selects: lambda of the papers' criterion, or ``"bic"``, ``"aic"``, ``"mdl"``.
        density_features: tell the classifier of the density itself: add to the context a learnt linear map, 0 at first,
            of mean, width, area and components, see :func:`~omegamax.models.mcan.numbers.density_numbers`; of a
            discrete kind, those of the Gaussian with the moments of the weights. Each number has a parameter for each
            feature.
        boxes: where a batch has boxes in place of cells, what a density is made from: the ``"centre"`` of each, or the
            ``"whole"`` box, over which its weight is spread. Needs ``padding=False``.
        heads: looks side by side, each with scores of its own, at an equal part of the features.
        glimpses: looks in turn: the scores of each see, by a learnt linear map that is 0 at first, the mean context of
            those before; the context is the mean of all.
        source: of a density: ``"weights"``, or ``"question"``: a linear map of the attended question predicts location
            and scale, and for ``"multimodal"`` ``max_components`` of them with their mixing weights.

    Example:
        >>> OutputConfig("continuous_sparsemax", functions=7).exponent
        2.0

    References: Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021), Table 6.1;
    Farinhas, Martins and Aguiar (2021), Sec. 6.1. The strength of tvmax and k are ours.
    """

    maps: ClassVar[tuple[str, ...]] = DISCRETE

    k: float = 20.0
    scale: float = 1.0
    functions: int = 10
    basis: str = "gaussian"
    variance: float = 0.001
    iterations: tuple[int, int] = (5, 10)
    init: str = "split"
    restarts: int = 3
    mixing: str | None = None
    selection: float | str = 5.0
    density_features: bool = False
    boxes: str = "whole"
    heads: int = 1
    glimpses: int = 1
    source: str = "weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "OutputConfig"
        check_choice(name, "basis", self.basis, BASES)
        check_choice(name, "init", self.init, INITS)
        if self.mixing is not None:
            check_choice(name, "mixing", self.mixing, MIXINGS)
            if self.components != "fixed":
                raise ValueError(f"{name}: mixing goes with components='fixed', got {self.components!r}")
        for argument in ("k", "scale", "variance"):
            check_above(name, argument, getattr(self, argument), 0.0)
        if isinstance(self.selection, str):
            check_choice(name, "selection", self.selection, SELECTIONS)
        for argument in ("functions", "heads", "glimpses"):
            check_integer(name, argument, getattr(self, argument), least=1)
        check_choice(name, "source", self.source, SOURCES)
        check_choice(name, "boxes", self.boxes, ("centre", "whole"))
        looks = self.heads * self.glimpses
        if self.source == "question":
            one = looks == 1 and not self.combined and self.mixing is None
            if not self.continuous or not one or (self.kind == "multimodal" and self.components != "fixed"):
                wanted = "a single look of a continuous kind, components='fixed' if it is a mixture, nothing combined"
                raise ValueError(f"{name}: source='question' goes with {wanted}, got {self}")
        if self.density_features and looks > 1:
            raise ValueError(f"{name}: density_features goes with a single look, got {looks} of them")
        object.__setattr__(self, "iterations", tuple(self.iterations))  # a file of settings has lists only


@dataclass(frozen=True)
class MCANConfig(NetworkConfig):
    """A network. The defaults are the papers' sizes; :meth:`small` has sizes for a CPU.

    Args:
        words: rows of the embedding, the padding's included.
        answers: number of answers. Tasks set both from the vocabulary of their data.
        word_dim: features of a word.
        image_dim: features of a cell.
        hidden_dim: features inside the attention units of encoder and decoder.
        heads: of their attention.
        layers: units in the encoder, and as many in the decoder.
        feedforward_dim: hidden units of their feed-forward networks.
        flat_dim: hidden units of the scores of attention over words and cells.
        fused_dim: features of question and image together.
        dropout: everywhere but in attention weights.
        attention_dropout: in attention weights; None: the same. With 0, torch's fused attention is some four times as
            fast on a CPU.
        transform: map of the attention inside the units, by name.
        transform_options: its parameters, such as ``{"alpha": 1.25}``.
        output: attention over the image that the answer is read from.
        pixels: have a :class:`~omegamax.models.GridCNN` make the features of images.
        grid: cells ``(h, w)`` that it makes; features that come with the batch say their own.

    Example:
        >>> MCANConfig.small(words=20, answers=5, transform="entmax", transform_options={"alpha": 1.25}).hidden_dim
        64
        >>> config = MCANConfig.paper(words=20, answers=5, output=OutputConfig("tvmax"))
        >>> MCANConfig.from_dict(config.to_dict()) == config
        True

    References: Martins et al. (NeurIPS 2020), Table 5; Farinhas (thesis, 2021), Table 6.1; hidden units of the
    feed-forward networks, four times the features, from Yu et al. (CVPR 2019).
    """

    words: int = 1
    answers: int = 1
    word_dim: int = 300
    image_dim: int = 2048
    hidden_dim: int = 512
    heads: int = 8
    layers: int = 6
    feedforward_dim: int = 2048
    flat_dim: int = 512
    fused_dim: int = 1024
    dropout: float = 0.1
    attention_dropout: float | None = None
    transform: str = "softmax"
    transform_options: dict[str, Any] = field(default_factory=dict)
    output: OutputConfig = field(default_factory=OutputConfig)
    pixels: bool = False
    grid: tuple[int, int] = (14, 14)

    def __post_init__(self) -> None:
        name = "MCANConfig"
        for argument in (
            "words",
            "answers",
            "word_dim",
            "image_dim",
            "hidden_dim",
            "heads",
            "layers",
            "feedforward_dim",
            "flat_dim",
            "fused_dim",
        ):
            value = getattr(self, argument)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: {argument} must be an int >= 1, got {value!r}")
        if self.hidden_dim % self.heads:
            given = f"{self.hidden_dim} and {self.heads}"
            raise ValueError(f"{name}: hidden_dim must be a multiple of heads, got {given}")
        for argument in ("dropout", "attention_dropout"):
            value = getattr(self, argument)
            if value is not None:
                check_interval(name, argument, value, "[0, 1)")
        check_transform(name, self.transform, self.transform_options)
        object.__setattr__(self, "grid", check_sizes(name, "grid", self.grid, 2))

    @classmethod
    def paper(cls, words: int = 1, answers: int = 1, **changes: Any) -> MCANConfig:
        """Return the sizes of the papers, with changes."""
        return cls(words, answers, **changes)

    @classmethod
    def small(cls, words: int = 1, answers: int = 1, **changes: Any) -> MCANConfig:
        """Sizes for a CPU and small images, features from a CNN that is trained with the rest; with changes."""
        sizes: dict[str, Any] = {
            "word_dim": 64,
            "image_dim": 64,
            "hidden_dim": 64,
            "heads": 4,
            "layers": 2,
            "feedforward_dim": 128,
            "flat_dim": 64,
            "fused_dim": 128,
            "attention_dropout": 0.0,
            "pixels": True,
        }
        return cls(words, answers, **{**sizes, **changes})

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> MCANConfig:
        """Return the configuration that :meth:`to_dict` wrote; names it does not know are refused."""
        given = dict(settings)
        output = given.pop("output", {})
        if not isinstance(output, OutputConfig):
            output = OutputConfig(**_known(OutputConfig, output))
        return cls(**_known(cls, given), output=output)

    def block(self) -> tuple[Any, ...]:
        """Arguments of a unit of encoder or decoder."""
        weights = self.dropout if self.attention_dropout is None else self.attention_dropout
        omega = get(self.transform, **self.transform_options)
        return self.hidden_dim, self.heads, self.feedforward_dim, self.dropout, weights, omega


def _known(config: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    known = [f.name for f in fields(config)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        listed = f"{', '.join(map(repr, unknown))}; known: {', '.join(known)}"
        raise ValueError(f"{config.__name__}: no setting is called {listed}")
    return dict(settings)
