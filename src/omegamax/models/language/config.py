"""The sizes of a language model, its attention, its memory and its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer, check_interval, check_number
from omegamax.maps import get
from omegamax.models.network_config import NetworkConfig
from omegamax.models.token_output import TokenOutputConfig

POSITIONS = ("rotary", "alibi", "none")
MEMORIES = ("signal", "last", "average", "none")


@dataclass(frozen=True)
class MemoryConfig:
    """What a model keeps of text that it does not see any more: so many vectors in each layer, however much it was.

    Args:
        kind: ``"signal"``, a :class:`~omegamax.nn.LongTermMemory`; ``"last"``, the last vectors; or ``"average"``,
            averages of ever more neighbours; ``"none"``: nothing, to compare with.
        segment: tokens that attention sees at once; the memory has what came before.
        size: coefficients of the signal, or vectors.
        contraction: share that the past keeps of the room when a segment comes, of a signal or of averages.
        alpha: of the densities that read a signal.
        sticky: share of the signal's points that are placed by attention.
        moments: of the densities, ``"predicted"`` or ``"matched"``.
    """

    kind: str = "signal"
    segment: int = 128
    size: int = 64
    contraction: float = 0.75
    alpha: float = 1.0
    sticky: float = 0.0
    moments: str = "predicted"

    def __post_init__(self) -> None:
        name = "MemoryConfig"
        check_choice(name, "kind", self.kind, MEMORIES)
        check_integer(name, "segment", self.segment, least=1)
        check_integer(name, "size", self.size, least=2)
        check_interval(name, "contraction", self.contraction, "(0, 1)")
        check_number(name, "alpha", self.alpha, above=1 / 3)
        check_interval(name, "sticky", self.sticky, "[0, 1]")
        check_choice(name, "moments", self.moments, ("predicted", "matched"))


@dataclass(frozen=True)
class LanguageConfig(NetworkConfig):
    """A decoder. The defaults are a small one; :meth:`tiny` has sizes for a CPU.

    Args:
        vocabulary: number of tokens; tasks set it from their data.
        architecture: ``"decoder"``, ours; or a decoder's type in transformers, ``"llama"``, ``"gpt2"``, which has
            neither a sink nor a memory of ours.
        dim: features of a state, a multiple of twice the heads.
        hidden_dim: units between the layers.
        layers: how many.
        heads: of attention.
        groups: heads of keys and values, each of which serves ``heads / groups`` queries; None: as many as heads.
        attention: name of the map of all heads.
        attention_options: parameters of that map, ``{"alpha": 1.3}``.
        learn_alpha: learn the alpha of ``"entmax"``, one in (1, 2) for each head.
        length_scale: learn for each head how its scores grow with the number of keys, see
            :class:`~omegamax.nn.LengthScale`.
        sink: give each layer a key and a value to learn that every query sees, for heads that have nothing to look at.
        positions: ``"rotary"``, queries and keys are turned by angles that grow with their places; ``"alibi"``, half of
            the heads lose the distance times 1, 1/2, 1/3, ... from their scores, and the others nothing; or ``"none"``,
            where only the causal order tells.
        base: of the wave lengths of the angles.
        memory: what is kept of text beyond the reach of attention; None: attention sees all there is.
        dropout: of embeddings and of what layers add.
        tied: use the embedding as the weights of the output.
        output: how scores of tokens become probabilities.

    Example:
        >>> config = LanguageConfig.tiny(50, attention="entmax15", groups=2, output=TokenOutputConfig("sparsemax"))
        >>> LanguageConfig.from_dict(config.to_dict()) == config
        True

    References: rotary positions, Su et al. (2021); distances, Press, Smith & Lewis (ICLR 2022), for half of the heads,
    Vasylenko et al. (2025); shared keys and values, Ainslie et al. (EMNLP 2023); sinks, Xiao et
    al. (ICLR 2024); one alpha for each head, Correia, Niculae & Martins (EMNLP 2019).
    """

    parts: ClassVar[Mapping[str, type]] = {"memory": MemoryConfig, "output": TokenOutputConfig}

    vocabulary: int = 1
    architecture: str = "decoder"
    dim: int = 256
    hidden_dim: int = 1024
    layers: int = 4
    heads: int = 4
    groups: int | None = None
    attention: str = "softmax"
    attention_options: dict[str, Any] = field(default_factory=dict)
    learn_alpha: bool = False
    length_scale: bool = False
    sink: bool = False
    positions: str = "rotary"
    base: float = 10000.0
    memory: MemoryConfig | None = None
    dropout: float = 0.1
    tied: bool = True
    output: TokenOutputConfig = field(default_factory=lambda: TokenOutputConfig(label_smoothing=0.0))

    def __post_init__(self) -> None:
        name = "LanguageConfig"
        for argument in ("vocabulary", "dim", "hidden_dim", "layers", "heads"):
            check_integer(name, argument, getattr(self, argument), least=1)
        check_choice(name, "positions", self.positions, POSITIONS)
        check_number(name, "base", self.base, above=0)
        check_interval(name, "dropout", self.dropout, "[0, 1)")
        if self.dim % (2 * self.heads):
            raise ValueError(f"{name}: dim must be a multiple of twice the heads, got {self.dim} and {self.heads}")
        if self.groups is not None and self.heads % check_integer(name, "groups", self.groups, least=1):
            raise ValueError(f"{name}: heads must be a multiple of groups, got {self.heads} and {self.groups}")
        if self.learn_alpha and self.attention != "entmax":
            raise ValueError(f"{name}: learn_alpha goes with attention='entmax', got {self.attention!r}")
        get(self.attention, **self.attention_options)

    @property
    def label(self) -> str:
        """Return attention, memory and output in words."""
        attention = "learnt entmax" if self.learn_alpha else self.attention
        kind = "" if self.architecture == "decoder" else f", {self.architecture}"
        memory = "" if self.memory is None else f", memory of {self.memory.size} by {self.memory.kind}"
        return f"{attention} attention, {self.output.label} output{memory}{kind}"

    @classmethod
    def tiny(cls, vocabulary: int = 1, **changes: Any) -> LanguageConfig:
        """Return sizes for a CPU and short texts, with changes."""
        sizes = {"dim": 64, "hidden_dim": 128, "layers": 2, "dropout": 0.0}
        return cls(vocabulary, **{**sizes, **changes})
