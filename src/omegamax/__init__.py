"""Every sparse, structured and continuous alternative to softmax, in one place.

Each map from scores to probabilities is ``argmax_p E_p[score] - Omega(p)`` for a convex regulariser Omega.
"""

from omegamax import basis as basis
from omegamax import densities as densities
from omegamax import functional as functional
from omegamax import generation as generation
from omegamax import hopfield as hopfield
from omegamax import losses as losses
from omegamax import metrics as metrics
from omegamax import mixed as mixed
from omegamax import mixtures as mixtures
from omegamax import nn as nn
from omegamax import structured as structured
from omegamax.functional import constrained_softmax as constrained_softmax
from omegamax.functional import constrained_sparsemax as constrained_sparsemax
from omegamax.functional import entmax as entmax
from omegamax.functional import entmax15 as entmax15
from omegamax.functional import escort as escort
from omegamax.functional import fusedmax as fusedmax
from omegamax.functional import generalized_covariance as generalized_covariance
from omegamax.functional import graph_fusedmax as graph_fusedmax
from omegamax.functional import k_subsets as k_subsets
from omegamax.functional import normmax as normmax
from omegamax.functional import oscar_prox as oscar_prox
from omegamax.functional import oscarmax as oscarmax
from omegamax.functional import sequential_k_subsets as sequential_k_subsets
from omegamax.functional import softmax as softmax
from omegamax.functional import sparsemax as sparsemax
from omegamax.functional import tv_prox_1d as tv_prox_1d
from omegamax.functional import tv_prox_2d as tv_prox_2d
from omegamax.functional import tv_prox_graph as tv_prox_graph
from omegamax.functional import tvmax as tvmax
from omegamax.kernels import backend as backend
from omegamax.losses import entmax15_loss as entmax15_loss
from omegamax.losses import entmax_loss as entmax_loss
from omegamax.losses import fenchel_young_loss as fenchel_young_loss
from omegamax.losses import k_subsets_loss as k_subsets_loss
from omegamax.losses import linear_entmax_loss as linear_entmax_loss
from omegamax.losses import normmax_loss as normmax_loss
from omegamax.losses import sharded_entmax_loss as sharded_entmax_loss
from omegamax.losses import softmax_loss as softmax_loss
from omegamax.losses import sparsemax_loss as sparsemax_loss
from omegamax.losses import squared_loss as squared_loss
from omegamax.maps import Bounded as Bounded
from omegamax.maps import Fused as Fused
from omegamax.maps import GraphFused as GraphFused
from omegamax.maps import KSubsets as KSubsets
from omegamax.maps import NormEntropy as NormEntropy
from omegamax.maps import Omega as Omega
from omegamax.maps import Oscar as Oscar
from omegamax.maps import SequentialKSubsets as SequentialKSubsets
from omegamax.maps import Shannon as Shannon
from omegamax.maps import SquaredNorm as SquaredNorm
from omegamax.maps import TotalVariation2d as TotalVariation2d
from omegamax.maps import Tsallis as Tsallis
from omegamax.maps import get as get
from omegamax.maps import match_sharpness as match_sharpness
from omegamax.maps import register as register
from omegamax.nn import attention as attention

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Find the function or the loss of a registered map."""
    from importlib.util import find_spec

    from omegamax.maps import find_companion

    # What is left to import is no map, and asking for it loads no packages.
    if not name.startswith("_") and find_spec(f"omegamax.{name}") is None:
        record = find_companion("name", name)
        if record is not None:
            return record.function
        record = find_companion("loss", name)
        if record is not None:
            return losses.make_loss(record)
    raise AttributeError(f"module 'omegamax' has no attribute {name!r}, nor is a registered map called so")
