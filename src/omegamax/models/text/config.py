"""The sizes of a network that reads texts, and the attention that its answer is read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer, check_number
from omegamax.models.attention_kind import AttentionKind
from omegamax.models.network_config import NetworkConfig
from omegamax.models.text.rationale_config import RationaleConfig
from omegamax.models.text_basis import check_widths

DISCRETE = ("softmax", "sparsemax", "entmax", "fusedmax", "k_subsets", "sequential_k_subsets")
ENCODERS = ("bilstm", "transformer")
SOURCES = ("weights", "cnn")
ALIGNMENTS = ("softmax", "sparsemax", "entmax15", "sequence", "matching")


@dataclass(frozen=True)
class WordsConfig(AttentionKind):
    r"""The attention over the words that a class is read from.

    Scores of the words come from the same network in every kind, and no kind has parameters of its own, so that all
    networks have the same number; but for ``learnable``, which adds a single one, and for ``source="cnn"``.

    Args:
        kind: ``"softmax"``, ``"sparsemax"``, ``"entmax"``, ``"fusedmax"`` (neighbours alike), ``"k_subsets"`` or
            ``"sequential_k_subsets"`` (divided by k); or of a density over the text.
        k: words that k-subsets attends to; texts with fewer have them all.
        transition: what sequential k-subsets adds to the score for each pair of neighbours it takes.
        source: of a density's location and scale: the moments of the ``"weights"``; or a ``"cnn"`` over the states of
            the words, the largest value of each filter over the text, and an affine map, :math:`\mu` through a sigmoid
            and :math:`\sigma^2` through a softplus. The CNN has parameters of its own, and takes the place of scores.
        functions: N, Gaussian basis functions of the value function: N / W of each of W widths, their centres linearly
            spaced in [0, 1].
        widths: standard deviations of the basis functions.
        filters: of the CNN, each three words wide.

    Example:
        >>> WordsConfig("continuous_sparsemax", functions=32, combined=True).exponent
        2.0

    Reference: Martins et al., "Sparse and continuous attention mechanisms" (NeurIPS 2020), Sec. 4, App. H.1, Table 3.
    The paper gives a truncated parabola the variance of the weights as its :math:`\sigma^2`; here it has that variance.
    """

    maps: ClassVar[tuple[str, ...]] = DISCRETE

    strength: float = 0.1
    padding: bool = False
    components: str = "fixed"
    max_components: int = 3
    k: int = 5
    transition: float = 0.5
    source: str = "weights"
    functions: int = 64
    widths: tuple[float, ...] = (0.1, 0.5)
    filters: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "WordsConfig"
        check_choice(name, "source", self.source, SOURCES)
        if self.combined and self.source == "cnn":
            raise ValueError(f"{name}: combined goes with a density whose source is the weights, got source='cnn'")
        if self.source == "cnn" and (not self.continuous or self.kind == "multimodal"):
            raise ValueError(f"{name}: source='cnn' goes with one density, a continuous kind, got {self.kind!r}")
        for argument in ("k", "filters"):
            check_integer(name, argument, getattr(self, argument), least=1)
        check_number(name, "transition", self.transition)
        object.__setattr__(self, "widths", check_widths(name, self.functions, self.widths))


@dataclass(frozen=True)
class TextConfig(NetworkConfig):
    """A network. The defaults are the paper's; :meth:`small` has sizes for a CPU.

    Args:
        words: rows of the embedding, padding and unknown words included.
        classes: number of them. Tasks set both from the vocabulary of their data.
        encoder: ``"bilstm"``, or ``"transformer"``, whose heads each learn an alpha of entmax.
        word_dim: features of a word's embedding.
        hidden_dim: of the LSTM in each direction, so that a word has twice as many; of the transformer half as many as
            a word has.
        score_dim: hidden units of the additive scorer of words, or of the comparison of two sentences.
        layers, heads: of the transformer.
        alpha: of the transformer's heads to start from; with ``learn_alpha`` each goes its own way in (1, 2).
        learn_alpha: whether they do.
        dropout: of embeddings and of the states of words.
        attention: over the words of a text.
        alignment: of the words of two sentences, for sets of pairs: ``"softmax"``, ``"sparsemax"``, ``"entmax15"``,
            ``"sequence"`` or ``"matching"``, see :class:`~omegamax.models.text.EntailmentClassifier`, which has no
            ``attention``; None: the network reads one text.
        rationale: let a generator choose words first, of which alone the rest knows; None: all are read.

    Example:
        >>> TextConfig.small(words=20, classes=2, attention=WordsConfig("sparsemax")).word_dim
        64
        >>> config = TextConfig(20, 2)
        >>> TextConfig.from_dict(config.to_dict()) == config
        True

    References: Martins et al. (NeurIPS 2020), Table 3; the transformer, Correia, Niculae and Martins, "Adaptively
    sparse transformers" (EMNLP 2019).
    """

    parts: ClassVar[Mapping[str, type]] = {"attention": WordsConfig, "rationale": RationaleConfig}

    words: int = 1
    classes: int = 1
    encoder: str = "bilstm"
    word_dim: int = 300
    hidden_dim: int = 128
    score_dim: int = 128
    layers: int = 2
    heads: int = 4
    alpha: float = 1.5
    learn_alpha: bool = True
    dropout: float = 0.0
    attention: WordsConfig = field(default_factory=WordsConfig)
    alignment: str | None = None
    rationale: RationaleConfig | None = None

    def __post_init__(self) -> None:
        name = "TextConfig"
        check_choice(name, "encoder", self.encoder, ENCODERS)
        if self.alignment is not None:
            check_choice(name, "alignment", self.alignment, ALIGNMENTS)
        for argument in ("words", "classes", "word_dim", "hidden_dim", "score_dim", "layers", "heads"):
            check_integer(name, argument, getattr(self, argument), least=1)
        if self.encoder == "transformer" and self.state_dim % self.heads:
            given = f"{self.hidden_dim} and {self.heads}"
            raise ValueError(f"{name}: twice hidden_dim must be a multiple of heads, got {given}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"{name}: dropout must lie in [0, 1), got {self.dropout!r}")
        check_number(name, "alpha", self.alpha, least=1, most=2)
        if self.rationale is not None and self.alignment is not None:
            raise ValueError(f"{name}: rationale goes with single texts, got alignment={self.alignment!r}")
        if self.rationale is not None and self.attention.continuous:
            raise ValueError(f"{name}: rationale goes with discrete attention, got {self.attention.kind!r}")

    @property
    def state_dim(self) -> int:
        """Return the number of features of a word after the encoder."""
        return 2 * self.hidden_dim

    @classmethod
    def small(cls, words: int = 1, classes: int = 1, **changes: Any) -> TextConfig:
        """Return sizes for a CPU and short texts, with changes."""
        return cls(words, classes, **{"word_dim": 64, "hidden_dim": 32, "score_dim": 32, **changes})
