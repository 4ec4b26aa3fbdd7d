"""Fenchel-Young losses: for every map, the convex loss whose gradient is its probabilities minus the target."""

from omegamax.losses._fenchel_young import fenchel_young_loss as fenchel_young_loss
from omegamax.losses._linear import linear_entmax_loss as linear_entmax_loss
from omegamax.losses._named import entmax15_loss as entmax15_loss
from omegamax.losses._named import entmax_loss as entmax_loss
from omegamax.losses._named import k_subsets_loss as k_subsets_loss
from omegamax.losses._named import normmax_loss as normmax_loss
from omegamax.losses._named import softmax_loss as softmax_loss
from omegamax.losses._named import sparsemax_loss as sparsemax_loss
from omegamax.losses._sharded import sharded_entmax_loss as sharded_entmax_loss
