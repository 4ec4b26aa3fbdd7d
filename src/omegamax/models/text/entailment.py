"""Does one sentence follow from another? A network whose hidden layer is the alignment of their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.models.text.alignment import AlignmentLayer, WordAlignment
from omegamax.models.text.classifier import WordReader
from omegamax.models.text.config import TextConfig


@dataclass(frozen=True, eq=False)
class EntailmentAnswer:
    """What a network says of pairs of sentences, and which words it compared.

    Args:
        logits: one for each class, ``[B, C]``.
        attention: the alignment of the words.
    """

    logits: Tensor
    attention: WordAlignment


class EntailmentClassifier(WordReader):
    r"""Two sentences, one encoder, the alignment of their words, and a comparison of what is aligned.

    .. math:: s_{ij} = h_i^\top g_j, \qquad c_i = \sum_j P_{ij} g_j, \qquad
              v_i = \mathrm{relu}(W [h_i; c_i; h_i - c_i; h_i \odot c_i] + b)

    and the same with the sentences exchanged. Means and maxima of v over the words of either sentence go through one
    layer with tanh to the classes. This is ESIM with pooling where that has another LSTM. Networks with different
    alignments have the same parameters, but for the seven of a sequence.

    Args:
        config: sizes, and ``alignment``, see :class:`AlignmentLayer`; ``score_dim`` is the size of v.
        embedding: of the words, to start from, ``[words, word_dim]``.

    ``forward(batch)`` takes ``words [B, n]`` and ``second [B, m]``, integers, 0 after the last word. Returns an
    :class:`EntailmentAnswer`.

        >>> config = TextConfig.small(words=20, classes=3, alignment="matching")
        >>> batch = {"words": torch.tensor([[3, 7, 2], [4, 0, 0]]), "second": torch.tensor([[5, 6], [8, 9]])}
        >>> answer = EntailmentClassifier(config).eval()(batch)
        >>> answer.logits.shape, answer.attention.onward.shape
        (torch.Size([2, 3]), torch.Size([2, 3, 2]))

    References: Chen et al., "Enhanced LSTM for natural language inference" (ACL 2017), eq. 11-15; the alignments,
    Niculae et al. (ICML 2018), Sec. 5.2.
    """

    def __init__(self, config: TextConfig, embedding: Tensor | None = None):
        super().__init__(config, embedding)
        if config.alignment is None:
            raise ValueError("EntailmentClassifier: config must have an alignment, got None")
        self.align = AlignmentLayer(config.alignment)
        self.compare = torch.nn.Linear(4 * config.state_dim, config.score_dim)
        units = torch.nn.Linear(4 * config.score_dim, config.score_dim), torch.nn.Tanh()
        self.classify = torch.nn.Sequential(*units, torch.nn.Linear(config.score_dim, config.classes))

    def forward(self, batch: Mapping[str, Any]) -> EntailmentAnswer:
        if "second" not in batch:
            raise ValueError("EntailmentClassifier: reads pairs, got single texts; for these, set no alignment")
        words, second = (self.check_words(key, batch.get(key)) for key in ("words", "second"))
        if len(words) != len(second):
            raise ValueError(f"EntailmentClassifier: second must have {len(words)} sentences, got {len(second)}")
        return self.read(self.embedding(words), words != 0, self.embedding(second), second != 0)

    def read(self, x: Tensor, mask: Tensor, y: Tensor, other: Tensor) -> EntailmentAnswer:
        """Return the answer to the embeddings of two sentences, ``[B, n, word_dim]`` and ``[B, m, word_dim]``."""
        h, g = self.encode(x, mask), self.encode(y, other)
        alignment = self.align(h @ g.mT, mask.unsqueeze(2) & other.unsqueeze(1))
        pooled = [*self._compare(h, g, alignment.onward, mask), *self._compare(g, h, alignment.back, other)]
        return EntailmentAnswer(self.classify(self.dropout(torch.cat(pooled, -1))), alignment)

    def _compare(self, h: Tensor, g: Tensor, weights: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and maximum over words of the comparison with what each is aligned to."""
        c = weights.to(g.dtype) @ g
        v = self.compare(torch.cat([h, c, h - c, h * c], -1)).relu()
        v = v.masked_fill(~mask.unsqueeze(-1), 0.0)  # below which relu never is
        return v.sum(1) / mask.sum(1, keepdim=True).clamp(min=1), v.amax(1)

    def extra_repr(self) -> str:
        return f"alignment={self.config.alignment!r}"
