"""The sizes of a network that writes captions, and the attention it writes them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegamax._arguments import check_choice, check_integer, check_interval, check_sizes
from omegamax.models.mcan import OutputConfig
from omegamax.models.network_config import NetworkConfig, check_transform

DECODERS = ("lstm", "transformer")


@dataclass(frozen=True)
class CaptionConfig(NetworkConfig):
    """A network. The defaults are the paper's sizes; :meth:`small` has sizes for a CPU.

    Args:
        words: tokens of the vocabulary, those of no word included. Tasks set it from the vocabulary of their data.
        decoder: ``"lstm"``, with input and output attention, or ``"transformer"``.
        word_dim: features of a word.
        hidden_dim: of the state; of the transformer, all features.
        image_dim: features of a cell as they come.
        feature_dim: features of a cell after the first layer.
        score_dim: hidden units of the additive scores of cells.
        layers, heads, feedforward_dim: of the transformer.
        transform: map of the transformer's attention to the words so far, by name.
        dropout: of embeddings and of what the words are read from.
        attention: over the picture that a word is read from; one look at a time.
        input_attention: over the picture that the state of the LSTM sees; the paper's is softmax whatever the other is.
        output: map of the words, ``"softmax"``, ``"entmax15"``, ``"sparsemax"``, ``"entmax"`` or ``"normmax"``, trained
            by its Fenchel-Young loss (cross-entropy for softmax), see :class:`~omegamax.nn.TokenOutput`.
        output_alpha: of entmax (1.5 by default) or normmax (2).
        label_smoothing: of that loss.
        pixels: have a :class:`~omegamax.models.GridCNN` make the features of images.
        grid: cells ``(h, w)`` that it makes; features that come with the batch say their own.

    Example:
        >>> CaptionConfig.small(words=20, attention=OutputConfig("tvmax")).hidden_dim
        128
        >>> config = CaptionConfig(20, attention=OutputConfig("entmax", alpha=1.25), output="sparsemax")
        >>> CaptionConfig.from_dict(config.to_dict()) == config
        True

    Reference: Martins et al., "Sparse and structured visual attention" (ICIP 2021), Sec. 3 and 4.
    """

    parts: ClassVar[Mapping[str, type]] = {"attention": OutputConfig, "input_attention": OutputConfig}

    words: int = 4
    decoder: str = "lstm"
    word_dim: int = 256
    hidden_dim: int = 512
    image_dim: int = 2048
    feature_dim: int = 512
    score_dim: int = 512
    layers: int = 3
    heads: int = 8
    feedforward_dim: int = 2048
    transform: str = "softmax"
    dropout: float = 0.0
    attention: OutputConfig = field(default_factory=OutputConfig)
    input_attention: OutputConfig = field(default_factory=OutputConfig)
    output: str = "softmax"
    output_alpha: float | None = None
    label_smoothing: float = 0.0
    pixels: bool = False
    grid: tuple[int, int] = (14, 14)

    def __post_init__(self) -> None:
        name = "CaptionConfig"
        check_choice(name, "decoder", self.decoder, DECODERS)
        sizes = ("word_dim", "hidden_dim", "image_dim", "feature_dim", "score_dim", "layers", "heads")
        for argument in (*sizes, "feedforward_dim"):
            check_integer(name, argument, getattr(self, argument), least=1)
        check_integer(name, "words", self.words, least=4)
        for argument in ("dropout", "label_smoothing"):
            check_interval(name, argument, getattr(self, argument), "[0, 1)")
        if self.decoder == "transformer" and (self.hidden_dim % self.heads or self.hidden_dim % 2):
            given = f"{self.hidden_dim} and {self.heads}"
            raise ValueError(f"{name}: hidden_dim must be even and a multiple of heads, got {given}")
        for argument in ("attention", "input_attention"):
            look: OutputConfig = getattr(self, argument)
            plain = look.heads == look.glimpses == 1 and look.source == "weights" and not look.density_features
            if not plain:
                wanted = "heads=1, glimpses=1, source='weights' and density_features=False"
                raise ValueError(f"{name}: {argument} must have {wanted}, got {look}")
        check_transform(name, self.transform, {})
        object.__setattr__(self, "grid", check_sizes(name, "grid", self.grid, 2))

    @classmethod
    def small(cls, words: int = 4, **changes: Any) -> CaptionConfig:
        """Return sizes for a CPU and small images, features from a CNN that is trained with the rest; with changes."""
        sizes: dict[str, Any] = {
            "word_dim": 64,
            "hidden_dim": 128,
            "image_dim": 64,
            "feature_dim": 64,
            "score_dim": 64,
            "layers": 2,
            "heads": 4,
            "feedforward_dim": 256,
            "pixels": True,
            "grid": (8, 8),
        }
        return cls(words, **{**sizes, **changes})
