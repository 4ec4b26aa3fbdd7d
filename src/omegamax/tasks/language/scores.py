"""What is measured of predictions of the next token."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from omegamax.data.subwords import PAD
from omegamax.generation import Truncation, log_probabilities
from omegamax.maps import Omega
from omegamax.metrics import EpsilonPerplexity, JensenShannonScore, Repetition, SparsemaxScore, SupportSize
from omegamax.models.language import LanguageModel

_ROWS = 4096  # predictions that are in memory at once, each over all tokens


class LanguageScores(torch.nn.Module):
    """Measures of a split, collected over batches and processes.

    ``compute()`` is a dict: ``loss``; ``perplexity``, infinite if a true token had no probability;
    ``epsilon_perplexity``; ``sparsemax_score``; ``jensen_shannon``; ``accuracy``, of the most probable token;
    ``support``, the mean number of tokens that could have come; ``rep`` and ``wrep``, of tokens drawn from the
    predictions, given the true ones before them.

    Args:
        epsilon: what is added to every probability for ``epsilon_perplexity``; None: the best for these data.
        truncation: what predictions lose before they are measured.
        seed: of what is drawn.
    """

    def __init__(self, epsilon: float | None = None, truncation: Truncation | None = None, seed: int = 0) -> None:
        super().__init__()
        self.truncation, self.seed = truncation or Truncation(), seed
        self.metrics = torch.nn.ModuleDict(
            {
                "loss": MeanMetric(),
                "perplexity": EpsilonPerplexity(0.0),
                "epsilon_perplexity": EpsilonPerplexity(epsilon),
                "sparsemax_score": SparsemaxScore(),
                "jensen_shannon": JensenShannonScore(),
                "accuracy": MeanMetric(),
                "support": SupportSize(),
                "rep": Repetition(),
                "wrep": Repetition(wrong=True),
            }
        )
        self._generator: torch.Generator | None = None

    @torch.no_grad()
    def update(self, model: LanguageModel, tokens: Tensor) -> None:
        """Add a batch of windows ``[B, T + 1]``, of which all but the first tokens are foretold."""
        hidden, _ = model.read(tokens[:, :-1], {})
        target, there = tokens[:, 1:], tokens[:, 1:] != PAD
        loss = model.output.loss(hidden, target, ignore_index=PAD)
        self._metric("loss").update(loss, there.sum())
        drawn = torch.full_like(target, PAD)
        rows, truth, said = hidden[there], target[there], []
        for state, wanted in zip(rows.split(_ROWS), truth.split(_ROWS), strict=True):
            p = self._predict(model.omega, model.output(state).float())
            for name in ("perplexity", "epsilon_perplexity", "sparsemax_score", "jensen_shannon", "support"):
                self._metric(name).update(p, wanted)
            self._metric("accuracy").update((p.argmax(-1) == wanted).float())
            said.append(torch.multinomial(p, 1, generator=self._draws(p.device))[:, 0])
        drawn[there] = torch.cat(said) if said else drawn[there]
        for name in ("rep", "wrep"):
            self._metric(name).update(drawn, target, there.sum(-1))

    def compute(self) -> dict[str, float]:
        """Return the measures over all tokens so far."""
        return {name: float(self._metric(name).compute()) for name in self.metrics}

    def find_epsilon(self) -> float:
        """Return the epsilon with which the perplexity of these data is the least."""
        metric = self.metrics["epsilon_perplexity"]
        assert isinstance(metric, EpsilonPerplexity)
        return metric.find_epsilon()

    def reset(self) -> None:
        """Forget all tokens, and draw the same again."""
        self._generator = None
        for name in self.metrics:
            self._metric(name).reset()

    def _predict(self, omega: Omega, scores: Tensor) -> Tensor:
        """Return the probabilities of scores ``[n, V]``, of which some may be cut."""
        return self.truncation(log_probabilities(scores, omega)).exp()

    def _draws(self, device: torch.device) -> torch.Generator:
        if self._generator is None:
            self._generator = torch.Generator(device).manual_seed(self.seed)
        return self._generator

    def _metric(self, name: str) -> Metric:
        metric = self.metrics[name]
        assert isinstance(metric, Metric)
        return metric


def known_epsilon(model: LanguageModel) -> float | None:
    """Return the epsilon that validation has found for a network, if any has."""
    value = float(model.epsilon)
    return None if math.isnan(value) else value
