"""A reader of long sequences: segments one after the other, a memory of constant size, and a decoder that sorts."""

from __future__ import annotations

from typing import Any

import torch
from sequences import SYMBOLS
from torch import Tensor

from omegamax.models.language import SlotMemory
from omegamax.nn import LongTermMemory

KINDS = ("none", "cache", "average", "signal", "matched")
CONTRACTION = 0.75


def make_memory(kind: str, dim: int, count: int, heads: int) -> SlotMemory | LongTermMemory:
    """Make a memory of N vectors, or of N coefficients of a signal, by its name in ``KINDS``."""
    if kind in ("cache", "average"):
        return SlotMemory(dim, count, heads, "last" if kind == "cache" else kind, CONTRACTION)
    moments = "predicted" if kind == "signal" else kind
    return LongTermMemory(dim, count, heads=heads, contraction=CONTRACTION, moments=moments)


def write(memory: SlotMemory | LongTermMemory, hidden: Tensor) -> Any:
    """Return the state of a memory after segments ``[B, S, L, D]``."""
    state: Any = memory.initial_state(len(hidden))
    for segment in hidden.unbind(1):
        state = memory.update(state, segment)
    return state


class Sorter(torch.nn.Module):
    """From a sequence to its symbols in the order of their frequencies.

    Args:
        kind: of memory, one of ``KINDS``.
        segment: symbols that are read at once; the decoder sees the last segment, whatever the memory.
        slots: N, vectors or coefficients of the memory.
    """

    def __init__(self, kind: str, segment: int, slots: int, dim: int = 64, heads: int = 4, layers: int = 2):
        super().__init__()
        self.segment = segment
        # Symbols that count: without a memory, and with a cache, what is further back is never looked at.
        self.reach = {"none": segment, "cache": segment * -(-slots // segment)}.get(kind)
        self.symbols = torch.nn.Embedding(SYMBOLS, dim)
        self.steps = torch.nn.Embedding(SYMBOLS, dim)
        self.begin = torch.nn.Parameter(torch.zeros(dim))
        settings = {"batch_first": True, "norm_first": True, "dropout": 0.0}
        self.read = torch.nn.TransformerEncoderLayer(dim, heads, 2 * dim, **settings)
        self.norm = torch.nn.LayerNorm(dim)
        self.decode = torch.nn.ModuleList(
            torch.nn.TransformerDecoderLayer(dim, heads, 2 * dim, **settings) for _ in range(layers)
        )
        count = 0 if kind == "none" else layers
        self.memories = torch.nn.ModuleList(make_memory(kind, dim, slots, heads) for _ in range(count))
        self.ask = torch.nn.ModuleList(torch.nn.LayerNorm(dim) for _ in self.memories)
        self.out = torch.nn.Linear(dim, SYMBOLS)

    def forward(self, sequences: Tensor, sorted_symbols: Tensor) -> Tensor:
        """Return the scores ``[B, 20, 20]`` of the next symbol, at each step given the true ones before it."""
        sequences = sequences if self.reach is None else sequences[:, -self.reach :]
        hidden = self.symbols(sequences.unflatten(1, (-1, self.segment)))  # [B, S, L, D]
        hidden = self.norm(self.read(hidden.flatten(0, 1))).unflatten(0, hidden.shape[:2])
        states = [write(memory, hidden) for memory in self.memories]
        before = torch.cat([self.begin.expand(len(sequences), 1, -1), self.symbols(sorted_symbols[:, :-1])], 1)
        x = before + self.steps.weight
        causal = torch.nn.Transformer.generate_square_subsequent_mask(SYMBOLS, device=x.device)
        for i, layer in enumerate(self.decode):
            x = layer(x, hidden[:, -1], tgt_mask=causal, tgt_is_causal=True)
            if states:
                x = x + self.memories[i](self.ask[i](x), states[i])[0]
        return self.out(x)
