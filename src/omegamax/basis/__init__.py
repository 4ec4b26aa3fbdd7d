"""Basis functions over time and space, and value functions fitted with them."""

from omegamax.basis._base import Basis as Basis
from omegamax.basis._gaussian import GaussianRBF as GaussianRBF
from omegamax.basis._positions import grid_positions as grid_positions
