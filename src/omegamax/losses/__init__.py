"""Fenchel-Young losses: for every map, the convex loss whose gradient is its probabilities minus the target."""

from collections.abc import Callable as _Callable

from omegamax.losses._classification import make_loss as make_loss
from omegamax.losses._fenchel_young import REDUCTIONS as REDUCTIONS
from omegamax.losses._fenchel_young import clip_negative as clip_negative
from omegamax.losses._fenchel_young import fenchel_young_loss as fenchel_young_loss
from omegamax.losses._linear import linear_entmax_loss as linear_entmax_loss
from omegamax.losses._named import entmax15_loss as entmax15_loss
from omegamax.losses._named import entmax_loss as entmax_loss
from omegamax.losses._named import k_subsets_loss as k_subsets_loss
from omegamax.losses._named import normmax_loss as normmax_loss
from omegamax.losses._named import softmax_loss as softmax_loss
from omegamax.losses._named import sparsemax_loss as sparsemax_loss
from omegamax.losses._sharded import sharded_entmax_loss as sharded_entmax_loss
from omegamax.losses._squared import squared_loss as squared_loss
from omegamax.losses._targets import check_smoothing as check_smoothing
from omegamax.maps import find_companion as _find_companion


def __getattr__(name: str) -> _Callable:
    """Find the loss of a registered map."""
    record = _find_companion("loss", name)
    if record is None:
        raise AttributeError(f"module 'omegamax.losses' has no attribute {name!r}, nor is a registered loss called so")
    return make_loss(record)
