"""The sizes of a network that translates, its attention, its output and what it knows of fertility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer, check_interval, check_number
from omegamax.maps import get
from omegamax.models.network_config import NetworkConfig
from omegamax.models.text_basis import check_widths
from omegamax.models.token_output import TokenOutputConfig

ARCHITECTURES = ("transformer", "recurrent")
CELLS = ("gru", "lstm")
DENSITIES = {"continuous_softmax": 1.0, "continuous_sparsemax": 2.0}
FERTILITIES = ("constant", "table", "predicted")


@dataclass(frozen=True)
class FertilityConfig:
    r"""How much attention a source word can have in all, with ``constrained_softmax`` or ``constrained_sparsemax``.

    .. math:: u_t = f - \sum_{s < t} p_s, \qquad p_t = \arg\max_{p \le u_t} \langle p, z_t + c\, u_t \rangle - \Omega(p)

    The end token of the source is a sink without bound, so that there always is a solution.

    Args:
        kind: of f: ``"constant"``, the same for all words; ``"table"``, a number for each token of the source, see
            :class:`~omegamax.data.translation.Lexicon`; or ``"predicted"`` from the encoder's states, between 0 and
            twice ``value``, learnt with the rest through the gradient by the bounds.
        value: f of a constant, and of tokens that a table does not have.
        exhaustion: c, by which words with attention left are preferred.

    Reference: Malaviya, Ferreira & Martins, "Sparse and constrained attention for neural machine translation" (ACL
    2018), Sec. 3; constrained softmax, Martins & Kreutzer (EMNLP 2017).
    """

    kind: str = "constant"
    value: float = 2.0
    exhaustion: float = 0.2

    def __post_init__(self) -> None:
        check_choice("FertilityConfig", "kind", self.kind, FERTILITIES)
        check_number("FertilityConfig", "value", self.value, above=0)
        check_number("FertilityConfig", "exhaustion", self.exhaustion, least=0)


@dataclass(frozen=True)
class TranslatorConfig(NetworkConfig):
    r"""A network. The defaults are a small transformer; :meth:`tiny` has sizes for a CPU, :meth:`paper` is recurrent.

    Args:
        source, target: numbers of tokens. Tasks set them, and ``joint``, from the vocabulary of their data.
        joint: whether both languages share their tokens, and so their embedding.
        architecture: ``"transformer"``, pre-norm; or ``"recurrent"``, a bidirectional encoder, additive attention, a
            bridge from its last states to the first of the decoder, and input feeding.
        dim: features of a state; of the recurrent encoder, in each direction.
        word_dim: of an embedding, for the recurrent network; None: ``dim``.
        hidden_dim: units between the layers of the transformer.
        layers: of encoder and decoder each.
        heads: of the transformer.
        attention: name of a map: of all heads of the transformer, or from target to source.
        attention_options: parameters of that map, ``{"alpha": 1.3}``.
        learn_alpha: learn the alpha of ``"entmax"``, one in (1, 2) for each head.
        density: ``"continuous_softmax"`` or ``"continuous_sparsemax"``: add the mean of the states of the source under
            a density with the moments of the weights; for the recurrent network.
        functions, widths: Gaussian basis functions of that, as many of each width, centres linearly spaced in [0, 1].
        penalty: of the ridge regression through the states of the source.
        fertility: how much attention words can have in all; for the recurrent network.
        cell: ``"gru"`` or ``"lstm"``.
        input_feeding: give the decoder what it made of its last look.
        dropout: of embeddings, of what layers add, and of hidden units.
        tied: use the embedding of the target as the weights of the output.
        output: how scores of tokens become probabilities.

    Example:
        >>> TranslatorConfig.tiny(30, 40, attention="entmax15", output=TokenOutputConfig("sparsemax")).dim
        64
        >>> config = TranslatorConfig(20, 20)
        >>> TranslatorConfig.from_dict(config.to_dict()) == config
        True

    References: Vaswani et al. (NeurIPS 2017); one alpha for each head, Correia, Niculae & Martins (EMNLP 2019); the
    recurrent network and its densities, Martins et al. (NeurIPS 2020), Sec. 4, App. H.2 and Table 4.
    """

    parts: ClassVar[Mapping[str, type]] = {"fertility": FertilityConfig, "output": TokenOutputConfig}

    source: int = 1
    target: int = 1
    joint: bool = False
    architecture: str = "transformer"
    dim: int = 256
    word_dim: int | None = None
    hidden_dim: int = 512
    layers: int = 3
    heads: int = 4
    attention: str = "softmax"
    attention_options: dict[str, Any] = field(default_factory=dict)
    learn_alpha: bool = False
    density: str | None = None
    functions: int = 30
    widths: tuple[float, ...] = (0.03, 0.1, 0.3)
    penalty: float = 0.01
    fertility: FertilityConfig | None = None
    cell: str = "gru"
    input_feeding: bool = True
    dropout: float = 0.3
    tied: bool = True
    output: TokenOutputConfig = field(default_factory=TokenOutputConfig)

    def __post_init__(self) -> None:
        name = "TranslatorConfig"
        check_choice(name, "architecture", self.architecture, ARCHITECTURES)
        check_choice(name, "cell", self.cell, CELLS)
        for argument in ("source", "target", "dim", "hidden_dim", "layers", "heads"):
            check_integer(name, argument, getattr(self, argument), least=1)
        if self.word_dim is not None:
            check_integer(name, "word_dim", self.word_dim, least=1)
        check_interval(name, "dropout", self.dropout, "[0, 1)")
        check_number(name, "penalty", self.penalty, least=0)
        object.__setattr__(self, "widths", check_widths(name, self.functions, self.widths))
        if self.joint and self.source != self.target:
            raise ValueError(f"{name}: joint languages have the same tokens, got {self.source} and {self.target}")
        self._check_transformer(name) if self.architecture == "transformer" else self._check_recurrent(name)
        if self.learn_alpha and self.attention != "entmax":
            raise ValueError(f"{name}: learn_alpha goes with attention='entmax', got {self.attention!r}")
        if self.fertility is None:
            get(self.attention, **self.attention_options)
        elif self.attention not in ("constrained_softmax", "constrained_sparsemax"):
            wanted = "'constrained_softmax' or 'constrained_sparsemax'"
            raise ValueError(f"{name}: fertility goes with attention={wanted}, got {self.attention!r}")

    def _check_transformer(self, name: str) -> None:
        if self.dim % self.heads:
            raise ValueError(f"{name}: dim must be a multiple of heads, got {self.dim} and {self.heads}")
        for argument in ("word_dim", "density", "fertility"):
            if getattr(self, argument) is not None:
                raise ValueError(f"{name}: {argument} goes with architecture='recurrent', got a transformer")

    def _check_recurrent(self, name: str) -> None:
        if self.density is not None:
            check_choice(name, "density", self.density, tuple(DENSITIES))
        if self.tied and self.embedding_dim != self.dim:
            raise ValueError(f"{name}: tied weights need word_dim = dim, got {self.embedding_dim} and {self.dim}")

    @property
    def embedding_dim(self) -> int:
        """Return the features of an embedding."""
        return self.dim if self.word_dim is None else self.word_dim

    @classmethod
    def tiny(cls, source: int = 1, target: int = 1, **changes: Any) -> TranslatorConfig:
        """Return sizes for a CPU and short sentences, with changes."""
        sizes = {"dim": 64, "hidden_dim": 128, "layers": 2, "dropout": 0.1}
        return cls(source, target, **{**sizes, **changes})

    @classmethod
    def paper(cls, source: int = 1, target: int = 1, **changes: Any) -> TranslatorConfig:
        """Return the recurrent network of Table 4, with changes."""
        sizes = {"architecture": "recurrent", "dim": 1000, "word_dim": 620, "layers": 1, "dropout": 0.2, "tied": False}
        return cls(source, target, **{**sizes, **changes})
