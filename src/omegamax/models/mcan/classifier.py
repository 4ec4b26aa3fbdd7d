"""From the features of question and image to one score for each answer."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional
from omegamax._numerics import working_dtype
from omegamax.models.mcan.blocks import FeedForward
from omegamax.models.mcan.config import MCANConfig


class AnswerClassifier(torch.nn.Module):
    r"""Attention over the words, fusion with what was seen in the image, and the scores of the answers.

    .. math:: s = W \, \mathrm{LayerNorm}(W_y \tilde y + W_x \tilde x), \qquad
              \tilde y = \sum_t \beta_t y_t, \quad \beta = \mathrm{softmax}(\mathrm{MLP}(y_1), ..., \mathrm{MLP}(y_T))

    ``forward(y [B, T, D], mask [B, T], context [B, D])`` returns the logits ``[B, A]`` and :math:`\beta` ``[B, T]``,
    which is 0 throughout for a question without words. Attention over the words is softmax in every model.

        >>> classify = AnswerClassifier(MCANConfig.small(words=20, answers=5))
        >>> logits, words = classify(torch.randn(2, 4, 64), torch.ones(2, 4, dtype=torch.bool), torch.randn(2, 64))
        >>> logits.shape, words.shape
        (torch.Size([2, 5]), torch.Size([2, 4]))

    Reference: Yu et al. (CVPR 2019); Farinhas, "Visual attention with sparse and continuous transformations" (thesis,
    2021), Sec. 6.2.1.
    """

    def __init__(self, config: MCANConfig):
        super().__init__()
        self.score = FeedForward(config.hidden_dim, config.flat_dim, config.dropout, 1)
        self.question = torch.nn.Linear(config.hidden_dim, config.fused_dim)
        self.image = torch.nn.Linear(config.hidden_dim, config.fused_dim)
        self.norm = torch.nn.LayerNorm(config.fused_dim)
        self.answer = torch.nn.Linear(config.fused_dim, config.answers)

    def forward(self, y: Tensor, mask: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        z = self.score(y).squeeze(-1)
        words = functional.softmax(z.to(working_dtype(z)), mask=mask)
        attended = torch.einsum("bt,btd->bd", words.to(y.dtype), y)
        fused = self.norm(self.question(attended) + self.image(context))
        return self.answer(fused), words
