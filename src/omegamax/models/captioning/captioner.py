"""The network from end to end: a picture in, a caption and where it looked for each word out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from omegamax import generation, nn
from omegamax.data.captions.vocabulary import END, START
from omegamax.data.vocabulary import PADDING, UNKNOWN
from omegamax.densities import Density
from omegamax.models.captioning.config import CaptionConfig
from omegamax.models.captioning.lstm import LSTMDecoder
from omegamax.models.captioning.memory import ImageEncoder, ImageMemory
from omegamax.models.captioning.transformer import TransformerDecoder
from omegamax.models.mcan import GridAttention, ImageGrid
from omegamax.models.mcan.looks import regroup

_NEVER = (PADDING, UNKNOWN, START)  # no caption has these


@dataclass(frozen=True, eq=False)
class Writing:
    """What a network makes of captions that it is shown word by word.

    Args:
        hidden: what the next word is read from after each, ``[B, T, D]``.
        discrete: weights over the cells for the next word, ``[B, T, L]``.
        grid: the cells.
        density: of batch ``[B, T]``, or None.
    """

    hidden: Tensor
    discrete: Tensor
    grid: ImageGrid
    density: Density | None = None

    def attention(self) -> GridAttention:
        """Return where it looked, words as examples: weights ``[B T, h, w]`` and densities of batch ``[B T]``."""
        words = self.discrete.shape[1]
        density = None if self.density is None else regroup(self.density, lambda part: part.flatten(0, 1))
        weights = self.discrete.flatten(0, 1).unflatten(-1, self.grid.shape)
        return GridAttention(weights, self.grid.repeat(words), density)

    def maps(self) -> Tensor:
        """Return the attention paid to each cell for each word, ``[B, T, h, w]``: weights, or shares of a density.

        What is 0 is exactly so: a share too small for a float is the smallest there is.
        """
        attention = self.attention()
        shown = attention.weights
        if attention.density is not None:
            shown = torch.where(attention.empty(), 0.0, shown.clamp(min=torch.finfo(shown.dtype).tiny))
        return shown.unflatten(0, (-1, self.discrete.shape[1]))


class Captioner(torch.nn.Module):
    """A network that writes captions.

    Args:
        config: sizes, and the attention that words are read from.

    ``forward(batch)`` takes what :class:`~omegamax.data.captions.CaptionCollate` makes, ``caption [B, T + 1]`` from
    start to end, and ``features`` or ``image``, and returns a :class:`Writing`: what each word but the first is read
    from. :meth:`loss` is its loss; :meth:`write` writes captions by itself.

        >>> _ = torch.manual_seed(0)  # others end their captions sooner
        >>> model = Captioner(CaptionConfig.small(words=20)).eval()
        >>> batch = {"image": torch.rand(2, 3, 64, 64), "caption": torch.tensor([[2, 7, 9, 3], [2, 4, 3, 0]])}
        >>> writing = model(batch)
        >>> writing.hidden.shape, writing.maps().shape
        (torch.Size([2, 3, 256]), torch.Size([2, 3, 8, 8]))
        >>> model.write(batch, beam=3, max_length=5).tokens.shape
        torch.Size([2, 1, 5])
    """

    def __init__(self, config: CaptionConfig):
        super().__init__()
        self.config = config
        build: type[LSTMDecoder | TransformerDecoder] = LSTMDecoder
        if config.decoder == "transformer":
            build = TransformerDecoder
        self.encoder = ImageEncoder(config, build.memory_dim(config))
        self.decoder = build(config)
        self.output = nn.TokenOutput(
            build.output_dim(config),
            config.words,
            config.output,
            alpha=config.output_alpha,
            label_smoothing=config.label_smoothing,
        )

    def forward(self, batch: Mapping[str, Any], memory: ImageMemory | None = None) -> Writing:
        memory = self.encoder(batch) if memory is None else memory
        hidden, weights, density = self.decoder(memory, batch["caption"][:, :-1])
        return Writing(hidden, weights, memory.grid, density)

    def loss(self, batch: Mapping[str, Any], writing: Writing | None = None, reduction: str = "mean") -> Tensor:
        """Return the loss of the words of the captions, their ends among them; a mean over words."""
        writing = self(batch) if writing is None else writing
        return self.output.loss(writing.hidden, batch["caption"][:, 1:], ignore_index=PADDING, reduction=reduction)

    @torch.no_grad()
    def write(
        self,
        batch: Mapping[str, Any],
        *,
        beam: int = 5,
        returned: int = 1,
        max_length: int = 20,
        length_penalty: float = 0.0,
    ) -> generation.Beams:
        """Return captions by beam search, the likeliest first, see :func:`~omegamax.generation.beam_search`.

        Where the map of the words is sparse, the search may prove that it found the best caption, or all. Padding,
        start and unknown words are never written.

        Args:
            batch: with ``features`` or ``image``.
            beam: captions that go on at each word; 1 is greedy.
            returned: captions of each picture.
            max_length: words after which a caption is cut, its end counted.
            length_penalty: see there; 0 ranks by probability, 1 by that of a word.
        """
        decoder = cast(Any, self.decoder)
        memory = decoder.prepare(self.encoder(batch))
        rows = torch.arange(len(memory), device=memory.values.device)
        start = torch.full((len(memory), 1), START, device=rows.device)

        def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            which, inner = state
            hidden, inner = decoder.step(memory.select(which), tokens, inner)
            scores = self.output(hidden).clone()
            scores[:, list(_NEVER)] = -torch.inf
            return scores, (which, inner)

        return generation.beam_search(
            step,
            start,
            beam=beam,
            returned=returned,
            omega=self.output.omega,
            eos=END,
            pad=PADDING,
            max_length=max_length,
            length_penalty=length_penalty,
            state=(rows, decoder.begin(memory)),
        )
