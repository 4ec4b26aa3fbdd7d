"""The measures as metrics of torchmetrics: means over examples, batches and processes."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from omegamax._arguments import check_choice
from omegamax.metrics._jensen_shannon import jensen_shannon
from omegamax.metrics._map_cells import Dim, Map, Size, check_base
from omegamax.metrics._rank_correlation import rank_correlation
from omegamax.metrics._shape import entropy, mass_inside, zero_area


class _Mean(Metric):
    """The mean of a measure over all examples: every entry of the batch axes is one."""

    full_state_update = False
    count: Tensor
    skipped: Tensor

    def __init__(self, undefined: str, torchmetrics_options: dict[str, Any], **options: Any):
        super().__init__(**torchmetrics_options)
        check_choice(type(self).__name__, "undefined", undefined, ("nan", "skip"))
        self.undefined, self.options = undefined, options
        # A collection takes metrics for one and the same if the names and, after the first batch, the values of their
        # states agree, as those of different measures may: 0 and 0. So the name says what the sum is of.
        self._sum = "sum_" + re.sub(r"\W+", "_", repr(self)).strip("_")
        self.add_state(self._sum, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("skipped", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in {**self.options, "undefined": self.undefined}.items())

    def compute(self) -> Tensor:
        """Return the mean; NaN if there was no example."""
        return getattr(self, self._sum) / self.count

    def _add(self, values: Tensor, left_out: Tensor | None = None) -> None:
        """Add values; ``left_out`` says which are not defined, by default those that are NaN, if they are skipped."""
        if left_out is None:
            left_out = values.isnan() if self.undefined == "skip" else torch.zeros_like(values, dtype=torch.bool)
        total = torch.where(left_out, 0.0, values).sum(dtype=torch.float64)
        setattr(self, self._sum, getattr(self, self._sum) + total)
        self.skipped = self.skipped + left_out.sum()
        self.count = self.count + (~left_out).sum()


class _PlainMean(_Mean):
    """The mean of a measure that has no settings but those of every measure."""

    def __init__(
        self,
        *,
        dim: Dim | None = None,
        size: Size | None = None,
        samples: int = 1,
        undefined: str = "nan",
        **options: Any,
    ):
        super().__init__(undefined, options, dim=dim, size=size, samples=samples)


class JensenShannon(_Mean):
    r"""The mean Jensen-Shannon divergence between maps, see :func:`~omegamax.metrics.jensen_shannon`.

    ``update(p, q, mask=None)`` takes a batch of maps, or of densities if ``size`` is given. Metrics in a
    ``torchmetrics.MetricCollection`` are best called by keyword, ``collection(p=..., q=..., region=..., mask=...)``:
    each takes what it knows.

    Args:
        base, sqrt, dim, size, samples: as for the function.
        undefined: ``"nan"``: an example without a value (a map of zeros; for ranks a constant map; a NaN) makes the
            mean NaN; ``"skip"``: it is left out, and counted in ``skipped``.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> metric = JensenShannon(dim=(-2, -1))
        >>> metric.update(torch.ones(5, 4, 4), torch.eye(4).expand(5, 4, 4))
        >>> metric.update(torch.ones(1, 4, 4), torch.ones(1, 4, 4))
        >>> metric.compute()
        tensor(0.4573, dtype=torch.float64)
    """

    is_differentiable = True
    higher_is_better = False

    def __init__(
        self,
        *,
        base: float = 2.0,
        sqrt: bool = False,
        dim: Dim | None = None,
        size: Size | None = None,
        samples: int = 1,
        undefined: str = "nan",
        **options: Any,
    ):
        check_base(type(self).__name__, base)
        super().__init__(undefined, options, base=base, sqrt=sqrt, dim=dim, size=size, samples=samples)

    def update(self, p: Map, q: Map, mask: Tensor | None = None) -> None:
        """Add a batch of pairs of maps."""
        self._add(jensen_shannon(p, q, mask=mask, **self.options))


class RankCorrelation(_PlainMean):
    """The mean rank correlation between maps, see :func:`~omegamax.metrics.rank_correlation`.

    ``update(p, q, mask=None)``; arguments as for :class:`~omegamax.metrics.JensenShannon`. A map without order, all
    cells equal, is an example without a value.

        >>> metric = RankCorrelation()
        >>> metric(torch.tensor([0.1, 0.6, 0.3]), torch.tensor([[1.0, 3.0, 2.0], [3.0, 1.0, 2.0]]))
        tensor(0., dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = True

    def update(self, p: Map, q: Map, mask: Tensor | None = None) -> None:
        """Add a batch of pairs of maps."""
        self._add(rank_correlation(p, q, mask=mask, **self.options))


class MassInside(_PlainMean):
    """The mean share of attention in a region, see :func:`~omegamax.metrics.mass_inside`.

    ``update(p, region, mask=None)``; arguments as for :class:`~omegamax.metrics.JensenShannon`.

        >>> metric = MassInside()
        >>> metric(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([True, False, False]))
        tensor(0.2500, dtype=torch.float64)
    """

    is_differentiable = True
    higher_is_better = True

    def update(self, p: Map, region: Tensor, mask: Tensor | None = None) -> None:
        """Add a batch of maps with their regions."""
        self._add(mass_inside(p, region, mask=mask, **self.options))


class Entropy(_Mean):
    """The mean entropy of maps, see :func:`~omegamax.metrics.entropy`.

    ``update(p, mask=None)``; arguments as for :class:`~omegamax.metrics.JensenShannon`.

        >>> metric = Entropy()
        >>> metric(torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
        tensor(0.5000, dtype=torch.float64)
    """

    is_differentiable = True

    def __init__(
        self,
        *,
        base: float = 2.0,
        dim: Dim | None = None,
        size: Size | None = None,
        samples: int = 1,
        undefined: str = "nan",
        **options: Any,
    ):
        check_base(type(self).__name__, base)
        super().__init__(undefined, options, base=base, dim=dim, size=size, samples=samples)

    def update(self, p: Map, mask: Tensor | None = None) -> None:
        """Add a batch of maps."""
        self._add(entropy(p, mask=mask, **self.options))


class ZeroArea(_PlainMean):
    """The mean share of cells without attention, see :func:`~omegamax.metrics.zero_area`.

    ``update(p, mask=None)``; arguments as for :class:`~omegamax.metrics.JensenShannon`.

        >>> metric = ZeroArea()
        >>> metric(torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
        tensor(0.6250, dtype=torch.float64)
    """

    is_differentiable = False

    def update(self, p: Map, mask: Tensor | None = None) -> None:
        """Add a batch of maps."""
        self._add(zero_area(p, mask=mask, **self.options))


class VQAAccuracy(Metric):
    """The mean VQA accuracy, over all questions and by kind, in [0, 1], see :func:`~omegamax.metrics.vqa_accuracy`.

    ``update(choice, answers, kind)`` takes the chosen answers ``[B]`` (or logits ``[B, A]``, of which the largest is
    chosen), the scores of all answers ``[B, A]`` and the kinds ``[B]``, numbers into ``kinds``. A dict comes out:
    ``"overall"`` and every kind; NaN for what had no question.

    Args:
        kinds: names of the kinds.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> metric = VQAAccuracy()
        >>> answers = torch.tensor([[1.0, 0.0], [0.3, 0.9]])
        >>> result = metric(torch.tensor([0, 0]), answers, torch.tensor([0, 2]))
        >>> {kind: round(float(value), 2) for kind, value in result.items()}
        {'overall': 0.65, 'yes/no': 1.0, 'number': nan, 'other': 0.3}
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, kinds: tuple[str, ...] = ("yes/no", "number", "other"), **options: Any):
        super().__init__(**options)
        if not kinds or len(set(kinds)) < len(kinds) or "overall" in kinds:
            raise ValueError(f"{type(self).__name__}: kinds must be distinct names other than 'overall', got {kinds!r}")
        self.kinds = tuple(kinds)
        self.add_state("total", torch.zeros(len(kinds), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(len(kinds), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, choice: Tensor, answers: Tensor, kind: Tensor) -> None:
        """Add a batch of questions."""
        name = type(self).__name__
        if answers.dim() != 2 or kind.shape != answers.shape[:1] or choice.shape not in (kind.shape, answers.shape):
            shapes = ", ".join(str(tuple(t.shape)) for t in (choice, answers, kind))
            raise ValueError(f"{name}: wanted choice [B] or [B, A], answers [B, A] and kind [B], got {shapes}")
        index = choice if choice.dim() == 1 else choice.argmax(-1)
        scores = answers.gather(1, index[:, None])[:, 0].to(torch.float64)
        self.total = self.total.index_add(0, kind, scores)
        self.count = self.count.index_add(0, kind, torch.ones_like(kind, dtype=torch.int64))

    def compute(self) -> dict[str, Tensor]:
        """Return the mean accuracies by name."""
        by_kind = self.total / self.count
        overall = self.total.sum() / self.count.sum()
        return {"overall": overall, **dict(zip(self.kinds, by_kind, strict=True))}
