"""Scores of words become a rationale: weights in training, whole words in evaluation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax.kernels.structures.oracles import sequential_subset
from omegamax.maps import KSubsets
from omegamax.mixed import HardConcrete
from omegamax.models.text.rationale_config import RationaleConfig
from omegamax.structured import Budget, FactorGraph, Pair

_STRETCH = 1.2  # to (-0.1, 1.1)


class WordSelector(torch.nn.Module):
    r"""Scores of words become weights in [0, 1]: ``forward(z [B, L], mask [B, L])`` returns them and a penalty.

    With the number k of words that a text of n is to have, and the temperature t, the weights of all selectors but hard
    concrete are in training

    .. math:: \arg\max_{u \in [0, 1]^n} \langle z / t, u \rangle + \sum_i s \, v_i - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad \textstyle\sum_i u_i = k,

    where ``"k_subsets"`` has no transition score s, ``"sequential_k_subsets"`` has marginals u and v, of words and of
    neighbours, of one distribution over sequences, and ``"budget"`` has :math:`\sum_i u_i \le k` and asks no more of v
    than that each pair agrees with its two words: LP-SparseMAP, which is :func:`omegamax.fusedmax` where neighbours
    earn, and an iterative solver's where they cost. In evaluation the square is gone, and the weights are those of one
    best set of words, 0 or 1: exactly k, or with a budget at most k.

    Hard concrete draws each weight at random in training, and has a penalty, an augmented Lagrangian of the constraint
    that it chooses as many words as it should, in the mean over a batch:

    .. math:: \lambda c + \frac\mu2 c^2, \qquad
              c = \frac1B \sum_b \frac1{n_b} \Bigl(\sum_i P(u_{bi} \ne 0) - k_b^a n_b^{1 - a}\Bigr), \qquad
              \lambda \leftarrow \lambda + \eta c

    With a constant penalty the reader sees too few words before it has learnt anything, or all of them for ever. So the
    number falls from n to k, a being the share of ``anneal`` steps that are done, and the multiplier :math:`\lambda`
    finds what holds it there. Both are buffers, ``multiplier`` and ``steps``, and are saved with the weights. In
    evaluation a text has its k likeliest words, each with the median of its weights other than 0.

        >>> select = WordSelector(RationaleConfig("sequential_k_subsets", k=2, temperature=1.0, transition=0.5))
        >>> select(torch.tensor([[1.0, 0.5, 0.0, 0.875]]), torch.ones(1, 4, dtype=torch.bool))
        (tensor([[0.7500, 0.5625, 0.2500, 0.4375]]), None)
        >>> select.eval()(torch.tensor([[1.0, 0.5, 0.0, 0.875]]), torch.ones(1, 4, dtype=torch.bool))
        (tensor([[1., 1., 0., 0.]]), None)

    Reference: constraints on the length of hard concrete by a multiplier, Bastings, Aziz and Titov (ACL 2019), Sec. 4.
    """

    multiplier: Tensor
    steps: Tensor

    def __init__(self, config: RationaleConfig):
        super().__init__()
        self.config = config
        if config.selector == "hard_concrete":
            self.register_buffer("multiplier", torch.zeros(()))
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        k = torch.tensor([self.config.count_words(n) for n in mask.sum(-1).tolist()], device=z.device)
        if self.config.selector == "hard_concrete":
            return self._draw(z, mask, k) if self.training else (self._take_likeliest(z, mask, k), None)
        scores = (z / self.config.temperature).masked_fill(~mask, -torch.inf)
        if self.config.selector == "k_subsets":
            if self.training:
                return functional.k_subsets(scores, k.to(z.dtype).unsqueeze(-1)), None
            return _mark_largest(scores, k, mask), None
        if self.config.selector == "budget" and self.training and self.config.transition >= 0:
            return _spend(scores, k.to(z.dtype).unsqueeze(-1), self.config.transition), None
        weights = torch.zeros_like(z)
        for each in sorted(set(k.tolist()) - {0}):  # texts of one batch are about as long as each other
            rows = (k == each).nonzero().squeeze(-1)
            chosen = self._weigh(scores[rows], each) if self.training else self._choose(scores[rows], each)
            weights = weights.index_copy(0, rows, chosen)
        return weights, None

    def _weigh(self, z: Tensor, k: int) -> Tensor:
        """Return the weights of texts that are to have the same number of words; with a budget neighbours cost."""
        s = self.config.transition
        if self.config.selector == "sequential_k_subsets":
            return functional.sequential_k_subsets(z, k, s)
        graph = FactorGraph()
        u = graph.variable_from(z - _find_excess(z + 2 * s, k), batch_dims=1)
        if z.shape[-1] > 1:
            graph.add(Pair(u[:-1], u[1:], s))
        graph.add(Budget(u, k))
        graph.solve(tol=1e-6)
        return u.value

    @torch.no_grad()
    def _choose(self, z: Tensor, k: int) -> Tensor:
        """Return the best set of words of such texts, 0 and 1."""
        pairs = torch.full_like(z[:, 1:], self.config.transition)
        best = sequential_subset(z, pairs, k, at_most=self.config.selector == "budget")
        return best.masked_fill(z.isnan().any(-1, keepdim=True), torch.nan)

    def _draw(self, z: Tensor, mask: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights by hard concrete, drawn at random, and the penalty; the multiplier makes its step."""
        p = HardConcrete(
            self.config.temperature,
            logits=torch.stack([z, torch.zeros_like(z)], -1),
            stretch=_STRETCH,
            validate_args=False,
        )
        weights = p.rsample()[..., 0].masked_fill(~mask, 0.0)
        n = mask.sum(-1).clamp(min=1).to(z.dtype)
        done = (self.steps.to(z.dtype) / self.config.anneal).clamp(max=1.0) if self.config.anneal else 1.0
        expected = self._find_probabilities(z, mask).sum(-1)
        excess = (expected / n - (k / n) ** done).mean()
        penalty = self.multiplier.to(excess, copy=True) * excess + 0.5 * self.config.penalty * excess.square()
        if bool(excess.isfinite()):  # a batch without texts has no mean
            self.multiplier += self.config.growth * excess.detach().to(self.multiplier)
        self.steps += 1
        return weights, penalty

    @torch.no_grad()
    def _take_likeliest(self, z: Tensor, mask: Tensor, k: Tensor) -> Tensor:
        """Return the weights by hard concrete of the k words that it would choose most often."""
        probability = self._find_probabilities(z, mask)
        # Half of the weights other than 0 have logistic noise above the logit of 1 - p / 2, which is log((2 - p) / p).
        noise = torch.log(2 - probability) - torch.nn.functional.logsigmoid(z - self._bound)
        s = torch.sigmoid((z + noise) / self.config.temperature)
        median = (_STRETCH * s - (_STRETCH - 1) / 2).clamp(0, 1)
        return median * _mark_largest(z.masked_fill(~mask, -torch.inf), k, mask)

    def _find_probabilities(self, z: Tensor, mask: Tensor) -> Tensor:
        """Return the probability that hard concrete gives a word a weight other than 0, ``[B, L]``; 0 for padding."""
        return torch.sigmoid(z - self._bound).masked_fill(~mask, 0.0)

    @property
    def _bound(self) -> float:
        """Return the sum of score and noise below which a weight of hard concrete is 0."""
        return self.config.temperature * math.log((_STRETCH - 1) / (_STRETCH + 1))


