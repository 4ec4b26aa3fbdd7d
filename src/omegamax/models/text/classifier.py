"""The network from end to end: words in, scores of classes and where it looked out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import nn
from omegamax._checks import readable
from omegamax.models.mcan.blocks import SelfAttention
from omegamax.models.text.attention import TextAttention, WordAttention
from omegamax.models.text.config import TextConfig


@dataclass(frozen=True, eq=False)
class TextAnswer:
    """What a network says of texts, and where it looked.

    Args:
        logits: one for each class, ``[B, C]``.
        attention: over the words.
        rationale: weights of the words that were read, ``[B, L]``, 0 of all others; None: all were.
        penalty: to be added to the loss; None: nothing.
    """

    logits: Tensor
    attention: WordAttention
    rationale: Tensor | None = None
    penalty: Tensor | None = None


class WordReader(torch.nn.Module):
    """What networks share that read words: their embedding, an encoder, and dropout before and after it.

    Args:
        config: sizes.
        embedding: of the words, to start from, ``[words, word_dim]``, such as GloVe's.
    """

    def __init__(self, config: TextConfig, embedding: Tensor | None = None):
        super().__init__()
        self.config = config
        self.embedding = torch.nn.Embedding(config.words, config.word_dim, padding_idx=0)
        if embedding is not None:
            wanted = tuple(self.embedding.weight.shape)
            if tuple(embedding.shape) != wanted:
                given = tuple(embedding.shape)
                name = type(self).__name__
                raise ValueError(f"{name}: embedding must be [words, word_dim] = {wanted}, got shape {given}")
            with torch.no_grad():
                self.embedding.weight.copy_(embedding)
        self.encoder = make_encoder(config)
        self.dropout = torch.nn.Dropout(config.dropout)

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the states ``[B, L, D]`` of embeddings; the mask is True where there is a word."""
        return self.dropout(self.encoder(self.dropout(x), mask.sum(-1), mask))

    @property
    def alphas(self) -> Tensor | None:
        """Return what each head has learnt to map its scores by, ``[layers, heads]``; None without a transformer."""
        return self.encoder.alphas if isinstance(self.encoder, TransformerEncoder) else None

    def check_words(self, key: str, words: Any) -> Tensor:
        """Return the indices of words that a batch holds under a key, or refuse them."""
        name = type(self).__name__
        if not isinstance(words, Tensor) or words.dtype not in (torch.int64, torch.int32):
            given = words.dtype if isinstance(words, Tensor) else type(words).__name__
            raise TypeError(f"{name}: batch must hold {key}, integer indices, got {given}")
        if words.dim() != 2 or words.shape[1] == 0:
            raise ValueError(f"{name}: {key} must be [B, L] with L >= 1, got shape {tuple(words.shape)}")
        if words.numel() and words.device.type == "cpu" and readable(words):
            low, high = (int(i) for i in words.aminmax())
            if low < 0 or high >= self.config.words:
                worst = low if low < 0 else high
                raise IndexError(f"{name}: {key} must be indices in [0, {self.config.words}), got {worst}")
        return words


class TextClassifier(WordReader):
    """Words, an encoder, one look at its states with any attention, and a linear map to the classes.

    Args:
        config: sizes, and the attention.
        embedding: of the words, to start from, ``[words, word_dim]``, such as GloVe's.

    ``forward(batch)`` takes what :func:`~omegamax.data.text.collate_texts` makes: ``words [B, L]``, integers, 0 after
    the last word; ``lengths``, a list of the numbers of words, may be missing, but with a continuous attention on a GPU
    it saves waiting for them. Returns a :class:`TextAnswer`.

        >>> model = TextClassifier(TextConfig.small(words=20, classes=3)).eval()
        >>> answer = model({"words": torch.tensor([[3, 7, 2], [4, 0, 0]])})
        >>> answer.logits.shape, answer.attention.weights[1]
        (torch.Size([2, 3]), tensor([1., 0., 0.], grad_fn=<SelectBackward0>))

    Reference: Martins et al. (NeurIPS 2020), App. H.1 and Table 3.
    """

    def __init__(self, config: TextConfig, embedding: Tensor | None = None):
        super().__init__(config, embedding)
        self.attention = TextAttention(config.state_dim, config.score_dim, config.attention)
        self.classify = torch.nn.Linear(config.state_dim, config.classes)

    def forward(self, batch: Mapping[str, Any]) -> TextAnswer:
        if "second" in batch:
            raise ValueError("TextClassifier: reads one text, got pairs; for these the network must have an alignment")
        words = self.check_words("words", batch.get("words"))
        return self.read(self.embedding(words), words != 0, batch.get("lengths"))

    def read(self, x: Tensor, mask: Tensor, counts: Sequence[int] | None = None) -> TextAnswer:
        """Return the answer to the embeddings of words ``[B, L, word_dim]``.

        Args:
            mask: ``[B, L]``, True where there is a word.
            counts: how many each text has, where that is known without asking a GPU.
        """
        h = self.encode(x, mask)
        context, attention = self.attention(h, mask.sum(-1), mask, counts)
        return TextAnswer(self.classify(context), attention)

    def extra_repr(self) -> str:
        return f"attention={self.config.attention.kind!r}"


