"""A transformer that writes: attention to the words so far, and to the picture by any kind."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import nn
from omegamax._numerics import working_dtype
from omegamax.densities import Density
from omegamax.models.captioning.config import CaptionConfig
from omegamax.models.captioning.memory import ImageMemory
from omegamax.models.mcan import GridLook, ImageGrid
from omegamax.models.mcan.looks import join_looks, regroup, split_heads
from omegamax.models.text.classifier import encode_positions


class CellAttention(torch.nn.Module):
    """Heads that each look at the cells of a picture for each word, by any kind of attention.

    ``forward(x [B, T, D], memory [B, L, D], grid)`` returns ``[B, T, D]``, the weights ``[B H, T, L]``, the heads of an
    image together, and the densities, of batch ``[B H, T]``, or None.
    """

    def __init__(self, config: CaptionConfig):
        super().__init__()
        d, self.heads = config.hidden_dim, config.heads
        self.query, self.key, self.value, self.out = (torch.nn.Linear(d, d) for _ in range(4))
        self.attention = GridLook(config.attention)

    def forward(self, x: Tensor, memory: Tensor, grid: ImageGrid) -> tuple[Tensor, Tensor, Density | None]:
        q, k, v = (
            split_heads(layer(part), self.heads)
            for layer, part in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        z = q @ k.mT / math.sqrt(q.shape[-1])
        each = grid.repeat(self.heads)
        weights = self.attention.weigh(z.to(working_dtype(z)), each)
        context, density = self.attention.attend(v, weights, each)
        joined = context.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)
        return self.out(joined), weights, density


class CaptionLayer(torch.nn.Module):
    """Attention to the words so far, attention to the picture, and a feed-forward network, each added to its input."""

    def __init__(self, config: CaptionConfig):
        super().__init__()
        d = config.hidden_dim
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(d) for _ in range(3))
        self.words = nn.MultiheadAttention(d, config.heads, batch_first=True, transform=config.transform)
        self.cells = CellAttention(config)
        self.feedforward = torch.nn.Sequential(
            torch.nn.Linear(d, config.feedforward_dim),
            torch.nn.ReLU(),
            torch.nn.Dropout(config.dropout),
            torch.nn.Linear(config.feedforward_dim, d),
        )
        self.dropout = torch.nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, grid: ImageGrid) -> tuple[Tensor, Tensor, Density | None]:
        y = self.norms[0](x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        x = x + self.dropout(self.words(y, y, y, attn_mask=later, need_weights=False, is_causal=True)[0])
        seen, weights, density = self.cells(self.norms[1](x), memory, grid)
        x = x + self.dropout(seen)
        return x + self.dropout(self.feedforward(self.norms[2](x))), weights, density


class TransformerDecoder(torch.nn.Module):
    """Layers of attention to the words so far and to the picture; normalised before each part.

    ``forward(memory, tokens [B, T])`` returns as that of :class:`LSTMDecoder`; the attention it tells of is that of the
    last layer, the mean of its heads, or the mixture of their densities.

    References: Vaswani et al. (NeurIPS 2017); normalisation before each part, Xiong et al. (ICML 2020).
    """

    def __init__(self, config: CaptionConfig):
        super().__init__()
        self.embedding = torch.nn.Embedding(config.words, config.hidden_dim)
        torch.nn.init.normal_(self.embedding.weight, std=config.hidden_dim**-0.5)
        self.layers = torch.nn.ModuleList(CaptionLayer(config) for _ in range(config.layers))
        self.norm = torch.nn.LayerNorm(config.hidden_dim)
        self.dropout = torch.nn.Dropout(config.dropout)
        self.heads = config.heads

    @staticmethod
    def memory_dim(config: CaptionConfig) -> int:
        """Return the features of a cell that it wants."""
        return config.hidden_dim

    @staticmethod
    def output_dim(config: CaptionConfig) -> int:
        """Return the features that words are read from."""
        return config.hidden_dim

    def forward(self, memory: ImageMemory, tokens: Tensor) -> tuple[Tensor, Tensor, Density | None]:
        x = math.sqrt(self.norm.normalized_shape[0]) * self.embedding(tokens)
        x = self.dropout(x + encode_positions(tokens.shape[1], x.shape[-1]).to(x))
        weights = density = None
        for layer in self.layers:
            x, weights, density = layer(x, memory.values, memory.grid)
        assert weights is not None
        words = tokens.shape[1]
        if density is not None:
            # [B H, T] to [B T, H], and those heads to one mixture for each word.
            density = regroup(density, lambda part: part.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(0, 2))
            density = join_looks([density], self.heads)
            density = regroup(density, lambda part: part.unflatten(0, (-1, words)))
        return self.norm(x), weights.unflatten(0, (-1, self.heads)).mean(1), density

    def prepare(self, memory: ImageMemory) -> ImageMemory:
        """Return the memory as it is: nothing is computed of it beforehand."""
        return memory

    def begin(self, memory: ImageMemory) -> tuple[()]:
        """Return the state before the first word: there is none."""
        return ()

    def step(self, memory: ImageMemory, tokens: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """Return what the next word is read from, ``[N, output_dim]``, after all tokens so far."""
        return self(memory, tokens)[0][:, -1], state
