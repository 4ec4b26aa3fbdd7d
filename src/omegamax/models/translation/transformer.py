"""The transformer: attention by any map in encoder and decoder, and a cache for decoding word by word."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.data.subwords import PAD
from omegamax.models.decoding import State
from omegamax.models.text.classifier import encode_positions
from omegamax.models.translation.config import TranslatorConfig
from omegamax.models.translation.heads import Heads
from omegamax.models.translation.translator import Alignment, Translator


class TransformerTranslator(Translator):
    """Encoder and decoder of self-attention layers, each normed before it is read.

    Args:
        config: sizes, of a transformer.

        >>> model = TransformerTranslator(TranslatorConfig.tiny(20, 30, attention="entmax15")).eval()
        >>> batch = {"source": torch.tensor([[5, 6, 2], [7, 2, 0]]), "target": torch.tensor([[8, 9, 2], [4, 2, 0]])}
        >>> model(batch).shape, model.align(batch["source"], batch["target"]).weights.shape
        (torch.Size([2, 3, 30]), torch.Size([2, 3, 3]))

    References: Vaswani et al. (NeurIPS 2017); norms first, Xiong et al. (ICML 2020); one alpha for each head, Correia,
    Niculae & Martins (EMNLP 2019).
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__(config)
        self.encoder = torch.nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = torch.nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.encoder_norm, self.decoder_norm = torch.nn.LayerNorm(config.dim), torch.nn.LayerNorm(config.dim)

    @property
    def alphas(self) -> dict[str, Tensor] | None:
        """Return what each head maps its scores by, ``[layers, heads]`` of encoder, decoder and of its looks at the
        source, by name; None where the map has no alpha."""
        kinds = {
            "encoder": [layer.own.alpha for layer in self._encoder_layers()],
            "decoder": [layer.own.alpha for layer in self._decoder_layers()],
            "source": [layer.other.alpha for layer in self._decoder_layers()],
        }
        found = {name: [alpha for alpha in each if alpha is not None] for name, each in kinds.items()}
        return {name: torch.stack(each) for name, each in found.items()} if all(found.values()) else None

    def encode(self, source: Tensor) -> State:
        mask = source != PAD
        h = self._embed(self.source_embedding, source, 0)
        for layer in self._encoder_layers():
            h = layer(h, mask[:, None, None])
        h = self.encoder_norm(h)
        layers = [{"source": layer.other.keep(h), "own": layer.own.keep(h[:, :0])} for layer in self._decoder_layers()]
        return {"mask": mask, "layers": layers}

    def read(self, state: State, tokens: Tensor, look: bool = False) -> tuple[Tensor, Alignment | None]:
        h, _, seen = self._decode(state, tokens, look)
        if not look:
            return h, None
        heads = torch.stack([weights for weights in seen if weights is not None], 1)  # [B, layers, heads, T, S]
        return h, Alignment(heads[:, -1].mean(1), heads=heads)

    def advance(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        h, state, _ = self._decode(state, tokens, False)
        return h[:, -1], state

    def _decode(self, state: State, tokens: Tensor, look: bool) -> tuple[Tensor, State, list[Tensor | None]]:
        """Return states of the tokens that the search's state does not know, that state, and where they looked."""
        known = state["layers"][0]["own"]["keys"].shape[-2]
        h = self._embed(self.embedding, tokens[:, known:], known)
        layers, seen = [], []
        for layer, kept in zip(self._decoder_layers(), state["layers"], strict=True):
            h, kept, weights = layer(h, kept, state["mask"][:, None, None], look)
            layers.append(kept)
            seen.append(weights)
        return self.decoder_norm(h), {**state, "layers": layers}, seen

    def _encoder_layers(self) -> list[EncoderLayer]:
        return [layer for layer in self.encoder if isinstance(layer, EncoderLayer)]

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    def _embed(self, embedding: torch.nn.Embedding, tokens: Tensor, first: int) -> Tensor:
        x = embedding(tokens) * math.sqrt(self.config.dim)
        positions = encode_positions(first + tokens.shape[1], self.config.dim, x.device)[first:]
        return self.dropout(x + positions.to(x.dtype))


class EncoderLayer(torch.nn.Module):
    """Self-attention, then a network of one hidden layer; what each finds is added."""

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.own, self.own_norm = Heads(config), torch.nn.LayerNorm(config.dim)
        self.network, self.network_norm = _make_network(config), torch.nn.LayerNorm(config.dim)
        self.dropout = torch.nn.Dropout(config.dropout)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        x = self.own_norm(h)
        h = h + self.dropout(self.own(x, self.own.keep(x), mask)[0])
        return h + self.dropout(self.network(self.network_norm(h)))


class DecoderLayer(EncoderLayer):
    """The same with a look at the source in between; keys and values of words before are kept."""

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__(config)
        self.other, self.other_norm = Heads(config), torch.nn.LayerNorm(config.dim)

    def forward(  # type: ignore[override]
        self, h: Tensor, kept: dict[str, dict[str, Tensor]], mask: Tensor, look: bool
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]], Tensor | None]:
        x = self.own_norm(h)
        new, old = self.own.keep(x), kept["own"]
        own = {name: torch.cat([old[name], new[name]], -2) for name in new}
        h = h + self.dropout(self.own(x, own, causal=True)[0])
        found, weights = self.other(self.other_norm(h), kept["source"], mask, look=look)
        h = h + self.dropout(found)
        h = h + self.dropout(self.network(self.network_norm(h)))
        return h, {**kept, "own": own}, weights


def _make_network(config: TranslatorConfig) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(config.dim, config.hidden_dim),
        torch.nn.ReLU(),
        torch.nn.Dropout(config.dropout),
        torch.nn.Linear(config.hidden_dim, config.dim),
    )
