"""The recurrent network: a bidirectional encoder, and a decoder that looks at the source for each word."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax.data.subwords import PAD
from omegamax.models.decoding import State
from omegamax.models.translation.config import TranslatorConfig
from omegamax.models.translation.look import LookResult, SourceLook
from omegamax.models.translation.translator import Alignment, Translator

_CELLS: dict[str, Any] = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


class RecurrentTranslator(Translator):
    r"""A bidirectional GRU or LSTM, additive attention, input feeding, and a bridge from encoder to decoder.

    .. math:: s_t = \mathrm{GRU}(s_{t-1}, [x_t; a_{t-1}]), \qquad a_t = \tanh(W [s_t; c_t]), \qquad
              s_0 = \tanh(B [\overrightarrow{h}_S; \overleftarrow{h}_1])

    :math:`c_t` is what a :class:`~omegamax.models.translation.look.SourceLook` with query :math:`s_t` sees; scores of
    the next word are an affine map of the attentional vector :math:`a_t`, which the next step reads too.

    Args:
        config: sizes, of a recurrent network.

        >>> config = TranslatorConfig.tiny(20, 30, architecture="recurrent", density="continuous_sparsemax")
        >>> model = RecurrentTranslator(config).eval()
        >>> found = model.align(torch.tensor([[5, 6, 2]]), torch.tensor([[8, 9, 7, 2]]))
        >>> found.weights.shape, len(found.densities)
        (torch.Size([1, 4, 3]), 4)

    References: Bahdanau, Cho & Bengio (ICLR 2015); input feeding and the attentional vector, Luong, Pham & Manning
    (EMNLP 2015); sizes, Martins et al. (NeurIPS 2020), Table 4.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__(config)
        cell, words = _CELLS[config.cell], config.embedding_dim
        settings: dict[str, Any] = {"num_layers": config.layers, "batch_first": True}
        settings["dropout"] = config.dropout if config.layers > 1 else 0.0
        self.encoder = cell(words, config.dim, bidirectional=True, **settings)
        self.bridge = torch.nn.Linear(2 * config.dim, config.dim)
        self.decoder = cell(words + (config.dim if config.input_feeding else 0), config.dim, **settings)
        self.look = SourceLook(config.dim, 2 * config.dim, config)
        self.combine = torch.nn.Linear(3 * config.dim, config.dim)

    def encode(self, source: Tensor) -> State:
        mask = source != PAD
        x = self.dropout(self.source_embedding(source))
        packed = pack_padded_sequence(x, mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False)
        out, last = self.encoder(packed)
        h, _ = pad_packed_sequence(out, batch_first=True, total_length=source.shape[1])
        last = last[0] if isinstance(last, tuple) else last  # [layers * 2, B, dim]
        start = torch.tanh(self.bridge(torch.cat([last[-2], last[-1]], -1)))
        hidden = start.unsqueeze(1).expand(-1, self.config.layers, -1)
        state: State = {"look": self.look.keep(h, mask, source), "hidden": hidden, "known": 0}
        if self.config.cell == "lstm":
            state["cell"] = hidden
        if self.config.input_feeding:
            state["fed"] = torch.zeros_like(start)
        return state

    def read(self, state: State, tokens: Tensor, look: bool = False) -> tuple[Tensor, Alignment | None]:
        found, looks = [], []
        x = self.dropout(self.embedding(tokens))
        for place in range(tokens.shape[1]):
            state, seen = self._step(state, x[:, place])
            found.append(state["found"])
            looks.append(seen)
        h = self.dropout(torch.stack(found, 1))
        if not look:
            return h, None
        densities = [seen.density for seen in looks if seen.density is not None] or None
        return h, Alignment(torch.stack([seen.weights for seen in looks], 1), densities)

    def advance(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        x = self.dropout(self.embedding(tokens[:, state["known"] :]))
        for place in range(x.shape[1]):
            state, _ = self._step(state, x[:, place])
        return self.dropout(state["found"]), state

    def _step(self, state: State, x: Tensor) -> tuple[State, LookResult]:
        """Read one word of each target."""
        x = torch.cat([x, state["fed"]], -1) if self.config.input_feeding else x
        hidden = state["hidden"].transpose(0, 1).contiguous()
        if self.config.cell == "lstm":
            out, (hidden, cell) = self.decoder(x.unsqueeze(1), (hidden, state["cell"].transpose(0, 1).contiguous()))
        else:
            out, hidden = self.decoder(x.unsqueeze(1), hidden)
        query = out[:, 0]
        seen = self.look(query, state["look"])
        found = torch.tanh(self.combine(self.dropout(torch.cat([query, seen.context], -1))))
        new = {**state, "look": seen.kept, "hidden": hidden.transpose(0, 1), "found": found}
        new["known"] = state["known"] + 1
        if self.config.cell == "lstm":
            new["cell"] = cell.transpose(0, 1)
        if self.config.input_feeding:
            new["fed"] = found
        return new, seen
