"""A language model in both directions: what embedding and LSTMs can start from, learnt from the training texts alone.

The LSTM that reads on tells the next word, the one that reads back the one before; the vectors of the words are those
of the embedding. It sees no class. Dai and Le, "Semi-supervised sequence learning" (NeurIPS 2015), do so for IMDB.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from sets import Part
from torch import Tensor
from training import batches

from omegamax.models.text.classifier import WordReader

SHARE = 0.25  # of the places of a batch, at which words are told
RATE, DROPOUT, BATCH = 3e-3, 0.2, 128


class LanguageModel(torch.nn.Module):
    """Tells words from the states of a reader: ``forward(words [B, L])`` returns the mean loss at places drawn."""

    def __init__(self, reader: WordReader) -> None:
        super().__init__()
        dim, hidden = reader.config.word_dim, reader.config.hidden_dim
        self.reader = reader
        self.ways = torch.nn.ModuleList(torch.nn.Linear(hidden, dim) for _ in range(2))
        self.bias = torch.nn.Parameter(torch.zeros(reader.config.words))

    def forward(self, words: Tensor) -> Tensor:
        mask = words != 0
        x = F.dropout(self.reader.embedding(words), DROPOUT, self.training)
        onward, back = self.reader.encoder(x, mask.sum(-1), mask).chunk(2, -1)
        there = mask[:, 1:] & (torch.rand(mask[:, 1:].shape, device=mask.device) < SHARE)
        wanted = torch.cat([words[:, 1:][there], words[:, :-1][there]])
        # Half precision for the scores of all words alone: cuDNN has no LSTM in bfloat16.
        with torch.autocast("cuda", torch.bfloat16) if x.is_cuda else nullcontext():
            states = self.ways[0](onward[:, :-1][there]), self.ways[1](back[:, 1:][there])
            h = F.dropout(torch.cat(states), DROPOUT, self.training)
            scale = self.reader.config.word_dim**-0.5  # vectors have a deviation of about one
            return F.cross_entropy(F.linear(h * scale, self.reader.embedding.weight, self.bias), wanted)


def pretrain(reader: WordReader, part: Part, device: str, epochs: int, seed: int = 0) -> dict[str, Tensor]:
    """Train a language model on the texts of a part; return the weights of embedding and encoder, on the CPU."""
    torch.manual_seed(seed)
    model = LanguageModel(reader).to(device).train()
    adam = torch.optim.Adam(model.parameters(), RATE, fused=device.startswith("cuda"))
    steps = epochs * -(-len(part) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=steps, pct_start=0.1)
    for epoch in range(epochs):
        for batch in batches(part, BATCH, seed, epoch):
            adam.zero_grad(set_to_none=True)
            loss = model(batch["words"])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            schedule.step()
        print(f"language model: epoch {epoch + 1}, loss {loss.item():.3f}", flush=True)
    state = reader.state_dict()
    return {name: value.cpu() for name, value in state.items() if name.startswith(("embedding.", "encoder."))}
