"""What is measured of answers and of the maps they were read from."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from omegamax.data import KINDS
from omegamax.densities import Mixture
from omegamax.metrics import JensenShannon, MassInside, VQAAccuracy, ZeroArea
from omegamax.models.mcan import Answer


class ComponentCount(Metric):
    """How many examples had 1, 2, ... components in their mixture, ``[most + 1]``; index 0 counts none.

    >>> count = ComponentCount()
    >>> count.update(torch.tensor([1, 3, 1]))
    >>> count.compute()[:4]
    tensor([0, 2, 0, 1])
    """

    full_state_update = False
    count: Tensor

    def __init__(self, most: int = 256, **options: Any):
        super().__init__(**options)
        self.add_state("count", torch.zeros(most + 1, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, components: Tensor) -> None:
        """Add a batch of component counts ``[B]``."""
        self.count = self.count + torch.bincount(components, minlength=len(self.count))

    def compute(self) -> Tensor:
        """Return the counts."""
        return self.count


class Scores(torch.nn.Module):
    """Measures of a split, collected over batches and processes.

    ``update(answer, batch, maps=True)`` and ``compute()``, a dict: ``accuracy`` over all questions,
    ``accuracy_yes_no`` and so on for each kind; and of the maps ``divergence`` (Jensen-Shannon, in bits, to the maps of
    what is relevant), ``inside`` (the mass in relevant cells) and ``zero`` (the share of cells without attention). What
    had no example is left out. ``components()`` is the histogram of the number of components, a dict.
    """

    def __init__(self) -> None:
        super().__init__()
        settings: dict[str, Any] = {"dim": (-2, -1), "undefined": "skip"}
        self.accuracy = VQAAccuracy(KINDS)
        self.divergence, self.inside = JensenShannon(**settings), MassInside(**settings)
        self.zero = ZeroArea(**settings)
        self.count = ComponentCount()

    def update(self, answer: Answer, batch: dict[str, Any], maps: bool = True) -> None:
        """Add a batch; without ``maps`` only its answers."""
        self.accuracy.update(answer.logits, batch["answers"], batch["kind"])
        if not maps:
            return
        weights, cells = answer.attention.weights, answer.attention.grid.mask
        mask = None if cells is None else cells.view_as(weights)
        self.zero.update((~answer.attention.empty()).float(), mask=mask)
        if isinstance(answer.attention.density, Mixture):
            self.count.update(answer.attention.density.component_count)
        if "relevance" in batch:
            known = batch["relevance"].flatten(1).any(1)  # elsewhere there is nothing to compare with
            relevance, weights = batch["relevance"][known], weights[known]
            mask = None if mask is None else mask[known]
            self.divergence.update(weights, relevance, mask=mask)
            self.inside.update(weights, relevance > 0, mask=mask)

    def compute(self) -> dict[str, float]:
        """Return the means over all examples so far."""
        with warnings.catch_warnings():
            # A set without maps never updates some of them; every process must ask all the same.
            warnings.filterwarnings("ignore", ".*`compute`.* was called before the ``update``.*", UserWarning)
            by_kind = {name: float(value) for name, value in self.accuracy.compute().items()}
            values = {"accuracy": by_kind.pop("overall")}
            values |= {f"accuracy_{name.replace('/', '_')}": value for name, value in by_kind.items()}
            values |= {name: float(getattr(self, name).compute()) for name in ("divergence", "inside", "zero")}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def components(self) -> dict[int, int]:
        """Tell how many examples had k components, for each k that occurred."""
        return {k: n for k, n in enumerate(self.count.count.tolist()) if n}

    def reset(self) -> None:
        """Forget all examples."""
        for metric in (self.accuracy, self.divergence, self.inside, self.zero, self.count):
            metric.reset()
