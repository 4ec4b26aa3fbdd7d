"""The decoder: layers of causal attention, each perhaps with a memory, normed before they are read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.models.decoding import State
from omegamax.models.language.config import LanguageConfig
from omegamax.models.language.heads import CausalHeads
from omegamax.models.language.memory import make_memory
from omegamax.models.language.network import LanguageModel
from omegamax.models.token_output import make_output
from omegamax.nn import LongTermMemory


class Decoder(LanguageModel):
    """A language model of causal self-attention.

    With a memory, text is read in segments: attention sees the one that it is in, and each layer's memory has what came
    before. When a segment is full, the states that the layer has read go into its memory.

    Args:
        config: sizes.

        >>> model = Decoder(LanguageConfig.tiny(30, attention="entmax15", groups=2, sink=True)).eval()
        >>> tokens = torch.randint(4, 30, (2, 7))
        >>> model(tokens).shape, model.loss(tokens).shape
        (torch.Size([2, 7, 30]), torch.Size([]))

    ``initial_state(page=64)`` is a state whose caches are read page by page, with a proof that the rest of them does
    not matter: ``state["layers"][i]["own"]["certificate"]``, see :class:`~omegamax.nn.Certificate`. Any other decoding
    starts from ``{}``.

    References: Vaswani et al. (NeurIPS 2017); norms first, Xiong et al. (ICML 2020); memory, Martins, Marinho & Martins
    (ACL 2022).
    """

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = torch.nn.Embedding(config.vocabulary, config.dim)
        torch.nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)
        self.dropout = torch.nn.Dropout(config.dropout)
        self.layers = torch.nn.ModuleList(CausalLayer(config) for _ in range(config.layers))
        self.norm = torch.nn.LayerNorm(config.dim)
        tied = self.embedding if config.tied else None
        self.output = make_output(config.output, config.dim, config.vocabulary, tied)

    @property
    def alphas(self) -> Tensor | None:
        """Return what each head maps its scores by, ``[layers, heads]``; None where the map has no alpha."""
        found = [layer.own.alpha for layer in self._layers()]
        return None if any(alpha is None for alpha in found) else torch.stack(found)  # type: ignore[arg-type]

    def initial_state(self, page: int | None = None) -> State:
        """Return the state before the first token; with a page, caches are read in pages of so many keys."""
        if page is not None and self.config.memory is not None:
            raise ValueError("Decoder: a memory takes the place of a long cache; give page=None with it")
        return {} if page is None else {"page": page}

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.dropout(self.embedding(tokens) * self.config.dim**0.5)
        layers = state.get("layers") or [layer.begin(x, state.get("page")) for layer in self._layers()]
        if self.config.memory is None:
            h, layers = self._read_segment(x, layers, full=False)
            return self.norm(h), {**state, "layers": layers}
        size, inside = self.config.memory.segment, int(state.get("inside", 0))
        found = []
        while x.shape[1]:
            part, x = x[:, : size - inside], x[:, size - inside :]
            inside = (inside + part.shape[1]) % size
            h, layers = self._read_segment(part, layers, full=inside == 0)
            found.append(h)
        return self.norm(torch.cat(found, 1)), {**state, "layers": layers, "inside": inside}

    def _read_segment(self, h: Tensor, layers: list[State], full: bool) -> tuple[Tensor, list[State]]:
        """Return the states of the part of a segment, and what is kept; ``full``: the segment ends with it."""
        kept = []
        for layer, old in zip(self._layers(), layers, strict=True):
            h, new = layer(h, old, full)
            kept.append(new)
        return h, kept

    def _layers(self) -> list[CausalLayer]:
        return [layer for layer in self.layers if isinstance(layer, CausalLayer)]


class CausalLayer(torch.nn.Module):
    """Self-attention, perhaps a look into the memory, then a network of one hidden layer; what each finds is added."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.own, self.own_norm = CausalHeads(config), torch.nn.LayerNorm(config.dim)
        self.memory = None
        if config.memory is not None and config.memory.kind != "none":
            self.memory = make_memory(config.memory, config.dim, config.heads)
        self.network_norm = torch.nn.LayerNorm(config.dim)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(config.dim, config.hidden_dim),
            torch.nn.GELU(),
            torch.nn.Linear(config.hidden_dim, config.dim),
        )
        self.dropout = torch.nn.Dropout(config.dropout)

    def begin(self, x: Tensor, page: int | None = None) -> State:
        """Return what is kept of texts that have not begun, for states like ``x [B, *, dim]``."""
        kept: State = {"own": self.own.initial(x, page)}
        if self.memory is not None:
            kept |= {"memory": self.memory.initial_state(len(x)), "read": x[:, :0]}
        return kept

    def forward(self, h: Tensor, kept: State, full: bool) -> tuple[Tensor, State]:
        x = self.own_norm(h)
        found, own = self.own(x, kept["own"])
        new: dict[str, Any] = {"own": own}
        if self.memory is not None:
            past = kept["memory"]
            context, density = self.memory(x, past)
            found = found + context
            if isinstance(self.memory, LongTermMemory) and self.memory.sticky:
                past = self.memory.observe(past, density)
            read = torch.cat([kept["read"].to(x.dtype), x], 1)
            if full:
                past, read = self.memory.update(past, read), x[:, :0]
            new |= {"memory": past, "read": read}
        if full:
            new["own"] = self.own.initial(x)
        h = h + self.dropout(found)
        return h + self.dropout(self.network(self.network_norm(h))), new
