"""From words to features that know their sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.models.mcan.blocks import SelfAttention
from omegamax.models.mcan.config import MCANConfig


class QuestionEncoder(torch.nn.Module):
    """Embedding, LSTM and self-attention layers: ``question [B, T] -> features [B, T, D], mask [B, T]``.

    Words are indices, 0 for padding; the mask is True at words. Padding goes after the words (the LSTM reads on
    through it, which changes nothing of what it said before), and what comes out there has no meaning.

    Args:
        config: sizes; ``words`` counts the padding too.
        embedding: the rows to start from, such as GloVe's, ``[words, word_dim]``. They are learnt on.

        >>> encode = QuestionEncoder(MCANConfig.small(words=20, answers=5))
        >>> y, mask = encode(torch.tensor([[3, 7, 0, 0]]))
        >>> y.shape, mask
        (torch.Size([1, 4, 64]), tensor([[ True,  True, False, False]]))

    Reference: Yu et al. (CVPR 2019), the encoder of Fig. 5.
    """

    def __init__(self, config: MCANConfig, embedding: Tensor | None = None):
        super().__init__()
        self.embedding = torch.nn.Embedding(config.words, config.word_dim)
        if embedding is not None:
            wanted = tuple(self.embedding.weight.shape)
            if tuple(embedding.shape) != wanted:
                given = tuple(embedding.shape)
                raise ValueError(f"QuestionEncoder: embedding must be [words, word_dim] = {wanted}, got shape {given}")
            with torch.no_grad():
                self.embedding.weight.copy_(embedding)
        self.lstm = torch.nn.LSTM(config.word_dim, config.hidden_dim, batch_first=True)
        self.layers = torch.nn.ModuleList(SelfAttention(*config.block()) for _ in range(config.layers))

    def forward(self, question: Tensor) -> tuple[Tensor, Tensor]:
        self._check(question)
        mask = question != 0
        y, _ = self.lstm(self.embedding(question))
        for layer in self.layers:
            y = layer(y, mask)
        return y, mask

    def _check(self, question: Tensor) -> None:
        name, words = "QuestionEncoder", self.embedding.num_embeddings
        if not isinstance(question, Tensor) or question.dtype not in (torch.int64, torch.int32):
            given = question.dtype if isinstance(question, Tensor) else type(question).__name__
            raise TypeError(f"{name}: question must hold integer word indices, got {given}")
        if question.dim() != 2 or question.shape[1] == 0:
            raise ValueError(f"{name}: question must be [B, T] with T >= 1, got shape {tuple(question.shape)}")
        if question.numel() and readable(question):
            low, high = (int(i) for i in question.aminmax())
            if low < 0 or high >= words:
                worst = low if low < 0 else high
                raise IndexError(f"{name}: question must hold indices in [0, {words}), the vocabulary, got {worst}")
