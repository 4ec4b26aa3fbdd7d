"""Measures of attention maps, of answers and captions, and of the words that are said to explain them.

Functions need torch alone. The classes of the same names collect a mean over examples and processes as metrics of
torchmetrics, which is imported when one of them is asked for: ``pip install 'omegamax[train]'``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omegamax.metrics._agreement import krippendorff_alpha as krippendorff_alpha
from omegamax.metrics._captions import caption_scores as caption_scores
from omegamax.metrics._captions import find_tokeniser as find_tokeniser
from omegamax.metrics._captions import missing_scores as missing_scores
from omegamax.metrics._captions import split_caption as split_caption
from omegamax.metrics._communication import communication_success as communication_success
from omegamax.metrics._communication import simulatability as simulatability
from omegamax.metrics._confidence import ConfidenceCurve as ConfidenceCurve
from omegamax.metrics._confidence import confidence_curve as confidence_curve
from omegamax.metrics._coverage import drop_score as drop_score
from omegamax.metrics._coverage import rep_score as rep_score
from omegamax.metrics._erasure import comprehensiveness as comprehensiveness
from omegamax.metrics._erasure import sufficiency as sufficiency
from omegamax.metrics._grid import on_grid as on_grid
from omegamax.metrics._jensen_shannon import jensen_shannon as jensen_shannon
from omegamax.metrics._objects import COCO_SYNONYMS as COCO_SYNONYMS
from omegamax.metrics._objects import mentioned_objects as mentioned_objects
from omegamax.metrics._predictions import best_epsilon as best_epsilon
from omegamax.metrics._predictions import epsilon_perplexity as epsilon_perplexity
from omegamax.metrics._predictions import jensen_shannon_score as jensen_shannon_score
from omegamax.metrics._predictions import sparsemax_score as sparsemax_score
from omegamax.metrics._predictions import support_size as support_size
from omegamax.metrics._rank_correlation import rank_correlation as rank_correlation
from omegamax.metrics._rationales import auprc as auprc
from omegamax.metrics._rationales import iou_f1 as iou_f1
from omegamax.metrics._rationales import roc_auc as roc_auc
from omegamax.metrics._rationales import token_f1 as token_f1
from omegamax.metrics._repetition import distinct as distinct
from omegamax.metrics._repetition import ngram_repetition as ngram_repetition
from omegamax.metrics._repetition import rep as rep
from omegamax.metrics._repetition import wrep as wrep
from omegamax.metrics._shape import entropy as entropy
from omegamax.metrics._shape import mass_inside as mass_inside
from omegamax.metrics._shape import zero_area as zero_area
from omegamax.metrics._vqa import vqa_accuracy as vqa_accuracy

if TYPE_CHECKING:
    from omegamax.metrics._caption_torchmetrics import CaptionScores as CaptionScores
    from omegamax.metrics._caption_torchmetrics import DropScore as DropScore
    from omegamax.metrics._caption_torchmetrics import MentionedObjects as MentionedObjects
    from omegamax.metrics._caption_torchmetrics import RepScore as RepScore
    from omegamax.metrics._caption_torchmetrics import TokenRate as TokenRate
    from omegamax.metrics._language_torchmetrics import Distinct as Distinct
    from omegamax.metrics._language_torchmetrics import EpsilonPerplexity as EpsilonPerplexity
    from omegamax.metrics._language_torchmetrics import JensenShannonScore as JensenShannonScore
    from omegamax.metrics._language_torchmetrics import Repetition as Repetition
    from omegamax.metrics._language_torchmetrics import SparsemaxScore as SparsemaxScore
    from omegamax.metrics._language_torchmetrics import SupportSize as SupportSize
    from omegamax.metrics._text_torchmetrics import AUPRC as AUPRC
    from omegamax.metrics._text_torchmetrics import IOUF1 as IOUF1
    from omegamax.metrics._text_torchmetrics import CommunicationSuccess as CommunicationSuccess
    from omegamax.metrics._text_torchmetrics import Comprehensiveness as Comprehensiveness
    from omegamax.metrics._text_torchmetrics import RocAUC as RocAUC
    from omegamax.metrics._text_torchmetrics import Simulatability as Simulatability
    from omegamax.metrics._text_torchmetrics import Sufficiency as Sufficiency
    from omegamax.metrics._text_torchmetrics import TokenF1 as TokenF1
    from omegamax.metrics._torchmetrics import Entropy as Entropy
    from omegamax.metrics._torchmetrics import JensenShannon as JensenShannon
    from omegamax.metrics._torchmetrics import MassInside as MassInside
    from omegamax.metrics._torchmetrics import RankCorrelation as RankCorrelation
    from omegamax.metrics._torchmetrics import VQAAccuracy as VQAAccuracy
    from omegamax.metrics._torchmetrics import ZeroArea as ZeroArea

_MODULES = {
    "_caption_torchmetrics": ("CaptionScores", "DropScore", "MentionedObjects", "RepScore", "TokenRate"),
    "_language_torchmetrics": (
        "Distinct",
        "EpsilonPerplexity",
        "JensenShannonScore",
        "Repetition",
        "SparsemaxScore",
        "SupportSize",
    ),
    "_text_torchmetrics": (
        "AUPRC",
        "CommunicationSuccess",
        "Comprehensiveness",
        "IOUF1",
        "RocAUC",
        "Simulatability",
        "Sufficiency",
        "TokenF1",
    ),
    "_torchmetrics": ("Entropy", "JensenShannon", "MassInside", "RankCorrelation", "VQAAccuracy", "ZeroArea"),
}
_CLASSES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_CLASSES[name]}")
    except ImportError as error:
        message = f"{__name__}.{name} is a metric of torchmetrics: pip install 'omegamax[train]'"
        raise ImportError(message) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES})
