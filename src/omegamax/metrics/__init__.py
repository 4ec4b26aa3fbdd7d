"""Measures of attention maps: agreement of two of them, place, spread and empty area of one; and of answers.

Functions need torch alone. The classes of the same names collect a mean over examples and processes as metrics of
torchmetrics, which is imported when one of them is asked for: ``pip install 'omegamax[train]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omegamax.metrics._confidence import ConfidenceCurve as ConfidenceCurve
from omegamax.metrics._confidence import confidence_curve as confidence_curve
from omegamax.metrics._grid import on_grid as on_grid
from omegamax.metrics._jensen_shannon import jensen_shannon as jensen_shannon
from omegamax.metrics._rank_correlation import rank_correlation as rank_correlation
from omegamax.metrics._shape import entropy as entropy
from omegamax.metrics._shape import mass_inside as mass_inside
from omegamax.metrics._shape import zero_area as zero_area
from omegamax.metrics._vqa import vqa_accuracy as vqa_accuracy

if TYPE_CHECKING:
    from omegamax.metrics._torchmetrics import Entropy as Entropy
    from omegamax.metrics._torchmetrics import JensenShannon as JensenShannon
    from omegamax.metrics._torchmetrics import MassInside as MassInside
    from omegamax.metrics._torchmetrics import RankCorrelation as RankCorrelation
    from omegamax.metrics._torchmetrics import VQAAccuracy as VQAAccuracy
    from omegamax.metrics._torchmetrics import ZeroArea as ZeroArea

_CLASSES = ("Entropy", "JensenShannon", "MassInside", "RankCorrelation", "VQAAccuracy", "ZeroArea")


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from omegamax.metrics import _torchmetrics
    except ImportError as error:
        message = f"{__name__}.{name} is a metric of torchmetrics: pip install 'omegamax[train]'"
        raise ImportError(message) from error
    return getattr(_torchmetrics, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES})
