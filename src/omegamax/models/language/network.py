"""What every language model is: states from tokens, the output, the loss, and one step of decoding."""

from __future__ import annotations

import abc
import math
from typing import Any

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.maps import Omega
from omegamax.models.translation.translator import BOS, PAD, UNK, State
from omegamax.nn import PagedCache, TokenOutput

# Tokens that are never written.
NEVER = [PAD, BOS, UNK]


class LanguageModel(torch.nn.Module, abc.ABC):
    """A network from tokens ``[B, T]`` to distributions over the next token at each place.

    Token 0 is padding, 2 ends a document and stands before the first. A subclass has ``output`` and :meth:`read`.
    """

    output: TokenOutput
    epsilon: Tensor

    def __init__(self) -> None:
        super().__init__()
        # What to add to probabilities where perplexities are measured, found on validation data; NaN: not known.
        self.register_buffer("epsilon", torch.tensor(math.nan, dtype=torch.float64))

    @abc.abstractmethod
    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the states ``[B, T, dim]`` of tokens that come next, and what is kept of all so far.

        Args:
            tokens: ``[B, T]``, behind those that the state knows.
            state: empty, ``{}``, where nothing has been read.
        """

    @property
    def omega(self) -> Omega:
        """Return the map of the output, for decoding."""
        return self.output.omega

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the next token at each place, ``[B, T, V]``."""
        return self.output(self.read(self.check_tokens(tokens), {})[0])

    def loss(self, tokens: Tensor, reduction: str = "mean") -> Tensor:
        """Return the loss of windows ``[B, T + 1]`` of which all but the first are foretold, but for padding."""
        tokens = self.check_tokens(tokens)
        hidden = self.read(tokens[:, :-1], {})[0]
        return self.output.loss(hidden, tokens[:, 1:], ignore_index=PAD, reduction=reduction)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return scores ``[N, V]`` of the next token, and the state, as :mod:`omegamax.generation` asks for them.

        Of the tokens those are read that the state does not know. Padding, begin and what is not known are ruled out.
        """
        known = int(state.get("known", 0))
        hidden, state = self.read(tokens[:, known:], state)
        scores = self.output(hidden[:, -1])
        scores[:, NEVER] = -math.inf
        return scores, {**state, "known": tokens.shape[1]}

    @staticmethod
    def reorder(state: Any, index: Tensor) -> Any:
        """Return the state of the sequences ``index``, for :mod:`omegamax.generation`, also of caches in pages."""
        if isinstance(state, Tensor):
            return state.index_select(0, index)
        if isinstance(state, PagedCache):
            return state.select(index)
        if isinstance(state, dict):
            return {key: LanguageModel.reorder(value, index) for key, value in state.items()}
        if isinstance(state, tuple | list):
            parts = [LanguageModel.reorder(value, index) for value in state]
            return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
        return state

    def check_tokens(self, tokens: Any) -> Tensor:
        """Return tokens ``[B, T]``, or refuse them."""
        name, size = type(self).__name__, self.output.size
        if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int64, torch.int32):
            given = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
            raise TypeError(f"{name}: tokens must be a tensor of integers, got {given}")
        if tokens.dim() != 2 or not tokens.shape[1]:
            raise ValueError(f"{name}: tokens must have shape [B, T] with T >= 1, got {tuple(tokens.shape)}")
        if readable(tokens) and tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
            given = f"{int(tokens.min())} to {int(tokens.max())}"
            raise ValueError(f"{name}: tokens must lie from 0 to {size - 1}, got {given}")
        return tokens
