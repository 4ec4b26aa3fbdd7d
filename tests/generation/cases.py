"""Small models of sequences, and everything they can produce by plain enumeration."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

import omegamax


class Tree:
    """Scores that depend on every token before, drawn once for each beginning; some are ruled out, some tie."""

    def __init__(self, vocabulary: int, seed: int, scale: float = 1.0, ruled_out: float = 0.0, dtype=torch.float64):
        self.vocabulary, self.seed, self.scale, self.ruled_out, self.dtype = vocabulary, seed, scale, ruled_out, dtype
        self.calls: list[int] = []

    def scores(self, tokens: list[int]) -> list[float]:
        draw = random.Random(f"{self.seed} {tokens}")
        # Eighths, and temperatures that are powers of two: no rounding decides whether a token is in the support.
        row = [round(8 * self.scale * draw.gauss(0, 1)) / 8 for _ in range(self.vocabulary)]
        kept = draw.randrange(self.vocabulary)
        return [-math.inf if draw.random() < self.ruled_out and v != kept else z for v, z in enumerate(row)]

    def __call__(self, tokens: Tensor) -> Tensor:
        self.calls.append(len(tokens))
        return torch.tensor([self.scores(t) for t in tokens.tolist()], dtype=self.dtype)


def everything(model, start, omega, *, eos, max_length, min_length=0, temperature=1.0) -> dict[tuple[int, ...], float]:
    """Every sequence with its probability, nonzero ones only, by recursion over the tokens."""
    omega = omegamax.get(omega)
    found: dict[tuple[int, ...], float] = {}

    def grow(tokens: tuple[int, ...], p: float) -> None:
        if tokens and (tokens[-1] == eos or len(tokens) == max_length):
            found[tokens] = p
            return
        z = torch.tensor(model.scores([*start, *tokens]), dtype=torch.float64)
        z = (z - z.max()) / temperature
        if eos is not None and len(tokens) < min_length:
            z[eos] = -math.inf
        for v, q in enumerate(omega.argmax(z).tolist()):
            if q > 0:
                grow((*tokens, v), p * q)

    grow((), 1.0)
    return found
