"""One look at the words of a text: weights over words, a density over the text, or a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from omegamax import nn
from omegamax._numerics import working_dtype
from omegamax.densities import Density
from omegamax.functional import sequential_k_subsets, softmax
from omegamax.models.attention_kind import weigh_subset
from omegamax.models.text.config import WordsConfig
from omegamax.models.text_basis import make_basis
from omegamax.nn.transforms import apply

_SAMPLES = 4  # points of a word at which its density is taken


@dataclass(frozen=True, eq=False)
class WordAttention:
    """Where a network looked: weights over the words, and the density over the text, if there is one.

    Args:
        lengths: words of each text, ``[B]``.
        mask: ``[B, L]``, True where there is a word.
        discrete: weights ``[B, L]`` that sum to one; None where the density does not come from any.
        density: of batch ``[B]``, over the unit interval that each text fills; or None.
        combined: whether the answer was read from both.
    """

    lengths: Tensor
    mask: Tensor
    discrete: Tensor | None = None
    density: Density | None = None
    combined: bool = False

    @cached_property
    def weights(self) -> Tensor:
        """Return the attention that each word was paid, ``[B, L]``: its weight, its share of the density, or the mean
        of both where they are combined."""
        if self.density is None:
            assert self.discrete is not None
            return self.discrete
        shares = self.shares()
        return (shares + self.discrete) / 2 if self.combined and self.discrete is not None else shares

    def shares(self) -> Tensor:
        """Return what each word has of the density, ``[B, L]``, from four points in each.

        Sums to one: what lies outside the text is not counted.
        """
        log, inside = self._logarithms()
        p = softmax(log.flatten(1), mask=inside.flatten(1))
        return p.unflatten(-1, (-1, _SAMPLES)).sum(-1)

    def empty(self) -> Tensor:
        """Return which words have exactly no attention, bool ``[B, L]``; padding is among them."""
        none = ~self.mask
        if self.density is not None:
            log, inside = self._logarithms()
            none = none | (log.isneginf() | ~inside).all(-1)
        if self.discrete is not None and (self.density is None or self.combined):
            zero = self.discrete == 0
            none = none | zero if self.density is None else none & zero
        return none

    def _logarithms(self) -> tuple[Tensor, Tensor]:
        """Return log-densities at points of the words, ``[B, L, 4]``, and which of them lie inside the text."""
        if self.density is None:
            raise ValueError("WordAttention: shares are those of a density, and this attention has none")
        like = self.density.mean
        length = self.mask.shape[1]
        steps = (torch.arange(length * _SAMPLES, device=like.device, dtype=like.dtype) + 0.5) / _SAMPLES
        points = steps / self.lengths.to(like).clamp(min=1).unsqueeze(-1)  # [B, 4 L]
        log = self.density.log_prob(points.T.unsqueeze(-1)).T
        inside = self.mask.unsqueeze(-1).expand(-1, -1, _SAMPLES)
        return log.unflatten(-1, (length, _SAMPLES)), inside


class TextAttention(torch.nn.Module):
    r"""One look at a text: ``forward(h [B, L, D], lengths [B], mask [B, L])`` returns context ``[B, D]`` and attention.

    .. math:: c = \sum_l p_l h_l \quad\text{or}\quad c = E_p[V(t)], \qquad z_l = v^\top \tanh(W h_l + b)

    A discrete kind maps the scores z of the words to weights p; a continuous one has a density p over the unit interval
    that the text fills, from the moments of weights or from a CNN, and takes the mean of the function V that ridge
    regression puts through the states h. Its matrix is computed once for each length; ``forward`` takes the lengths as
    a list, ``counts``, too, so that a GPU need not be asked for them. Without these, on a GPU, the matrices of all
    lengths are computed in the first call, and a CUDA graph can hold the step.

    Args:
        dim: features D of a word.
        hidden: units of the scorer.
        config: which kind.

        >>> look = TextAttention(8, 16, WordsConfig("continuous_sparsemax", functions=8))
        >>> lengths = torch.tensor([6, 2])
        >>> context, attention = look(torch.randn(2, 6, 8), lengths, torch.arange(6) < lengths[:, None])
        >>> context.shape, attention.weights.shape
        (torch.Size([2, 8]), torch.Size([2, 6]))

    References: Martins et al. (NeurIPS 2020), Sec. 4 and App. H.1; the scorer, without a query, Bahdanau et al. (ICLR
    2015).
    """

    def __init__(self, dim: int, hidden: int, config: WordsConfig):
        super().__init__()
        self.config = config
        self.score: torch.nn.Module | None = None
        self.encode: torch.nn.Module | None = None
        if config.source == "cnn":
            self.encode = MaxPoolCNN(dim, config.filters)
        else:
            units = torch.nn.Linear(dim, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1, bias=False)
            self.score = torch.nn.Sequential(*units)
        self.transform = config.make_transform()
        self.density: nn.ContinuousAttention | nn.MultimodalAttention | None = None
        if config.continuous:
            basis = make_basis(config.functions, config.widths)
            self.density = config.make_density(basis, config.filters if config.source == "cnn" else None)

    def forward(
        self, h: Tensor, lengths: Tensor, mask: Tensor, counts: Sequence[int] | None = None
    ) -> tuple[Tensor, WordAttention]:
        weights = None
        if self.score is not None:
            z = self.score(h).squeeze(-1)
            weights = self._weigh(z.to(working_dtype(z)).masked_fill(~mask, -torch.inf), mask)
        if self.density is None:
            assert weights is not None
            return torch.einsum("bl,bld->bd", weights.to(h.dtype), h), WordAttention(lengths, mask, weights)
        # By these the matrices of the regression are found; where they are on a GPU, nobody waits for them.
        known = lengths if counts is None else torch.tensor(counts, dtype=torch.long)
        if self.encode is not None:
            context, density = self.density(h, query=self.encode(h, mask), lengths=known)
        else:
            context, density = self.density(h, weights, lengths=known)
        return context, WordAttention(lengths, mask, weights, density, self.config.combined)

    def _weigh(self, z: Tensor, mask: Tensor) -> Tensor:
        """Return the weights of scores ``[B, L]``, which sum to one."""
        if self.transform is not None:
            return apply(self.transform, z)
        if self.config.kind == "k_subsets":
            return weigh_subset(z, self.config.k, mask)
        return weigh_subset(z, self.config.k, mask, partial(sequential_k_subsets, transition=self.config.transition))


class MaxPoolCNN(torch.nn.Module):
    """The largest value of each filter over a text: ``forward(h [B, L, D], mask [B, L])`` returns ``[B, filters]``.

    Filters are three words wide, and see zeros before and after the text.

        >>> MaxPoolCNN(8, 5)(torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)).shape
        torch.Size([2, 5])
    """

    def __init__(self, dim: int, filters: int):
        super().__init__()
        self.convolve = torch.nn.Conv1d(dim, filters, kernel_size=3, padding=1)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        absent = ~mask.unsqueeze(1)
        x = self.convolve(h.transpose(1, 2).masked_fill(absent, 0.0))
        # The largest of what relu leaves is what it leaves of the largest; padding, 0, is never more.
        return x.masked_fill(absent, 0.0).max(-1).values.relu()
