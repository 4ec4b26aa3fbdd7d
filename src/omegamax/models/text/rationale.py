"""A classifier that chooses a few words, and reads no others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.models.text.attention import WordAttention
from omegamax.models.text.classifier import TextAnswer, TextClassifier, make_encoder
from omegamax.models.text.config import TextConfig
from omegamax.models.text.selector import WordSelector


class RationaleClassifier(TextClassifier):
    """A generator chooses words, and a :class:`TextClassifier` reads them alone, as if nothing stood between them.

    The generator has an encoder and a scorer like those of the reader, and the same embedding. Each word that it
    chooses has a weight in (0, 1], which its embedding is multiplied by; a word whose weight is exactly 0 is not there
    for the reader. The answer's ``attention`` is how the rationale's weights are shared out. A text of which nothing is
    chosen, as may happen with ``"budget"`` (and in training with ``"hard_concrete"``), has no attention, and is
    answered by the bias.

    Args:
        config: with a ``rationale``; its ``attention`` is the reader's, over the chosen words, and discrete.
        embedding: as for :class:`TextClassifier`.

        >>> from omegamax.models.text import RationaleConfig
        >>> config = TextConfig.small(words=20, classes=3, rationale=RationaleConfig("k_subsets", k=2))
        >>> answer = RationaleClassifier(config).eval()({"words": torch.tensor([[3, 7, 2, 9], [4, 0, 0, 0]])})
        >>> answer.logits.shape, answer.rationale.sum(-1)
        (torch.Size([2, 3]), tensor([2., 1.]))

    References: Lei, Barzilay and Jaakkola, "Rationalizing neural predictions" (EMNLP 2016); Bastings, Aziz and Titov
    (ACL 2019), hard concrete in place of sampled bits; Guerreiro and Martins, "SPECTRA" (EMNLP 2021), LP-SparseMAP in
    its place; Santos et al. (ICML 2024), sequential k-subsets.
    """

    def __init__(self, config: TextConfig, embedding: Tensor | None = None):
        super().__init__(config, embedding)
        if config.rationale is None:
            raise ValueError("RationaleClassifier: config must have a rationale, got None")
        self.generator = make_encoder(config)
        last = torch.nn.Linear(config.score_dim, 1)
        torch.nn.init.ones_(last.bias)  # a score below 0 has no gradient where fewer words may be chosen
        self.score = torch.nn.Sequential(torch.nn.Linear(config.state_dim, config.score_dim), torch.nn.Tanh(), last)
        self.select = WordSelector(config.rationale)

    def read(self, x: Tensor, mask: Tensor, counts: Sequence[int] | None = None) -> TextAnswer:
        lengths = mask.sum(-1)
        h = self.dropout(self.generator(self.dropout(x), lengths, mask))
        z = self.score(h).squeeze(-1)
        weights, penalty = self.select(z.to(working_dtype(z)), mask)
        total = weights.sum(-1, keepdim=True)
        attention = WordAttention(lengths, mask, weights / torch.where(total == 0, 1.0, total))
        return TextAnswer(self.read_rationale(x, weights), attention, weights, penalty)

    def read_rationale(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return the logits of the reader, ``[B, C]``, given embeddings ``[B, L, word_dim]`` and weights ``[B, L]``."""
        chosen = weights != 0  # a NaN is
        count = chosen.sum(-1)
        longest = max(1, int(count.max())) if len(x) else 1
        order = (~chosen).to(torch.int8).argsort(dim=-1, stable=True)[:, :longest]  # the chosen words move to the front
        weighted = (x * weights.to(x.dtype).unsqueeze(-1)).gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        mask = torch.arange(longest, device=x.device) < count.unsqueeze(-1)
        return super().read(weighted.masked_fill(~mask.unsqueeze(-1), 0.0), mask).logits

    def extra_repr(self) -> str:
        assert self.config.rationale is not None
        return f"{super().extra_repr()}, selector={self.config.rationale.selector!r}"
