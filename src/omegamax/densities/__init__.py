"""Densities over time and space, native to ``torch.distributions``: continuous softmax, sparsemax and their kin."""

from omegamax.densities._base import Density as Density
from omegamax.densities._beta_gaussian import BetaGaussian as BetaGaussian