def _mark_largest(scores: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Return 1 for the k ``[B]`` words of highest score ``[B, L]``, of equal ones the first, and 0 for others.

    A NaN spoils its text.
    """
    order = scores.argsort(dim=-1, descending=True, stable=True)
    first = torch.arange(scores.shape[-1], device=scores.device) < k.unsqueeze(-1)
    found = torch.zeros_like(scores).scatter(-1, order, first.to(scores.dtype))
    return found.masked_fill(~mask, 0.0).masked_fill(scores.isnan().any(-1, keepdim=True) & mask, torch.nan)


def _spend(z: Tensor, k: Tensor, transition: float) -> Tensor:
    r"""Return weights of LP-SparseMAP with a budget of k ``[B, 1]`` words and a transition score s >= 0.

    A pair's marginal is as large as its two words let it be, and

    .. math:: s \min(u_i, u_{i+1}) = \tfrac s2 (u_i + u_{i+1}) - \tfrac s2 |u_i - u_{i+1}|,

    so that each word earns s / 2 for each of its neighbours, and total variation takes s / 2.
    """
    beside = torch.nn.functional.pad((z != -torch.inf).to(z.dtype), (1, 1))
    earned = z + transition / 2 * (beside[:, 2:] + beside[:, :-2])
    return functional.fusedmax(earned, transition / 2, base=KSubsets(k, at_most=True))


@torch.no_grad()
def _find_excess(z: Tensor, k: int) -> Tensor:
    """Return how far the scores of texts may fall, ``[B, 1]``, before a budget of k words stops being spent.

    Scores are at least z whatever their pairs cost: where weights ``clip(z, 0, 1)`` would be more than k, the
    threshold that makes them k takes the same from all of them, and changes no solution. From there the solver starts
    close to its end.
    """
    p = functional.k_subsets(z, k, at_most=True)
    return (z - p).masked_fill(p == 1, -torch.inf).amax(-1, keepdim=True).clamp(min=0)
