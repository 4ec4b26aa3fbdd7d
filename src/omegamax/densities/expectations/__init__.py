"""Expectations of basis functions under densities: importing a file here registers what it computes."""

from omegamax.densities.expectations import _fourier as _fourier
from omegamax.densities.expectations import _gaussian_rbf as _gaussian_rbf
from omegamax.densities.expectations import _laplace as _laplace
from omegamax.densities.expectations import _laplace_fourier as _laplace_fourier
from omegamax.densities.expectations import _location_scale as _location_scale
from omegamax.densities.expectations import _paraboloid as _paraboloid
from omegamax.densities.expectations import _polynomial as _polynomial
from omegamax.densities.expectations import _product as _product
from omegamax.densities.expectations import _rectangles as _rectangles
from omegamax.densities.expectations._covariance import generalized_covariance as generalized_covariance
from omegamax.densities.expectations._gaussian_plane import PlaneRule as PlaneRule
from omegamax.densities.expectations._gaussian_plane import find_plane_rule as find_plane_rule
from omegamax.densities.expectations._product import product_nodes as product_nodes
