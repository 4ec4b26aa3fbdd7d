"""A classifier that chooses a few words, and reads no others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax import functional
from omegamax._numerics import working_dtype
from omegamax.mixed import HardConcrete
from omegamax.models.text.attention import WordAttention
from omegamax.models.text.classifier import TextAnswer, TextClassifier, make_encoder
from omegamax.models.text.config import TextConfig
from omegamax.models.text.rationale_config import RationaleConfig
from omegamax.structured import Budget, FactorGraph, Pair

_STRETCH = 1.2  # to (-0.1, 1.1)


class RationaleClassifier(TextClassifier):
    """A generator chooses words, and a :class:`TextClassifier` reads them alone, as if nothing stood between them.

    The generator has an encoder and a scorer like those of the reader, and the same embedding. Each word that it
    chooses has a weight in (0, 1], which its embedding is multiplied by; a word whose weight is exactly 0 is not there
    for the reader. The answer's ``attention`` is how the rationale's weights are shared out. A text of which nothing is
    chosen, as may happen with ``"budget"`` and ``"hard_concrete"``, has no attention, and is answered by the bias.

    Args:
        config: with a ``rationale``; its ``attention`` is the reader's, over the chosen words, and discrete.
        embedding: as for :class:`TextClassifier`.

        >>> config = TextConfig.small(words=20, classes=3, rationale=RationaleConfig("k_subsets", k=2))
        >>> answer = RationaleClassifier(config).eval()({"words": torch.tensor([[3, 7, 2, 9], [4, 0, 0, 0]])})
        >>> answer.logits.shape, answer.rationale.sum(-1)
        (torch.Size([2, 3]), tensor([2., 1.], grad_fn=<SumBackward1>))

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


class WordSelector(torch.nn.Module):
    r"""Scores of words become weights in [0, 1]: ``forward(z [B, L], mask [B, L])`` returns them and a penalty.

    With the number k of words that a text of n is to have, and the temperature t, the weights of all selectors but hard
    concrete are

    .. math:: \arg\max_{u \in [0, 1]^n} \langle z / t, u \rangle + \sum_i s \, v_i - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad \textstyle\sum_i u_i = k,

    where ``"k_subsets"`` has no transition score s, ``"sequential_k_subsets"`` has marginals u and v, of words and of
    neighbours, of one distribution over sequences, and ``"budget"`` has :math:`\sum_i u_i \le k` and asks no more of v
    than that each pair agrees with its two words. The penalty is None, but for hard concrete in training:

    .. math:: \lambda \, \mathrm{mean}_b \Bigl| \frac1{n_b} \sum_i P(u_i \ne 0) - \frac{k_b}{n_b} \Bigr|

    In evaluation a word has the likeliest of 0, 1 and what lies between, which stands for its median.

        >>> select = WordSelector(RationaleConfig("sequential_k_subsets", k=2, temperature=1.0, transition=0.5))
        >>> select(torch.tensor([[1.0, 0.5, 0.0, 0.875]]), torch.ones(1, 4, dtype=torch.bool))
        (tensor([[0.7500, 0.5625, 0.2500, 0.4375]]), None)
    """

    def __init__(self, config: RationaleConfig):
        super().__init__()
        self.config = config

    def forward(self, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        counts = [self.config.count_words(n) for n in mask.sum(-1).tolist()]
        if self.config.selector == "hard_concrete":
            return self._draw(z, mask, counts)
        scores = (z / self.config.temperature).masked_fill(~mask, -torch.inf)
        k = torch.tensor(counts, device=z.device)
        if self.config.selector == "k_subsets":
            return functional.k_subsets(scores, k.to(z.dtype).unsqueeze(-1)), None
        weights = torch.zeros_like(z)
        for each in sorted(set(counts) - {0}):  # texts of one batch are about as long as each other
            rows = (k == each).nonzero().squeeze(-1)
            weights = weights.index_copy(0, rows, self._choose(scores[rows], each))
        return weights, None

    def _choose(self, z: Tensor, k: int) -> Tensor:
        """Return the weights of texts that are to have the same number of words."""
        if self.config.selector == "sequential_k_subsets":
            return functional.sequential_k_subsets(z, k, self.config.transition)
        s = self.config.transition
        graph = FactorGraph()
        u = graph.variable_from(z - _find_excess(z + 2 * min(s, 0.0), k), batch_dims=1)
        if z.shape[-1] > 1:
            graph.add(Pair(u[:-1], u[1:], s))
        graph.add(Budget(u, k))
        graph.solve(tol=1e-6)
        return u.value

    def _draw(self, z: Tensor, mask: Tensor, counts: list[int]) -> tuple[Tensor, Tensor | None]:
        """Return weights by hard concrete, at random in training, and the penalty."""
        t, penalty = self.config.temperature, self.config.penalty
        logits = torch.stack([z, torch.zeros_like(z)], -1)
        p = HardConcrete(t, logits=logits, stretch=_STRETCH, validate_args=False)
        if self.training:
            lengths = mask.sum(-1)
            wanted = torch.tensor(counts, device=z.device)
            none = p.log_face_prob(torch.tensor([False, True], device=z.device))
            expected = (-none.expm1()).masked_fill(~mask, 0.0).sum(-1)
            share = (expected - wanted).abs() / lengths.clamp(min=1)
            return p.rsample()[..., 0].masked_fill(~mask, 0.0), penalty * share.mean()
        one, zero, between = p.face_probs().unbind(-1)
        median = functional.sparsemax(_STRETCH * functional.softmax(logits / t))[..., 0]
        likeliest = torch.where(one > torch.maximum(zero, between), torch.ones_like(z), median)
        weights = torch.where(zero > torch.maximum(one, between), torch.zeros_like(z), likeliest)
        return weights.masked_fill(~mask, 0.0), None


@torch.no_grad()
def _find_excess(z: Tensor, k: int) -> Tensor:
    """Return how far the scores of texts may fall, ``[B, 1]``, before a budget of k words stops being spent.

    Scores are at least z whatever their pairs earn or cost: where weights ``clip(z, 0, 1)`` would be more than k, the
    threshold that makes them k takes the same from all of them, and changes no solution. From there the solver starts
    close to its end.
    """
    p = functional.k_subsets(z, k, at_most=True)
    return (z - p).masked_fill(p == 1, -torch.inf).amax(-1, keepdim=True).clamp(min=0)