class BiLSTMEncoder(torch.nn.Module):
    """An LSTM in both directions, whose states are put together: ``[B, L, word_dim] -> [B, L, 2 hidden_dim]``.

    The way back begins at the last word of each text, whatever padding is behind it: it reads the text turned round.
    What comes out at padding is 0. (Packed sequences give the same, with five times the time for gradients on a CPU.)
    """

    def __init__(self, config: TextConfig):
        super().__init__()
        self.onward = torch.nn.LSTM(config.word_dim, config.hidden_dim, batch_first=True)
        self.back = torch.nn.LSTM(config.word_dim, config.hidden_dim, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
        if len(x) == 0:
            return x.new_zeros(*x.shape[:2], 2 * self.onward.hidden_size)
        index = torch.arange(x.shape[1], device=x.device)
        turned = torch.where(mask, lengths.unsqueeze(-1) - 1 - index, index)
        h = torch.cat([self.onward(x)[0], _turn(self.back(_turn(x, turned))[0], turned)], -1)
        return h.masked_fill(~mask.unsqueeze(-1), 0.0)


def make_encoder(config: TextConfig) -> BiLSTMEncoder | TransformerEncoder:
    """Make the encoder that a configuration names."""
    return BiLSTMEncoder(config) if config.encoder == "bilstm" else TransformerEncoder(config)


def _turn(x: Tensor, index: Tensor) -> Tensor:
    """Return the words of each text in another order, ``[B, L, D]``."""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


class TransformerEncoder(torch.nn.Module):
    """Self-attention layers over words and their positions, with one learnt alpha of entmax in each head.

    Reference: Correia, Niculae and Martins (EMNLP 2019); positions as in Vaswani et al. (NeurIPS 2017), Sec. 3.5.
    """

    def __init__(self, config: TextConfig):
        super().__init__()
        dim = config.state_dim
        self.project = torch.nn.Linear(config.word_dim, dim)
        self.layers = torch.nn.ModuleList(
            SelfAttention(dim, config.heads, 2 * dim, config.dropout, 0.0, self._make_map(config))
            for _ in range(config.layers)
        )

    @staticmethod
    def _make_map(config: TextConfig) -> torch.nn.Module:
        if not config.learn_alpha:
            return nn.Entmax(config.alpha)
        return nn.Entmax(config.alpha, learnable=True, per=config.heads)

    @property
    def alphas(self) -> Tensor:
        """Return the alpha of each head, ``[layers, heads]``."""
        return torch.stack([self._read_alpha(layer) for layer in self.layers])

    @staticmethod
    def _read_alpha(layer: torch.nn.Module) -> Tensor:
        attention = layer.own.part  # type: ignore[union-attr]
        alpha = attention.transform.alpha  # type: ignore[union-attr]
        if isinstance(alpha, nn.Alpha):
            return alpha.value
        return torch.full((int(attention.heads),), float(alpha))  # type: ignore[arg-type, union-attr]

    def forward(self, x: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
        h = self.project(x)
        h = h + encode_positions(h.shape[1], h.shape[2]).to(h)
        for layer in self.layers:
            h = layer(h, mask)
        return h


def encode_positions(length: int, dim: int, device: torch.device | None = None) -> Tensor:
    """Return sines and cosines of positions, ``[length, dim]``.

    >>> encode_positions(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    rates = torch.exp(torch.arange(0, dim, 2, device=device) * (-math.log(10000.0) / dim))
    angles = torch.arange(length, device=device).unsqueeze(-1) * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :dim]
