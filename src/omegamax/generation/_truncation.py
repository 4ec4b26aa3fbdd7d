"""Cutting predictions before a token is drawn: the remedies of softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_interval


@dataclass(frozen=True)
class Truncation:
    r"""Tokens that a prediction loses before one is drawn; what is left is made to sum to one again.

    A softmax gives probability to every token, and needs this; a sparse map has zeros of its own that training knew of.
    Of several rules each looks at what the one before has left. Ties are broken in favour of the smaller token.

    Args:
        top_k: keep the k most probable tokens; 1 is greedy.
        top_p: keep the fewest tokens, the most probable first, that have this probability together, in (0, 1]: nucleus.
        min_p: keep tokens with at least this share of the largest probability, in (0, 1].

    ``truncation(log_p [*, V])`` returns log-probabilities, ``-inf`` for what is cut.

        >>> log_p = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
        >>> [Truncation(**rule)(log_p).exp() for rule in ({"top_k": 1}, {"top_p": 0.6}, {"min_p": 0.25})]
        [tensor([1., 0., 0., 0.]), tensor([0.6250, 0.3750, 0.0000, 0.0000]), tensor([0.5263, 0.3158, 0.1579, 0.0000])]

    References: Fan, Lewis & Dauphin (ACL 2018), top-k; Holtzman et al. (ICLR 2020), nucleus; Nguyen et al. (ICLR 2025),
    min-p.
    """

    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        if self.top_k is not None:
            check_integer("Truncation", "top_k", self.top_k, least=1)
        for name in ("top_p", "min_p"):
            if getattr(self, name) is not None:
                check_interval("Truncation", name, getattr(self, name), "(0, 1]")

    @property
    def label(self) -> str:
        """Return the rules in words; empty if nothing is cut.

        >>> Truncation(top_k=1).label, Truncation(top_p=0.9, min_p=0.1).label, Truncation().label
        ('greedy', 'top-p 0.9, min-p 0.1', '')
        """
        if self.top_k == 1:
            return "greedy"
        rules = {"top-k": self.top_k, "top-p": self.top_p, "min-p": self.min_p}
        return ", ".join(f"{name} {value:g}" for name, value in rules.items() if value is not None)

    def __call__(self, log_p: Tensor) -> Tensor:
        if self.top_k is not None and self.top_k < log_p.shape[-1]:
            log_p = _keep(log_p, self._rank(log_p) < self.top_k)
        if self.top_p is not None and self.top_p < 1:
            ordered, order = log_p.sort(dim=-1, descending=True, stable=True)
            p = ordered.exp()
            before = p.cumsum(-1) - p  # of the tokens that are more probable
            kept = torch.zeros_like(p, dtype=torch.bool).scatter(-1, order, before < self.top_p)
            log_p = _keep(log_p, kept)
        if self.min_p is not None:
            log_p = _keep(log_p, log_p >= log_p.amax(-1, keepdim=True) + math.log(self.min_p))
        return log_p

    @staticmethod
    def _rank(log_p: Tensor) -> Tensor:
        """Return how many tokens are before each, the most probable first."""
        order = log_p.argsort(dim=-1, descending=True, stable=True)
        places = torch.arange(log_p.shape[-1], device=log_p.device).expand_as(order)
        return torch.empty_like(order).scatter(-1, order, places)


def _keep(log_p: Tensor, kept: Tensor) -> Tensor:
    """Return log-probabilities of what is kept, made to sum to one; a row without any stays as it is."""
    cut = log_p.masked_fill(~kept, -math.inf)
    total = cut.logsumexp(-1, keepdim=True)
    return cut - torch.where(total.isneginf(), 0.0, total)
