"""Basis functions over time and space, and value functions fitted with them."""

from omegamax.basis._base import Basis as Basis
from omegamax.basis._fourier import Fourier as Fourier
from omegamax.basis._polynomial import Polynomial as Polynomial
from omegamax.basis._radial import GaussianRBF as GaussianRBF
from omegamax.basis._radial import TruncatedParaboloidRBF as TruncatedParaboloidRBF
from omegamax.basis._rectangles import Rectangles as Rectangles
from omegamax.basis._ridge import RidgeFit as RidgeFit
from omegamax.basis.grid import grid_positions as grid_positions
