"""What decoding gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences that were generated, K for each of B starts, without these.

    Attributes:
        tokens: ``[B, K, L]``, the end token included, padded behind it.
        log_probs: ``[B, K]`` in float64, ``-inf`` where a row has fewer than K sequences.
        lengths: ``[B, K]``, tokens of each, the end token included; 0 where there is none.
        finished: ``[B, K]``, whether a sequence ended by itself; the others were cut at ``max_length``.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    finished: Tensor

    def lists(self) -> list[list[list[int]]]:
        """Return the tokens as lists, without padding and without sequences that do not exist."""
        rows = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [[ids[:n] for ids, n in zip(*row, strict=True) if n] for row in rows]


@dataclass(frozen=True, eq=False)
class Beams(Sequences):
    """Sequences in falling order of their scores, and what is known about all others.

    Claims hold up to the rounding of the probabilities, and are about sequences as they are cut at ``max_length``.

    Attributes:
        scores: ``[B, K]``, what they are sorted by: their log-probabilities, unless divided by their lengths.
        bound: ``[B]``, a log-probability that no sequence outside exceeds; ``-inf`` if there is none.
        proven: ``[B]``, how many of the first sequences are certainly the best ones: none outside has a higher score.
    """

    scores: Tensor
    bound: Tensor
    proven: Tensor

    @property
    def exact(self) -> Tensor:
        """Return ``[B]``, whether the first sequence is certainly the best there is (ties aside)."""
        return self.proven > 0

    @property
    def complete(self) -> Tensor:
        """Return ``[B]``, whether these are all sequences with any probability."""
        return self.bound == -math.inf

    @property
    def mass(self) -> Tensor:
        """Return ``[B]``, the probability of all K sequences together; 1 to rounding if they are complete."""
        return self.log_probs.exp().sum(-1)
