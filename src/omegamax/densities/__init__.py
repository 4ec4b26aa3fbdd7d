"""Densities over time and space, native to ``torch.distributions``: continuous softmax, sparsemax and their kin."""

from omegamax.densities import _kl as _kl  # registers with torch
from omegamax.densities import _laplace_loss as _laplace_loss  # registers its rules
from omegamax.densities import _score_loss as _score_loss  # registers its rules
from omegamax.densities._base import Density as Density
from omegamax.densities._base import register_expectation as register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian as BetaGaussian
from omegamax.densities._fenchel_young import fenchel_young_loss as fenchel_young_loss
from omegamax.densities._grid import GridDensity as GridDensity
from omegamax.densities._laplace import BetaLaplace as BetaLaplace
from omegamax.densities._laplace import Laplace as Laplace
from omegamax.densities._laplace import Triangular as Triangular
from omegamax.densities._location_scale import LocationScale as LocationScale
from omegamax.densities._members import Biweight as Biweight
from omegamax.densities._members import Gaussian as Gaussian
from omegamax.densities._members import Triweight as Triweight
from omegamax.densities._members import TruncatedParaboloid as TruncatedParaboloid
from omegamax.densities._mixture import Mixture as Mixture
from omegamax.densities._quadrature import gauss_legendre_nodes as gauss_legendre_nodes
from omegamax.densities._wasserstein import wasserstein2 as wasserstein2
from omegamax.densities.expectations import generalized_covariance as generalized_covariance
from omegamax.densities.expectations import product_nodes as product_nodes
