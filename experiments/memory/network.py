"""A reader of long sequences: segments one after the other, a memory of constant size, and a decoder that sorts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sequences import SYMBOLS
from torch import Tensor

from omegamax.nn import LongTermMemory

KINDS = ("none", "cache", "average", "signal", "matched")
CONTRACTION = 0.75


class Slots(torch.nn.Module):
    """N vectors of the past, read by softmax attention: the last ones, or averages of ever more neighbours."""

    def __init__(self, dim: int, count: int, heads: int, kind: str):
        super().__init__()
        self.count, self.kind = count, kind
        self.place = torch.nn.Parameter(0.02 * torch.randn(count, dim))
        self.attend = torch.nn.MultiheadAttention(dim, heads, batch_first=True)

    def write(self, hidden: Tensor) -> Tensor:
        """Return the vectors ``[B, N, D]`` that are left of segments ``[B, S, L, D]``."""
        if self.kind == "cache":
            return hidden.flatten(1, 2)[:, -self.count :]
        kept = round(CONTRACTION * self.count)
        state = _pool(hidden[:, 0], self.count)
        for segment in hidden[:, 1:].unbind(1):
            state = torch.cat([_pool(state, kept), _pool(segment, self.count - kept)], 1)
        return state

    def forward(self, query: Tensor, state: Tensor) -> Tensor:
        keys = state + self.place[-state.shape[1] :]
        return self.attend(query, keys, state, need_weights=False)[0]


class Signal(torch.nn.Module):
    """N coefficients of a continuous signal, read by densities."""

    def __init__(self, dim: int, count: int, heads: int, moments: str):
        super().__init__()
        self.memory = LongTermMemory(dim, count, heads=heads, contraction=CONTRACTION, moments=moments)

    def write(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Return the state of the memory after segments ``[B, S, L, D]``."""
        state = self.memory.initial_state(len(hidden))
        for segment in hidden.unbind(1):
            state = self.memory.update(state, segment)
        return state

    def forward(self, query: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        return self.memory(query, state)[0]


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
        self.symbols = torch.nn.Embedding(SYMBOLS, dim)
        self.steps = torch.nn.Embedding(SYMBOLS, dim)
        self.begin = torch.nn.Parameter(torch.zeros(dim))
        settings = {"batch_first": True, "norm_first": True, "dropout": 0.0}
        self.read = torch.nn.TransformerEncoderLayer(dim, heads, 2 * dim, **settings)
        self.norm = torch.nn.LayerNorm(dim)
        self.decode = torch.nn.ModuleList(
            torch.nn.TransformerDecoderLayer(dim, heads, 2 * dim, **settings) for _ in range(layers)
        )
        makers = {
            "cache": lambda: Slots(dim, slots, heads, kind),
            "average": lambda: Slots(dim, slots, heads, kind),
            "signal": lambda: Signal(dim, slots, heads, "predicted"),
            "matched": lambda: Signal(dim, slots, heads, "matched"),
        }
        self.memories = torch.nn.ModuleList(makers[kind]() for _ in range(layers) if kind != "none")
        self.ask = torch.nn.ModuleList(torch.nn.LayerNorm(dim) for _ in self.memories)
        self.out = torch.nn.Linear(dim, SYMBOLS)

    def forward(self, sequences: Tensor, sorted_symbols: Tensor) -> Tensor:
        """Return the scores ``[B, 20, 20]`` of the next symbol, at each step given the true ones before it."""
        hidden = self.symbols(sequences.unflatten(1, (-1, self.segment)))  # [B, S, L, D]
        hidden = self.norm(self.read(hidden.flatten(0, 1))).unflatten(0, hidden.shape[:2])
        states = [memory.write(hidden) for memory in self.memories]
        before = torch.cat([self.begin.expand(len(sequences), 1, -1), self.symbols(sorted_symbols[:, :-1])], 1)
        x = before + self.steps.weight
        causal = torch.nn.Transformer.generate_square_subsequent_mask(SYMBOLS, device=x.device)
        for i, layer in enumerate(self.decode):
            x = layer(x, hidden[:, -1], tgt_mask=causal, tgt_is_causal=True)
            if states:
                x = x + self.memories[i](self.ask[i](x), states[i])
        return self.out(x)


def _pool(x: Tensor, count: int) -> Tensor:
    """Return averages ``[B, count, D]`` of neighbours."""
    return F.adaptive_avg_pool1d(x.transpose(1, 2), count).transpose(1, 2)
