"""What networks that translate share: embeddings, the output, the loss, and one step of a search."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.data.subwords import BOS, PAD
from omegamax.densities import Density
from omegamax.generation import log_probabilities
from omegamax.maps import Omega
from omegamax.models.decoding import State, check_tokens, forbid_marks
from omegamax.models.token_output import make_output
from omegamax.models.translation.config import TranslatorConfig


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where a network looked at the source for each word of the target.

    Args:
        weights: ``[B, T, S]``, each row of which sums to one over the source; 0 at padding.
        densities: over the unit interval that the source fills, one of batch ``[B]`` for each word of the target; None
            where attention is discrete alone.
        heads: of the transformer, by layer and head, ``[B, layers, heads, T, S]``; else None.
    """

    weights: Tensor
    densities: list[Density] | None = None
    heads: Tensor | None = None


class Translator(torch.nn.Module, abc.ABC):
    """A network from sentences ``[B, S]`` of source tokens to distributions over target tokens.

    Tokens 0 to 3 are padding, begin, end and what is not known; sentences end with the end token. A subclass has
    :meth:`encode`, :meth:`read` and :meth:`advance`.

    Args:
        config: sizes.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.embedding_dim
        self.embedding = _make_embedding(config.target, dim)
        self.source_embedding = self.embedding if config.joint else _make_embedding(config.source, dim)
        self.dropout = torch.nn.Dropout(config.dropout)
        self.output = make_output(config.output, config.dim, config.target, self.embedding if config.tied else None)

    @abc.abstractmethod
    def encode(self, source: Tensor) -> State:
        """Return what a search keeps of sentences ``[B, S]``: tensors whose first axis is B, in dicts and lists."""

    @abc.abstractmethod
    def read(self, state: State, tokens: Tensor, look: bool = False) -> tuple[Tensor, Alignment | None]:
        """Return states ``[B, T, dim]`` of the target's tokens ``[B, T]``, all at once, and with ``look`` where they
        looked.

        They begin with the begin token; state t foretells token t + 1.
        """

    @abc.abstractmethod
    def advance(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Return the state ``[N, dim]`` of the last of the target's tokens ``[N, T]``, and what a search keeps.

        Of the tokens those are read that the search's state does not know yet.
        """

    @property
    def omega(self) -> Omega:
        """Return the map of the output, for a search."""
        return self.output.omega

    def forward(self, batch: dict[str, Any]) -> Tensor:
        """Return the scores of the next token, ``[B, T, V]``, of a batch with ``source [B, S]`` and ``target [B, T]``,
        which ends with the end token."""
        return self.output(self._foretell(batch))

    def loss(self, batch: dict[str, Any], reduction: str = "mean") -> Tensor:
        """Return the loss of a batch, over all tokens of the target but padding."""
        return self.output.loss(self._foretell(batch), batch["target"], ignore_index=PAD, reduction=reduction)

    def _foretell(self, batch: dict[str, Any]) -> Tensor:
        source, target = (self.check_tokens(key, batch.get(key)) for key in ("source", "target"))
        return self.read(self.encode(source), _shift(target))[0]

    def count_support(self, batch: dict[str, Any]) -> Tensor:
        """Return how many tokens could stand in place of each of the target's, ``[B, T]``, as :meth:`step` has it."""
        scores = self(batch)
        forbid_marks(scores.flatten(0, 1))
        return (log_probabilities(scores, self.omega) > -torch.inf).sum(-1)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return scores ``[N, V]`` of the next token, and the state, as :mod:`omegamax.generation` asks for them.

        Padding, begin and what is not known are ruled out: a translation is made of words.
        """
        hidden, state = self.advance(state, tokens)
        return forbid_marks(self.output(hidden)), state

    def align(self, source: Tensor, target: Tensor) -> Alignment:
        """Return where the network looks for each token of translations ``[B, T]`` that end with the end token."""
        found = self.read(self.encode(source), _shift(target), look=True)[1]
        assert found is not None
        return found

    def check_tokens(self, key: str, tokens: Any) -> Tensor:
        """Return the tokens that a batch holds under a key, ``[B, L]``, or refuse them."""
        return check_tokens(type(self).__name__, key, tokens, getattr(self.config, key))


def _make_embedding(size: int, dim: int) -> torch.nn.Embedding:
    """Make an embedding; padding is at 0 to begin with, and nothing asks for it."""
    made = torch.nn.Embedding(size, dim, padding_idx=PAD)
    torch.nn.init.normal_(made.weight, std=dim**-0.5)
    with torch.no_grad():
        made.weight[PAD] = 0.0
    return made


def _shift(target: Tensor) -> Tensor:
    """Return what is read to foretell the tokens: the begin token, then all but the last."""
    begin = torch.full_like(target[:, :1], BOS)
    return torch.cat([begin, target[:, :-1]], 1)
