"""The LSTM that looks before it changes its state, and again before it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.densities import Density
from omegamax.models.captioning.config import CaptionConfig
from omegamax.models.captioning.memory import ImageMemory
from omegamax.models.mcan import GridLook, ImageGrid


class LSTMState(NamedTuple):
    """Hidden state and cell, ``[N, d]`` each."""

    hidden: Tensor
    cell: Tensor


class AdditiveScore(torch.nn.Module):
    r"""Scores of cells for a state: :math:`z_i = w^\top \tanh(W v_i + U h + b)`.

    ``forward(keys [B, L, A], hidden [B, d])`` returns ``[B, L]``, for hidden states ``[B, T, d]`` of T words
    ``[B, T, L]``; :meth:`keys` are :math:`W v_i`, computed once for a picture.
    """

    def __init__(self, value_dim: int, state_dim: int, hidden: int):
        super().__init__()
        self.key = torch.nn.Linear(value_dim, hidden, bias=False)
        self.query = torch.nn.Linear(state_dim, hidden)
        self.score = torch.nn.Linear(hidden, 1, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        """Return the part of the scores that depends on the picture alone, ``[B, L, A]``."""
        return self.key(values)

    def forward(self, keys: Tensor, hidden: Tensor) -> Tensor:
        if hidden.dim() == 3:
            keys = keys.unsqueeze(1)
        z = self.score(torch.tanh(keys + self.query(hidden).unsqueeze(-2))).squeeze(-1)
        return z.to(working_dtype(z))


class AdditiveLook(torch.nn.Module):
    """Additive scores and a kind of attention: what a state sees of a picture."""

    def __init__(self, config: CaptionConfig, output: bool):
        super().__init__()
        self.score = AdditiveScore(config.feature_dim, config.hidden_dim, config.score_dim)
        self.attention = GridLook(config.attention if output else config.input_attention)

    def forward(
        self, values: Tensor, keys: Tensor, grid: ImageGrid, hidden: Tensor
    ) -> tuple[Tensor, Tensor, Density | None]:
        """Return contexts ``[B, D]`` or ``[B, T, D]``, weights, and the densities of a continuous kind."""
        weights = self.attention.weigh(self.score(keys, hidden), grid)
        context, density = self.attention.attend(values, weights, grid)
        return context, weights, density


class LSTMDecoder(torch.nn.Module):
    r"""An LSTM with input and output attention over a picture with features :math:`V = (v_1, ..., v_k)`.

    .. math:: s_t = V \alpha_t, \quad h_t = \mathrm{LSTM}([e(y_{t-1}); s_t], h_{t-1}), \quad
              \tilde s_t = V \tilde\alpha_t, \quad r_t = \tanh(W \tilde s_t + b), \quad
              P(y_t) = \hat p_\Omega(\mathrm{affine}([r_t; h_t]))

    with :math:`\alpha_t` from the scores :math:`w^\top \tanh(\mathrm{affine}([v_i; h_{t-1}]))` by
    ``config.input_attention``, and :math:`\tilde\alpha_t` in the same way from :math:`h_t` by ``config.attention``. The
    state starts from an affine map of the mean of the cells, through tanh, of which the paper says nothing.

    ``forward(memory, tokens [B, T])`` returns what the next words are read from, ``[B, T, output_dim]``, the weights of
    the output attention ``[B, T, L]`` and its densities, of batch ``[B, T]``, or None. :meth:`step` does the same for
    one word after a state.

    Reference: Martins et al. (ICIP 2021), Sec. 3, Fig. 2 and Eq. 10.
    """

    def __init__(self, config: CaptionConfig):
        super().__init__()
        d = config.hidden_dim
        self.embedding = torch.nn.Embedding(config.words, config.word_dim)
        self.start = torch.nn.Linear(config.feature_dim, 2 * d)
        self.input = AdditiveLook(config, output=False)
        self.cell = torch.nn.LSTMCell(config.word_dim + config.feature_dim, d)
        self.output = AdditiveLook(config, output=True)
        self.read = torch.nn.Linear(config.feature_dim, d)
        self.dropout = torch.nn.Dropout(config.dropout)

    @staticmethod
    def memory_dim(config: CaptionConfig) -> int:
        """Return the features of a cell that it wants."""
        return config.feature_dim

    @staticmethod
    def output_dim(config: CaptionConfig) -> int:
        """Return the features that words are read from."""
        return 2 * config.hidden_dim

    def begin(self, memory: ImageMemory) -> LSTMState:
        """Return the state before the first word."""
        hidden, cell = torch.tanh(self.start(memory.mean())).chunk(2, -1)
        return LSTMState(hidden.contiguous(), cell.contiguous())

    def prepare(self, memory: ImageMemory) -> ImageMemory:
        """Return the memory with what both attentions need of it, computed once for all words."""
        looks = (self.input, self.output)
        return replace(memory, keys=tuple(look.score.keys(memory.values) for look in looks))

    def forward(self, memory: ImageMemory, tokens: Tensor) -> tuple[Tensor, Tensor, Density | None]:
        return self.look(memory, self.run(memory, tokens))

    def run(self, memory: ImageMemory, tokens: Tensor) -> Tensor:
        """Return the hidden state after each token, ``[B, T, d]``: the part that goes from word to word."""
        state, words = self.begin(memory), self.dropout(self.embedding(tokens))
        keys = memory.keys[0] if memory.keys else self.input.score.keys(memory.values)
        states = []
        for word in words.unbind(1):
            state = self._advance(memory, keys, word, state)
            states.append(state.hidden)
        return torch.stack(states, 1)

    def look(self, memory: ImageMemory, hidden: Tensor) -> tuple[Tensor, Tensor, Density | None]:
        """Return what :meth:`forward` does from the states ``[B, T, d]``, for all words at once."""
        keys = memory.keys[1] if memory.keys else self.output.score.keys(memory.values)
        context, weights, density = self.output(memory.values, keys, memory.grid, hidden)
        return self.dropout(torch.cat([torch.tanh(self.read(context)), hidden], -1)), weights, density

    def step(self, memory: ImageMemory, tokens: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return what the next word is read from, ``[N, output_dim]``, and the state, after the last of the tokens."""
        memory = memory if memory.keys else self.prepare(memory)
        word = self.dropout(self.embedding(tokens[:, -1]))
        state = self._advance(memory, memory.keys[0], word, state)
        seen, _, _ = self.look(memory, state.hidden.unsqueeze(1))
        return seen.squeeze(1), state

    def _advance(self, memory: ImageMemory, keys: Tensor, word: Tensor, state: LSTMState) -> LSTMState:
        seen, _, _ = self.input(memory.values, keys, memory.grid, state.hidden)
        return LSTMState(*self.cell(torch.cat([word, seen], -1), (state.hidden, state.cell)))
